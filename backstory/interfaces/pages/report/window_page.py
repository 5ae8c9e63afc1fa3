"""The page of one window."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from backstory.base.ids import digest
from backstory.base.local_times import name_zone, write_span
from backstory.interfaces.pages.report.documents import link_sources, list_chunks, list_kept
from backstory.interfaces.pages.report.heatmap import SHADES, draw_heatmap
from backstory.interfaces.pages.report.page import TrailLink, render_page, write_page
from backstory.interfaces.pages.report.palette import name_paint
from backstory.interfaces.pages.report.timeline import draw_timeline
from backstory.interfaces.pages.report.window_reading import read_window_report
from backstory.interfaces.pages.report.window_report import WindowReport
from backstory.interfaces.pages.report.wording import STATUS_WORDS, describe_moment
from backstory.pipeline.chats.copies import record_copy
from backstory.pipeline.rendered_pages import REPORTS_FOLDER
from backstory.pipeline.workspace import Workspace
from backstory.text.people import name_conversation

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def write_window_page(workspace: Workspace, window_id: str, output: Path | None = None) -> Path:
    """Write the page of a window.

    Args:
        workspace: A workspace with tables.
        window_id: Id of the window, or a unique beginning of it.
        output: The file to write; None for ``reports/<window_id>.html`` in the workspace.

    Returns:
        The written file.

    Raises:
        InputError: There is no such window, or it has no context yet.
    """
    report = read_window_report(workspace, window_id)
    path = output or workspace.root / REPORTS_FOLDER / name_page(report.window["window_id"])
    sources = link_sources(report, workspace.documents_dir, path.parent, workspace.root)
    write_page(path, render_window_page(report, sources))
    if output is not None:
        record_copy(workspace, path)
    return path


def name_page(window_id: str) -> str:
    """Return the file name of a window's page: its id, or a hash of an id that cannot name a file everywhere."""
    name = window_id if _FILE_NAME.fullmatch(window_id) else digest([window_id])
    return f"{name}.html"


def render_window_page(
    report: WindowReport, sources: Mapping[str, str], trail: Sequence[TrailLink] = ()
) -> str:
    """Render the page of a window as an HTML document.

    Args:
        report: From :func:`backstory.interfaces.pages.report.window_tables.make_window_report`.
        sources: From :func:`backstory.interfaces.pages.report.documents.link_sources`.
        trail: Links above the heading.
    """
    window, summary = report.window, report.summary
    span = write_span(window["started_at"], window["ended_at"])
    return render_page(
        "window.html",
        title=f"{name_conversation(window['conversation_id'])}, {span}",
        conversation=name_conversation(window["conversation_id"]),
        trail=trail,
        window=window,
        summary=summary,
        span=span,
        timezone=name_zone(window["started_at"]),
        notice=STATUS_WORDS[summary["status"]],
        report=report,
        timeline=draw_timeline(report),
        heatmap=draw_heatmap(report),
        kept=list_kept(report),
        chunks=list_chunks(report, sources),
        shades=SHADES,
        describe_moment=describe_moment,
        name_paint=name_paint,
    )
