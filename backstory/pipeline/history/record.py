"""The record of one run, as the history stores it and the table ``runs`` shows it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl

from backstory.base.errors import StoppedError
from backstory.base.wording import write_duration
from backstory.models.failures import hide_quotes
from backstory.storage.state import NO_LIMIT, Session
from backstory.storage.tables.schemas import Runs

RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
WAITING: Final = "waiting"
LOST: Final = "lost"
UNSUCCESSFUL: Final = (FAILED, LOST, STOPPED)
"""How runs end that a person should look at."""

_PURPOSES: Final = ("embedding", "rerank", "writing")
"""The purposes of models of which the table ``runs`` has columns."""
_OTHER_NAMES: Final = {"embedding_tokens_in": "embedding_tokens", "rerank_texts": "rerank_windows"}
"""Columns that are not called by the purpose and the figure."""


@dataclass(frozen=True)
class ModelUsage:
    """What a run used of one model.

    Attributes:
        model: Name of the model.
        calls: Calls of a service; 0 for a local model.
        texts: Texts that were embedded, windows that were reranked, or drafts that were written.
        tokens_in: Tokens that the model read.
        tokens_out: Tokens that the model wrote.
        cached: Texts whose vectors were in the cache.
        cost: Estimated cost; None if calls were made for which there is no price.
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

    Attributes:
        process: Id of the process.
        step: What it does inside the stage, such as how many texts it has embedded; None if that is not known.
        usage: What it used, by purpose.
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
        stored = asdict(self)
        row = {
            **stored,
            **{name: _moment(stored[name]) for name in ("started_at", "heartbeat_at", "ended_at")},
            "seconds": round(self.seconds, 3),
            "cost": self.cost,
        }
        for purpose in _PURPOSES:
            for figure, value in asdict(self.usage.get(purpose, ModelUsage())).items():
                name = f"{purpose}_{figure}"
                row[_OTHER_NAMES.get(name, name)] = value
        return {name: row[name] for name in Runs.schema}


_SUM_USAGE: Final = (
    "SELECT run_id, purpose, max(model), sum(calls), sum(texts), sum(tokens_in), sum(tokens_out), sum(cached), "
    "CASE WHEN sum(unpriced) > 0 THEN NULL ELSE sum(cost) END FROM usage"
)
_COLUMNS: Final = tuple(one.name for one in fields(RunRecord) if one.name != "usage")


def insert_record(session: Session, record: RunRecord) -> None:
    """Store a record, without its usage."""
    marks = ", ".join("?" * len(_COLUMNS))
    changes = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
    session.execute(
        f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({marks}) "  # noqa: S608 - names of fields
        f"ON CONFLICT (run_id) DO UPDATE SET {changes}",
        [getattr(record, name) for name in _COLUMNS],
    )


def read_records(
    session: Session, where: str = "1 = 1", parameters: Sequence[object] = (), limit: int = NO_LIMIT
) -> list[RunRecord]:
    """Read records, the latest first. ``where`` is a condition in SQL on the table ``runs``."""
    rows = session.execute(
        f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE {where} ORDER BY started_at DESC, run_id LIMIT ?",  # noqa: S608
        [*parameters, limit],
    ).fetchall()
    usage: dict[str, dict[str, ModelUsage]] = defaultdict(dict)
    chosen = f"SELECT run_id FROM runs WHERE {where}"  # noqa: S608 - conditions are constants of this room
    found = session.execute(
        f"{_SUM_USAGE} WHERE expires_at <= ? AND run_id IN ({chosen}) GROUP BY run_id, purpose",
        (time.time(), *parameters),
    )
    for run_id, purpose, *figures in found:
        usage[run_id][purpose] = ModelUsage(*figures)
    records = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    return [RunRecord(**record, usage=usage.get(record["run_id"], {})) for record in records]


def to_frame(records: Sequence[RunRecord]) -> pl.DataFrame:
    """Make the table ``runs`` of records, in order of their start."""
    ordered = sorted(records, key=lambda record: (record.started_at, record.run_id))
    return pl.DataFrame([record.as_row() for record in ordered], schema=Runs.schema, orient="row")


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        changed: Whether it made anything.
        failures: Number of failures.
        failure: Why it failed or stopped, in a sentence that names no person and no file; None if it succeeded.
        stopped: Whether it was stopped in order, by a budget, a limit or a person.
    """

    changed: bool = False
    failures: int = 0
    failure: str | None = None
    stopped: bool = False

    @property
    def status(self) -> str:
        """The status of the run in the history."""
        if self.failures:
            return FAILED
        return STOPPED if self.stopped else SUCCEEDED


def describe_error(error: BaseException) -> str:
    """Describe an error in a sentence that names no person and no file, for a record that is kept.

    The messages of a stop hold settings, partitions and counts only, once what a service said is hidden. Others may
    hold names of files or people.
    """
    if isinstance(error, StoppedError):
        return hide_quotes(str(error))
    if isinstance(error, KeyboardInterrupt):
        return "a person interrupted it"
    return f"{type(error).__name__}; the output of the run says what and where"


def end_of(error: BaseException) -> RunEnd:
    """Return the end of a run that an error ended."""
    stopped = isinstance(error, StoppedError | KeyboardInterrupt)
    return RunEnd(failures=int(not stopped), failure=describe_error(error), stopped=stopped)


STALLED_SECONDS: Final = 600.0
"""Time without progress after which a run may hang."""


def describe_status(record: RunRecord, now: float | None = None) -> str:
    """Describe where a run stands or how it ended, and what to do."""
    name = f"run {record.run_id[:8]} ({record.by})"
    idle = write_duration((time.time() if now is None else now) - record.heartbeat_at)
    match record.status:
        case "running" if is_stalled(record, now):
            return (
                f"{name} is {_place(record)}, no progress for {idle}, and its process {record.process} is there: it "
                f"waits, works at one long step, or hangs. If it hangs, end it with `kill {record.process}`; finished "
                "work is kept, and `backstory run` resumes"
            )
        case "running":
            return f"{name} is {_place(record)}, last progress {idle} ago"
        case "lost":
            return (
                f"{name} was {_place(record)}, no progress for {idle}: its process was killed, or the machine "
                "restarted. Finished work is kept; `backstory run` resumes"
            )
        case "waiting":
            return f"{name} waits {_place(record)}: {record.failure}"
        case "stopped" | "failed":
            return f"{name} {record.status} {_place(record)}: {record.failure}"
        case _:
            return f"{name} {record.status} after {write_duration(record.seconds)}"


def is_stalled(record: RunRecord, now: float | None = None) -> bool:
    """Return whether a running run has made no progress for so long that it may hang."""
    moment = time.time() if now is None else now
    return record.status == RUNNING and moment - record.heartbeat_at > STALLED_SECONDS


def find_trouble(records: Sequence[RunRecord], now: float | None = None) -> list[RunRecord]:
    """Choose the runs that a person should look at: those that hang, and the latest ended one if it did not succeed."""
    ended = next((record for record in records if record.ended_at is not None), None)
    stalled = [record for record in records if is_stalled(record, now)]
    return stalled + ([ended] if ended is not None and ended.status in UNSUCCESSFUL else [])


def describe_trouble(record: RunRecord, now: float | None = None) -> str:
    """Describe a run that :func:`find_trouble` has chosen, and how this trouble ends."""
    told = describe_status(record, now)
    if record.status not in (FAILED, STOPPED):
        return told
    return f"{told}. `backstory run` tries again; the next success clears this, also one with nothing to do"


def _place(record: RunRecord) -> str:
    if record.stage is None:
        return "before its first stage"
    parts = [f"at {record.stage}"]
    if record.partition not in (None, "all"):
        parts.append(str(record.partition))
    if record.total > 1:
        parts.append(f"{record.done:,} of {record.total:,} partitions done")
    return ", ".join(parts + ([record.step] if record.step else []))
