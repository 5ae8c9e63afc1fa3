"""Result of one stage of the pipeline, in numbers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from backstory.base.telemetry.logs import PRINTED, log_event
from backstory.base.wording import shorten
from backstory.storage.tables.tables import WHOLE
from backstory.text.prompts.escaping import escape_line

"""Logger of the reports: every record carries its :class:`StageResult` as ``report``."""

UNREAD_STATUSES: Final = ("set_aside", "failed")
"""Statuses of files that need a person's attention."""

_CELL_CHARACTERS = 60
_PREVIEW_ROWS = 5

CLEARED: Final = "cleared"
"""Count that holds a sentence: which copies of dropped rows were deleted, and which are left."""

_NAMING: Final = frozenset({"undated_documents"})
"""Figures that name documents; others count the same ones."""

_SPENT: Final = ("embedding_", "rerank", "writing_", "api_cost", CLEARED)
"""Beginnings of the names of the counts of work, not of rows."""

_ARE_PARTS: Final[ContextVar[bool]] = ContextVar("are_parts", default=False)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageResult:
    """Counts and timings of one stage of one run.

    Attributes:
        table: The table that the stage writes.
        rows: Rows of the wanted partitions, whether written now or earlier.
        partitions: Number of wanted partitions (1 for a table without partitions).
        computed: Number of partitions that this run rebuilt; the rest were unchanged.
        seconds: Wall-clock time.
        counts: Further figures by name.
        preview: Some of the rebuilt rows.
        stopped: Which budget or limit left rows that wait for a later run; None if none did.
    """

    table: str
    rows: int
    partitions: int
    computed: int
    seconds: float
    counts: Mapping[str, int | float | str] = field(default_factory=dict)
    preview: pl.DataFrame = field(default_factory=pl.DataFrame)
    stopped: str | None = None

    @property
    def figures(self) -> dict[str, int | float | str]:
        """All figures by name, for logs and traces."""
        return {
            "rows": self.rows,
            "partitions": self.partitions,
            "computed": self.computed,
            "seconds": round(self.seconds, 3),
            **_leave_out_names(self.counts),
        }

    @property
    def unchanged(self) -> bool:
        """Whether nothing had to be rebuilt."""
        return self.computed == 0


def join_reports(reports: Sequence[StageResult]) -> StageResult:
    """Add up the reports of one stage about different partitions; the reports must not be empty."""
    counts: dict[str, int | float | str] = {}
    for report in reports:
        add_counts(counts, report.counts)
    return StageResult(
        table=reports[0].table,
        rows=sum(report.rows for report in reports),
        partitions=sum(report.partitions for report in reports),
        computed=sum(report.computed for report in reports),
        seconds=sum(report.seconds for report in reports),
        counts=counts,
        preview=next((report.preview for report in reports if len(report.preview)), reports[0].preview),
        stopped=next((report.stopped for report in reports if report.stopped is not None), None),
    )


@contextmanager
def reporting_parts() -> Iterator[None]:
    """Log the reports inside without the report itself, since a report of all of them follows."""
    token = _ARE_PARTS.set(True)
    try:
        yield
    finally:
        _ARE_PARTS.reset(token)


def are_parts() -> bool:
    """Return whether what is logged now is part of a report that follows."""
    return _ARE_PARTS.get()


def join_rounds(rounds: Sequence[tuple[Sequence[str], StageResult]], *, rows: int) -> StageResult:
    """Join the reports of one stage that was made several times, for one partition after another.

    Args:
        rounds: The partitions of each report, and the report; not empty. Partitions may occur several times.
        rows: Rows of all partitions after the last of the reports.

    Returns:
        The report. Of several reports about the same partitions, the last that rebuilt some counts, because most
        figures describe the rows; what was spent and how long it took is added up.
    """
    made: dict[tuple[str, ...], StageResult] = {}
    spent: dict[str, int | float | str] = {}
    for keys, report in rounds:
        if report.computed or tuple(keys) not in made:
            made[tuple(keys)] = report
        add_counts(spent, {name: value for name, value in report.counts.items() if name.startswith(_SPENT)})
    joined = join_reports([report for report in made.values() if report.computed] or [rounds[-1][1]])
    texts = {name: value for name, value in rounds[-1][1].counts.items() if isinstance(value, str)}
    if notice := _join_notices(rounds):
        texts["notice"] = notice
    return replace(
        joined,
        rows=rows,
        partitions=len({key for keys, _ in rounds for key in keys}),
        seconds=sum(report.seconds for _, report in rounds),
        counts={**joined.counts, **texts, **spent},
        stopped=rounds[-1][1].stopped,
    )


def _join_notices(rounds: Sequence[tuple[Sequence[str], StageResult]]) -> str:
    """Join the notices about partitions. Of a table without partitions, only the last report says what holds."""
    joined = ""
    for keys, report in rounds:
        notice = str(report.counts.get("notice", ""))
        if WHOLE not in keys and notice not in joined:
            joined = f"{joined} {notice}".lstrip()
    return joined


def add_counts(counts: dict[str, int | float | str], more: Mapping[str, int | float | str]) -> None:
    """Add a group's figures to the totals of the earlier groups. Texts that differ are listed."""
    for name, value in more.items():
        known = counts.get(name)
        if isinstance(value, str):
            parts = str(known).split("; ") if known else []
            counts[name] = "; ".join(parts if value in parts else [*parts, value])
        else:
            counts[name] = value + (known if isinstance(known, int | float) else 0)


def log_report(report: StageResult) -> None:
    """Log what a stage did, with its counts.

    The record carries the report for handlers that format it, except inside of :func:`reporting_parts`.
    """
    extra = None if are_parts() else {"report": report}
    log_event(logger, "materialized", {"table": report.table, **report.figures}, extra=extra)


def _leave_out_names(counts: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
    """Return the figures that name no document: who reads logs and traces of a service may enter no tenant."""
    return {name: value for name, value in counts.items() if name not in _NAMING}


def log_unread(sources: pl.DataFrame) -> None:
    """Log each file that was set aside or could not be read.

    Args:
        sources: Rows of the table ``sources``, in which names of people are pseudonyms already.
    """
    unread = sources.filter(pl.col("status").is_in(UNREAD_STATUSES))
    for row in unread.select("folder", "source", "status", "reason").iter_rows(named=True):
        log_event(logger, "file not read", row, level=logging.WARNING, extra=PRINTED)


def format_preview(frame: pl.DataFrame, *, cell_characters: int = _CELL_CHARACTERS) -> str:
    """Write the first five rows of a frame as a Markdown table, long cells shortened."""
    if frame.is_empty():
        return "*this run made no rows*"
    lines = [" | ".join(frame.columns), " | ".join("---" for _ in frame.columns)]
    lines += [
        " | ".join(_format_cell(value, cell_characters) for value in row)
        for row in frame.head(_PREVIEW_ROWS).iter_rows()
    ]
    return "\n".join(f"| {line} |" for line in lines)


def _format_cell(value: object, characters: int) -> str:
    return shorten(escape_line(str(value)).replace("|", "\\|"), characters)
