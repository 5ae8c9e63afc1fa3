"""The record of one run, as the state stores it and the table ``runs`` shows it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import polars as pl

from backstory.base.errors import StoppedError
from backstory.base.wording import write_duration
from backstory.models.failures import hide_quotes
from backstory.storage.schema import RUNS
from backstory.storage.state import NO_LIMIT, Session
from backstory.storage.tables.schemas import Runs

RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
LOST: Final = "lost"
UNSUCCESSFUL: Final = (FAILED, LOST, STOPPED)
"""How runs end that a person should look at."""

STALLED_SECONDS: Final = 600.0
"""Time without progress after which a run may hang."""

_PURPOSES: Final = ("embedding", "rerank", "writing")
"""The purposes of models of which the table ``runs`` has columns."""
_FIGURES: Final = {"embedding_tokens": "embedding_tokens_in", "rerank_windows": "rerank_texts"}
"""Purpose and figure of the columns that are not called by these."""
_MOMENTS: Final = ("started_at", "heartbeat_at", "ended_at")


class ModelUsage(NamedTuple):
    """What a run used of one model: 0 ``calls`` if it is local, no ``cost`` if calls have no price.

    ``texts`` were embedded, judged or written; ``cached`` are those whose vectors were known.
    """

    model: str | None = None
    calls: int = 0
    texts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    cost: float | None = 0.0


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run, with times in seconds since 1970; :class:`~backstory.storage.tables.schemas.Runs` describes the fields.

    ``process`` is the id of the process, ``step`` what it does inside the stage, as far as that is known, and ``usage``
    what it used by purpose.
    """

    run_id: str
    by: str
    dagster_run_id: str | None
    process: int
    started_at: float
    heartbeat_at: float
    ended_at: float | None = None
    status: str = RUNNING
    first_partition: str | None
    last_partition: str | None
    partitions: int
    stage: str | None = None
    partition: str | None = None
    done: int = 0
    total: int = 0
    step: str | None = None
    failures: int = 0
    failure: str | None = None
    currency: str
    budget_left: str | None = None
    usage: Mapping[str, ModelUsage] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Wall-clock time until the end or the last progress; never negative, whatever the clock did."""
        return max(0.0, (self.ended_at or self.heartbeat_at) - self.started_at)

    @property
    def cost(self) -> float | None:
        """Cost of all calls; None if a price is not known."""
        costs = [used.cost for used in self.usage.values()]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def calls(self) -> int:
        """Calls of all services."""
        return sum(used.calls for used in self.usage.values())

    def as_row(self) -> dict[str, Any]:
        """Return the row of the table ``runs``."""
        row = {**vars(self), "seconds": round(self.seconds, 3), "cost": self.cost}
        for name in _MOMENTS:
            row[name] = None if row[name] is None else datetime.fromtimestamp(row[name], UTC)
        for purpose in _PURPOSES:
            used = self.usage.get(purpose, ModelUsage())
            row |= {f"{purpose}_{figure}": value for figure, value in used._asdict().items()}
        return {name: row[_FIGURES.get(name, name)] for name in Runs.schema}


_SUM_USAGE: Final = (
    "SELECT run_id, purpose, max(model), sum(calls), sum(texts), sum(tokens_in), sum(tokens_out), sum(cached), "
    "CASE WHEN sum(unpriced) > 0 THEN NULL ELSE sum(cost) END FROM usage WHERE expires_at <= ?"
)


def read_records(
    session: Session, where: str = "1 = 1", parameters: Sequence[object] = (), limit: int = NO_LIMIT
) -> list[RunRecord]:
    """Read records, the latest first. ``where`` is a condition in SQL on the table ``runs``."""
    chosen = f"FROM runs WHERE {where} ORDER BY started_at DESC, run_id LIMIT ?"
    rows = session.execute(f"SELECT {', '.join(RUNS.names)} {chosen}", [*parameters, limit]).fetchall()
    found = session.execute(
        f"{_SUM_USAGE} AND run_id IN (SELECT run_id {chosen}) GROUP BY run_id, purpose",
        [time.time(), *parameters, limit],
    )
    usage: dict[str, dict[str, ModelUsage]] = defaultdict(dict)
    for run_id, purpose, *figures in found:
        usage[run_id][purpose] = ModelUsage(*figures)
    records = [dict(zip(RUNS.names, row, strict=True)) for row in rows]
    return [RunRecord(**record, usage=usage.get(record["run_id"], {})) for record in records]


def to_frame(records: Sequence[RunRecord]) -> pl.DataFrame:
    """Make the table ``runs`` of records, in order of their start."""
    ordered = sorted(records, key=lambda record: (record.started_at, record.run_id))
    return pl.DataFrame([record.as_row() for record in ordered], schema=Runs.schema, orient="row")


class RunEnd(NamedTuple):
    """How a run ended, why it did not succeed, without names of people and files, and whether it made anything."""

    status: str = SUCCEEDED
    failure: str | None = None
    failures: int = 0
    changed: bool = False


def end_of(error: BaseException) -> RunEnd:
    """Return the end of a run that an error ended.

    The messages of a stop hold settings, partitions and counts only, once what a service said is hidden. Others may
    hold names of files or people.
    """
    if isinstance(error, StoppedError):
        return RunEnd(STOPPED, hide_quotes(str(error)))
    if isinstance(error, KeyboardInterrupt):
        return RunEnd(STOPPED, "a person interrupted it")
    return RunEnd(FAILED, f"{type(error).__name__}; the output of the run says what and where", failures=1)


def describe_status(record: RunRecord) -> str:
    """Describe where a run stands or how it ended, and what to do."""
    name, place = f"run {record.run_id[:8]} ({record.by})", _place(record)
    idle = write_duration(time.time() - record.heartbeat_at)
    match record.status:
        case "running" if is_stalled(record):
            return (
                f"{name} is {place}, no progress for {idle}: it waits, works at one long step, or hangs. If it hangs, "
                f"end it with `kill {record.process}`; finished work is kept, and `backstory run` resumes"
            )
        case "running":
            return f"{name} is {place}, last progress {idle} ago"
        case "lost":
            return (
                f"{name} was {place}, no progress for {idle}: its process was killed; `backstory run` resumes"
            )
        case "succeeded":
            return f"{name} succeeded after {write_duration(record.seconds)}"
        case _:
            return f"{name} {record.status} {place}: {record.failure}. `backstory run` tries again"


def is_stalled(record: RunRecord) -> bool:
    """Return whether a running run has made no progress for so long that it may hang."""
    return record.status == RUNNING and time.time() - record.heartbeat_at > STALLED_SECONDS


def find_trouble(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Choose the runs that a person should look at: those that hang, and the latest ended one if it did not succeed."""
    latest = [record for record in records if record.ended_at is not None][:1]
    return [*filter(is_stalled, records), *(one for one in latest if one.status in UNSUCCESSFUL)]


def _place(record: RunRecord) -> str:
    if record.stage is None:
        return "before its first stage"
    parts = [f"at {record.stage}"]
    if record.partition not in (None, "all"):
        parts.append(str(record.partition))
    if record.total > 1:
        parts.append(f"{record.done:,} of {record.total:,} partitions done")
    return ", ".join(parts + ([record.step] if record.step else []))
