"""The history of the runs of a workspace: begin, progress, end and cost of each, and the meters of its models."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

import polars as pl

from backstory.base.errors import StateError, StoppedError
from backstory.base.telemetry import current_run
from backstory.base.wording import write_duration
from backstory.models.embeddings.embed import EmbeddingStats
from backstory.models.failures import hide_quotes
from backstory.models.usage import Usage
from backstory.pipeline.history.spending import OUTSIDE_RUNS, ModelMeter, Spending, require_price
from backstory.settings.models import Settings
from backstory.storage.schema import RUNS
from backstory.storage.state import NO_LIMIT, Session, State
from backstory.storage.tables.schemas import Runs
from backstory.storage.tables.tables import WHOLE, Made, Tables, hash_rows

BY_COMMAND: Final = "backstory run"
BY_DAGSTER: Final = "dagster"
BY_LIBRARY: Final = "run_pipeline"
BY_LIBRARY_FACE: Final = "library"

RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
LOST: Final = "lost"

STALLED_SECONDS: Final = 600.0
"""Time without progress after which a run may hang."""

_BEAT_SECONDS: Final = 2.0
_DAYS_OF_A_MONTH: Final = 31
_SECONDS_OF_A_MINUTE: Final = 60
_ENDED: Final = "ended_at IS NOT NULL"
_PURPOSES: Final = ("embedding", "rerank", "writing")
"""The purposes of models of which the table ``runs`` has columns."""
_FIGURES: Final = {"embedding_tokens": "embedding_tokens_in", "rerank_windows": "rerank_texts"}
"""Purpose and figure of the columns that are not called by these."""

logger = logging.getLogger(__name__)


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


class RunEnd(NamedTuple):
    """How a run ended, why it did not succeed, without names of people and files, and whether it made anything."""

    status: str = SUCCEEDED
    failure: str | None = None
    failures: int = 0
    changed: bool = False


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
        return None if None in costs else sum(filter(None, costs))

    @property
    def calls(self) -> int:
        """Calls of all services."""
        return sum(used.calls for used in self.usage.values())

    @property
    def is_stalled(self) -> bool:
        """Whether it runs, and has made no progress for so long that it may hang."""
        return self.status == RUNNING and time.time() - self.heartbeat_at > STALLED_SECONDS

    def as_row(self) -> dict[str, Any]:
        """Return the row of the table ``runs``."""
        row = {**vars(self), "seconds": round(self.seconds, 3), "cost": self.cost}
        for name in ("started_at", "heartbeat_at", "ended_at"):
            row[name] = None if row[name] is None else datetime.fromtimestamp(row[name], UTC)
        for purpose in _PURPOSES:
            used = self.usage.get(purpose, ModelUsage())
            row |= {f"{purpose}_{figure}": value for figure, value in used._asdict().items()}
        return {name: row[_FIGURES.get(name, name)] for name in Runs.schema}

    def describe(self) -> str:
        """Describe where the run stands or how it ended, and what to do."""
        name, place = f"run {self.run_id[:8]} ({self.by})", "before its first stage"
        if self.stage is not None:
            done = f"{self.done:,} of {self.total:,} partitions done" if self.total > 1 else None
            partition = None if self.partition == WHOLE else self.partition
            place = ", ".join(filter(None, [f"at {self.stage}", partition, done, self.step]))
        idle = write_duration(time.time() - self.heartbeat_at)
        if self.is_stalled:
            return (
                f"{name} is {place}, no progress for {idle}: it waits, works at one long step, or hangs. If it hangs, "
                f"end it with `kill {self.process}`; finished work is kept, and `backstory run` resumes"
            )
        if self.status == RUNNING:
            return f"{name} is {place}, last progress {idle} ago"
        if self.status == LOST:
            return (
                f"{name} was {place}, no progress for {idle}: its process was killed; `backstory run` resumes"
            )
        if self.status == SUCCEEDED:
            return f"{name} succeeded after {write_duration(self.seconds)}"
        return f"{name} {self.status} {place}: {self.failure}. `backstory run` tries again"


def find_trouble(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Choose the runs that a person should look at: those that hang, and the latest ended one if it did not succeed."""
    latest = [record for record in records if record.ended_at is not None][:1]
    return [one for one in records if one.is_stalled] + [one for one in latest if one.status != SUCCEEDED]


class RunHistory:
    """The runs of one workspace, of this process and of others.

    One run at a time is recorded by one object. Its methods that report progress do nothing if no run is recorded, so
    that stages can be called alone.
    """

    def __init__(self, state: State, tables: Tables, settings: Settings) -> None:
        """Take the state, the tables, of which one is the history, and the settings; nothing is read yet."""
        self.state = state
        self._tables = tables
        self._settings = settings
        self.spending = Spending(self.state, settings.costs, settings.conversations.timezone)
        self._meters: dict[str, ModelMeter] = {}
        self._current: RunRecord | None = None
        self._started = self._written = 0.0

    def meter(self, purpose: str, model: str) -> ModelMeter:
        """Make the meter of a model of a paid service, for a purpose such as ``embedding``."""
        name = model.removeprefix("models/")
        require_price(self._settings.costs, name)
        self._meters[purpose] = ModelMeter(self.spending, purpose, name)
        return self._meters[purpose]

    def read(self, limit: int = NO_LIMIT) -> list[RunRecord]:
        """Read the latest runs, newest first. A running run whose process is gone is given as lost."""
        records = self._read(limit)
        gone = {record.run_id for record in records if self._is_gone(record)}
        # A run records its end before it releases its lock, so that one that ended meanwhile is read again as ended.
        records = self._read(limit) if gone else records
        return [
            _lose(record) if record.run_id in gone and record.ended_at is None else record
            for record in records
        ]

    @contextmanager
    def record(
        self, by: str, partitions: Sequence[str], *, dagster_run_id: str | None = None
    ) -> Iterator[Callable[[RunEnd], None]]:
        """Record a run over some partitions from its begin to its end.

        Runs whose process is gone are marked as lost, and runs older than ``runs.keep_months`` are dropped. It yields a
        function to call with the end of the run. A run that changed nothing, did not fail and called no service is not
        kept, unless it succeeded after one that did not.
        """
        ends = [RunEnd()]
        now = time.time()
        record = RunRecord(
            run_id=current_run() or uuid4().hex,
            by=by,
            dagster_run_id=dagster_run_id,
            process=os.getpid(),
            started_at=now,
            heartbeat_at=now,
            first_partition=partitions[0] if partitions else None,
            last_partition=partitions[-1] if partitions else None,
            partitions=len(partitions),
            currency=self._settings.costs.currency,
        )
        # The lock ends with this process, however that ends, which shows others that the run is lost.
        with self.state.lock(_name_lock(record.run_id)):
            self._clean_up(now)
            self._started = time.monotonic()
            self._current, self.spending.run_id = record, record.run_id
            try:
                self._beat(now=True)
                yield ends.append
            except BaseException as error:
                try:
                    self._end(self._current, _end_of(error))
                except (StateError, OSError) as failure:  # a full disk must not replace the error
                    logger.warning(
                        "the end of a run could not be recorded; the run is shown as lost: %s", failure
                    )
                raise
            else:
                self._end(self._current, ends[-1])
            finally:
                self._current, self.spending.run_id = None, OUTSIDE_RUNS

    def enter(self, stage: str) -> None:
        """Report that a stage begins."""
        self._beat(now=True, stage=stage, partition=None, done=0, total=0, step=None)

    def advance(self, stage: str, partition: str, done: int, total: int) -> None:
        """Report that a stage begins its next group of partitions, and how many of them are done.

        A run that has taken longer than ``runs.max_minutes`` is stopped here.
        """
        limit = self._settings.runs.max_minutes if self._current else None
        minutes = (time.monotonic() - self._started) / _SECONDS_OF_A_MINUTE
        is_late = limit is not None and minutes > limit
        self._beat(now=is_late, stage=stage, partition=partition, done=done, total=total, step=None)
        if is_late:
            raise StoppedError(
                f"the run has taken more than {limit} minutes (runs.max_minutes) and stopped before {partition}; "
                "finished work is kept, so run the same command again to resume, or raise the limit"
            )

    def follow(self, what: str, report: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """Make every call of a progress function a heartbeat, too."""

        def report_both(done: int, total: int) -> None:
            report(done, total)
            self._beat(step=f"{done:,} of {total:,} {what}")

        return report_both

    def count_texts(self, model: str, stats: EmbeddingStats) -> None:
        """Count texts of the run that an embedder computed, unless its meter counts them, or that were in the cache."""
        if self._current is None:
            return
        paid = self._meters.get("embedding")
        meter = paid or ModelMeter(self.spending, "embedding", model)
        used = Usage() if paid else Usage(texts=stats.computed, tokens_in=stats.tokens)
        with self.state.begin() as session:
            meter.add(session, meter.place(), used, cached=stats.cached)

    def publish(self) -> None:
        """Write the runs that have ended to the table ``runs``, unless it holds just these."""
        # The transaction makes rival processes write one after another, each what the history holds then.
        with self.state.begin() as session:
            ended = [record.as_row() for record in reversed(_read_records(session, _ENDED))]
            rows = pl.DataFrame(ended, schema=Runs.schema, orient="row")
            if self._tables.stale(Runs.name, {WHOLE: hash_rows(rows)}):
                self._tables.commit({(Runs.name, WHOLE): Made(rows, hash_rows(rows))})

    def _read(self, limit: int) -> list[RunRecord]:
        with self.state.reading() as session:
            return _read_records(session, limit=limit)

    def _is_gone(self, record: RunRecord) -> bool:
        return record.ended_at is None and self.state.find_holder(_name_lock(record.run_id)) is None

    def _store(self, session: Session, record: RunRecord) -> None:
        self.state.upsert(session, RUNS, [[getattr(record, name) for name in RUNS.names]])

    def _beat(self, *, now: bool = False, **changes: Any) -> None:
        """Report progress, and store it: from time to time, or ``now``."""
        if self._current is None:
            return
        moment = time.monotonic()
        is_due = now or moment - self._written >= _BEAT_SECONDS
        is_due = is_due or changes.get("stage", self._current.stage) != self._current.stage
        self._current = replace(self._current, heartbeat_at=time.time(), **changes)
        if is_due:
            self._written = moment
            with self.state.begin() as session:
                self._store(session, self._current)

    def _end(self, record: RunRecord, end: RunEnd) -> None:
        now, run_id = time.time(), record.run_id
        ended = replace(
            record,
            status=end.status,
            done=record.total if end.status == SUCCEEDED else record.done,
            ended_at=now,
            heartbeat_at=now,
            failures=end.failures,
            failure=end.failure,
            budget_left=self.spending.describe_left(),
        )
        with self.state.begin() as session:
            self._store(session, ended)
            [stored] = _read_records(session, "run_id = ?", (run_id,))
            earlier = _read_records(session, f"{_ENDED} AND run_id != ?", (run_id,), limit=1)
            ends_trouble = any(one.status != SUCCEEDED for one in earlier)
            if not (end.changed or end.status != SUCCEEDED or stored.calls or ends_trouble):
                _delete(session, "run_id = ?", run_id)
        self.publish()

    def _clean_up(self, now: float) -> None:
        """Store which running runs are lost, and remove what is too old, also of what was used outside of runs."""
        oldest = now - timedelta(days=self._settings.runs.keep_months * _DAYS_OF_A_MONTH).total_seconds()
        with self.state.begin() as session:
            for record in filter(self._is_gone, _read_records(session, "ended_at IS NULL")):
                with self.state.lock(_name_lock(record.run_id), wait=False):
                    pass  # which removes what a killed holder has left
                self._store(session, _lose(record))
                logger.warning("run %s was lost: its process ended before the run did", record.run_id)
            _delete(session, f"{_ENDED} AND started_at < ?", oldest)
            day = f"{datetime.fromtimestamp(oldest, UTC):%Y-%m-%d}"
            session.execute("DELETE FROM usage WHERE run_id = ? AND day < ?", (OUTSIDE_RUNS, day))


def _lose(record: RunRecord) -> RunRecord:
    return replace(record, status=LOST, ended_at=record.heartbeat_at)


def _name_lock(run_id: str) -> str:
    return f"life of run {run_id}"


def _delete(session: Session, where: str, value: object) -> None:
    """Remove runs with what they used. The condition has one parameter."""
    runs = f"FROM runs WHERE {where}"
    session.execute(f"DELETE FROM usage WHERE run_id IN (SELECT run_id {runs})", (value,))  # noqa: S608
    session.execute(f"DELETE {runs}", (value,))


def _read_records(
    session: Session, where: str = "1 = 1", parameters: Sequence[object] = (), limit: int = NO_LIMIT
) -> list[RunRecord]:
    """Read records, the latest first. ``where`` is a condition in SQL on the table ``runs``."""
    chosen = f"FROM runs WHERE {where} ORDER BY started_at DESC, run_id DESC LIMIT ?"
    rows = session.execute(f"SELECT {', '.join(RUNS.names)} {chosen}", [*parameters, limit]).fetchall()
    sums = (
        "SELECT run_id, purpose, max(model), sum(calls), sum(texts), sum(tokens_in), "  # noqa: S608 - constants
        "sum(tokens_out), sum(cached), CASE WHEN sum(unpriced) > 0 THEN NULL ELSE sum(cost) END FROM usage "
        f"WHERE expires_at <= ? AND run_id IN (SELECT run_id {chosen}) GROUP BY run_id, purpose"
    )
    usage: dict[str, dict[str, ModelUsage]] = defaultdict(dict)
    for run_id, purpose, *figures in session.execute(sums, [time.time(), *parameters, limit]):
        usage[run_id][purpose] = ModelUsage(*figures)
    records = [dict(zip(RUNS.names, row, strict=True)) for row in rows]
    return [RunRecord(**record, usage=usage.get(record["run_id"], {})) for record in records]


def _end_of(error: BaseException) -> RunEnd:
    """Return the end of a run that an error ended.

    The messages of a stop hold settings, partitions and counts only, once what a service said is hidden. Others may
    hold names of files or people.
    """
    if isinstance(error, StoppedError):
        return RunEnd(STOPPED, hide_quotes(str(error)))
    if isinstance(error, KeyboardInterrupt):
        return RunEnd(STOPPED, "a person interrupted it")
    return RunEnd(FAILED, f"{type(error).__name__}; the output of the run says what and where", failures=1)
