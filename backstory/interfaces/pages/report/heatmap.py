"""A heatmap of queries by documents: how probable it is that each document tells something about each part."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.interfaces.pages.report.palette import name_paint
from backstory.interfaces.pages.report.window_report import Cell, Query, WindowReport
from backstory.interfaces.pages.report.wording import describe_cell
from backstory.text.prompts.entries import cut_line

DROPPED_COLUMNS = 15
"""Most columns for dropped documents. Kept documents are always shown."""

SHADES = 9
"""Number of shades, from probability 0 to 1."""

_ROW_CHARACTERS = 90


@dataclass(frozen=True)
class Column:
    """A document; ``rank`` is its best rank in the context, None if it was dropped."""

    document: int
    title: str
    rank: int | None
    paint: str


@dataclass(frozen=True)
class Shade:
    """A cell that holds a probability."""

    level: int
    text: str
    title: str
    kept: bool
    best: bool
    passed: bool


@dataclass(frozen=True)
class Row:
    """A query: its start, its text, and for every column a shade or None."""

    message: int
    when: str
    text: str
    granularity: str
    paint: str
    shades: tuple[Shade | None, ...]


@dataclass(frozen=True)
class Heatmap:
    """The rows and columns; ``more`` is the number of documents without a column."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    more: int


def draw_heatmap(report: WindowReport) -> Heatmap:
    """Lay out the highest probability of each query in each document.

    Returns:
        Rows in the order of the queries. Columns for the kept documents by rank, then for the best of the dropped
        ones, up to :data:`DROPPED_COLUMNS`; ``more`` is the number of documents without a column.
    """
    shown = len(report.kept_documents) + DROPPED_COLUMNS
    columns = tuple(
        Column(
            document=place,
            title=document.title,
            rank=document.ranks[0] if document.ranks else None,
            paint=name_paint(place) if document.ranks else "",
        )
        for place, document in enumerate(report.documents[:shown])
    )
    cells = {(cell.query, cell.document): cell for cell in report.cells if cell.document < len(columns)}

    def shade(cell: Cell | None, query: Query) -> Shade | None:
        if cell is None:
            return None
        return Shade(
            level=min(int(cell.probability * SHADES), SHADES - 1),
            text=f"{cell.probability:.2f}".removeprefix("0"),
            title=describe_cell(report, cell),
            kept=cell.kept,
            best=cell.document == query.document,
            passed=cell.passed,
        )

    rows = tuple(
        Row(
            message=query.first,
            when=f"{report.messages[query.first].timestamp:%H:%M}" if report.messages else "",
            text=cut_line(query.text, _ROW_CHARACTERS),
            granularity=query.granularity,
            paint=name_paint(query.document),
            shades=tuple(shade(cells.get((place, column.document)), query) for column in columns),
        )
        for place, query in enumerate(report.queries)
    )
    return Heatmap(columns, rows, len(report.documents) - len(columns))
