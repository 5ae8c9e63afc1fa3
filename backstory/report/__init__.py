"""Self-contained HTML pages: of one window, and of an evaluation."""

from backstory.report.comparison import render_comparison_page, write_comparison_page
from backstory.report.thumbnail import draw_thumbnail, picture_windows
from backstory.report.window_page import render_window_page, write_window_page
from backstory.report.window_reading import read_window_report
from backstory.report.window_report import WindowReport
from backstory.report.window_tables import WindowTables, make_window_report

__all__ = [
    "WindowReport",
    "WindowTables",
    "draw_thumbnail",
    "make_window_report",
    "picture_windows",
    "read_window_report",
    "render_comparison_page",
    "render_window_page",
    "write_comparison_page",
    "write_window_page",
]
