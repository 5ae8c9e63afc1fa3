"""Records the runs of a workspace: begin, progress, end; and provides the meters of its models."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import uuid4

from backstory.base.errors import StateError, StoppedError
from backstory.base.telemetry import current_run
from backstory.models.embeddings.embed import EmbeddingStats
from backstory.models.usage import CallMeter, Usage
from backstory.pipeline.history.record import (
    LOST,
    SUCCEEDED,
    UNSUCCESSFUL,
    RunEnd,
    RunRecord,
    end_of,
    read_records,
    to_frame,
)
from backstory.pipeline.history.spending import (
    OUTSIDE_RUNS,
    ModelMeter,
    Place,
    Spending,
    require_price,
)
from backstory.settings.models import Settings
from backstory.storage.schema import RUNS
from backstory.storage.state import NO_LIMIT, Session, State
from backstory.storage.tables.schemas import Runs
from backstory.storage.tables.tables import WHOLE, Made, Tables, hash_rows

BY_COMMAND: Final = "backstory run"
BY_DAGSTER: Final = "dagster"
BY_LIBRARY: Final = "run_pipeline"
BY_LIBRARY_FACE: Final = "library"

_BEAT_SECONDS = 2.0
_DAYS_OF_A_MONTH = 31
_SECONDS_OF_A_MINUTE = 60
_ENDED: Final = "ended_at IS NOT NULL"

logger = logging.getLogger(__name__)


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
        self._spending = Spending(self.state, settings.costs, settings.conversations.timezone)
        self._paid_models: dict[str, str] = {}
        self._current: RunRecord | None = None
        self._started = self._written = 0.0

    def meter(self, purpose: str, model: str) -> CallMeter:
        """Make the meter of a model of a paid service, for a purpose such as ``embedding``."""
        name = model.removeprefix("models/")
        require_price(self._settings.costs, name)
        self._paid_models[purpose] = name
        return ModelMeter(self._spending, partial(self._place, purpose, name))

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
            self._current = record
            try:
                self._beat(now=True)
                yield ends.append
            except BaseException as error:
                try:
                    self._end(self._current, end_of(error))
                except (StateError, OSError) as failure:  # a full disk must not replace the error
                    logger.warning(
                        "the end of a run could not be recorded; the run is shown as lost: %s", failure
                    )
                raise
            else:
                self._end(self._current, ends[-1])
            finally:
                self._current = None

    def enter(self, stage: str) -> None:
        """Report that a stage begins."""
        self._beat(now=True, stage=stage, partition=None, done=0, total=0, step=None)

    def advance(self, stage: str, partition: str, done: int, total: int) -> None:
        """Report that a stage begins its next group of partitions, and how many of them are done.

        A run that has taken longer than ``runs.max_minutes`` is stopped here.
        """
        limit = self._settings.runs.max_minutes
        minutes = (time.monotonic() - self._started) / _SECONDS_OF_A_MINUTE
        is_late = self._current is not None and limit is not None and minutes > limit
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
        paid = self._paid_models.get("embedding")
        place = self._place("embedding", paid or model)
        used = Usage() if paid else Usage(texts=stats.computed, tokens_in=stats.tokens)
        with self.state.begin() as session:
            self._spending.add(session, place, used, cached=stats.cached)

    def publish(self) -> None:
        """Write the runs that have ended to the table ``runs``, unless it holds just these."""
        # The transaction makes rival processes write one after another, each what the history holds then.
        with self.state.begin() as session:
            rows = to_frame(read_records(session, _ENDED))
            if self._tables.stale(Runs.name, {WHOLE: hash_rows(rows)}):
                self._tables.commit({(Runs.name, WHOLE): Made(rows, hash_rows(rows))})

    @contextmanager
    def pricing(self, counts: dict[str, int | float | str]) -> Iterator[None]:
        """Add the cost of the calls inside to the figures of a stage; nothing if there are no calls.

        That is ``api_cost_USD``, or whatever the currency, and ``api_cost`` if a price is not known.
        """
        self._spending.settled.clear()
        yield
        settled = self._spending.settled
        if unpriced := {model for model, cost in settled if cost is None}:
            counts["api_cost"] = f"not known: no price of {', '.join(sorted(unpriced))} in costs.prices"
        elif settled:
            name, cost = f"api_cost_{self._settings.costs.currency}", sum(cost or 0.0 for _, cost in settled)
            counts[name] = round(float(counts.get(name, 0.0)) + cost, 8)

    def _read(self, limit: int) -> list[RunRecord]:
        with self.state.reading() as session:
            return read_records(session, limit=limit)

    def _place(self, purpose: str, model: str) -> Place:
        run_id = OUTSIDE_RUNS if self._current is None else self._current.run_id
        return Place(run_id, self._spending.today(), purpose, model)

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
            budget_left=self._spending.describe_left(run_id),
        )
        with self.state.begin() as session:
            self._store(session, ended)
            [stored] = read_records(session, "run_id = ?", (run_id,))
            earlier = read_records(session, f"{_ENDED} AND run_id != ?", (run_id,), limit=1)
            ends_trouble = any(one.status in UNSUCCESSFUL for one in earlier)
            if not (end.changed or end.status != SUCCEEDED or stored.calls or ends_trouble):
                _delete(session, "run_id = ?", run_id)
        self.publish()

    def _clean_up(self, now: float) -> None:
        """Store which running runs are lost, and remove what is too old, also of what was used outside of runs."""
        oldest = now - timedelta(days=self._settings.runs.keep_months * _DAYS_OF_A_MONTH).total_seconds()
        with self.state.begin() as session:
            for record in filter(self._is_gone, read_records(session, "ended_at IS NULL")):
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
