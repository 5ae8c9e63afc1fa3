"""The record of one run, as the history stores it and the table ``runs`` shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl

from backstory.storage.state import NO_LIMIT, Session
from backstory.storage.tables.contracts import polars_schema
from backstory.storage.tables.schemas import Runs

RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
WAITING: Final = "waiting"
LOST: Final = "lost"
UNSUCCESSFUL: Final = (FAILED, LOST, STOPPED)
"""How runs end that a person should look at."""

EMBEDDING: Final = "embedding"
RERANKING: Final = "rerank"
WRITING: Final = "writing"
SUMMARIZING: Final = "summarizing"
ANSWERING: Final = "answering"


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


@dataclass(frozen=True)
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
    ended_at: float | None
    status: str
    first_partition: str | None
    last_partition: str | None
    partitions: int
    stage: str | None
    partition: str | None
    done: int
    total: int
    step: str | None
    failures: int
    failure: str | None
    currency: str
    budget_left: str | None
    usage: Mapping[str, ModelUsage] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Wall-clock time until the end or the last progress; never negative, whatever the clock did."""
        return max(0.0, (self.ended_at or self.heartbeat_at) - self.started_at)

    @property
    def waits_its_turn(self) -> bool:
        """Whether the run has not begun, since another run of the workspace is under way; ``step`` says which."""
        return self.status == RUNNING and self.stage is None and self.step is not None

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
        embedding = self.usage.get(EMBEDDING, ModelUsage())
        rerank = self.usage.get(RERANKING, ModelUsage())
        writing = self.usage.get(WRITING, ModelUsage())
        stored = asdict(self)
        row = {
            **stored,
            **{name: _moment(stored[name]) for name in ("started_at", "heartbeat_at", "ended_at")},
            "seconds": round(self.seconds, 3),
            "embedding_model": embedding.model,
            "embedding_calls": embedding.calls,
            "embedding_texts": embedding.texts,
            "embedding_tokens": embedding.tokens_in,
            "embedding_cached": embedding.cached,
            "embedding_cost": embedding.cost,
            "rerank_model": rerank.model,
            "rerank_calls": rerank.calls,
            "rerank_windows": rerank.texts,
            "rerank_tokens_in": rerank.tokens_in,
            "rerank_tokens_out": rerank.tokens_out,
            "rerank_cost": rerank.cost,
            "writing_model": writing.model,
            "writing_calls": writing.calls,
            "writing_tokens_in": writing.tokens_in,
            "writing_tokens_out": writing.tokens_out,
            "writing_cost": writing.cost,
            "cost": self.cost,
        }
        return {name: row[name] for name in polars_schema(Runs)}


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
    """Read records, the latest first.

    Args:
        session: Transaction of the history.
        where: Condition in SQL on the table ``runs``.
        parameters: Values of the condition.
        limit: Most records.
    """
    rows = session.execute(
        f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE {where} ORDER BY started_at DESC, run_id LIMIT ?",  # noqa: S608
        [*parameters, limit],
    ).fetchall()
    usage: dict[str, dict[str, ModelUsage]] = defaultdict(dict)
    chosen = f"SELECT run_id FROM runs WHERE {where}"  # noqa: S608 - conditions are constants of this room
    found = session.execute(f"{_SUM_USAGE} WHERE run_id IN ({chosen}) GROUP BY run_id, purpose", parameters)
    for run_id, purpose, *figures in found:
        usage[run_id][purpose] = ModelUsage(*figures)
    records = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    return [RunRecord(**record, usage=usage.get(record["run_id"], {})) for record in records]


def to_frame(records: Sequence[RunRecord]) -> pl.DataFrame:
    """Make the table ``runs`` of records, in order of their start."""
    ordered = sorted(records, key=lambda record: (record.started_at, record.run_id))
    return pl.DataFrame([record.as_row() for record in ordered], schema=polars_schema(Runs), orient="row")


def month_of(started_at: float) -> str:
    """Return the partition of the table ``runs``: the month (UTC), YYYY-MM."""
    return f"{datetime.fromtimestamp(started_at, UTC):%Y-%m}"


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
