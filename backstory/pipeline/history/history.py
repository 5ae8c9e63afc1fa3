"""Records the runs of a workspace: begin, progress, end; and provides the meters of its models."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import polars as pl

from backstory.base.errors import ContractError, StateError, StoppedError
from backstory.base.telemetry import current_run
from backstory.models.embeddings.embed import EmbeddingStats
from backstory.models.usage import CallMeter, Usage
from backstory.pipeline.history.record import (
    LOST,
    SUCCEEDED,
    UNSUCCESSFUL,
    WAITING,
    RunEnd,
    RunRecord,
    end_of,
    insert_record,
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
from backstory.storage.state import NO_LIMIT, Session, State
from backstory.storage.tables.schemas import Runs
from backstory.storage.tables.tables import WHOLE, Made, Tables
from backstory.storage.turns import running

BY_COMMAND: Final = "backstory run"
BY_DAGSTER: Final = "dagster"
BY_LIBRARY: Final = "run_pipeline"
BY_LIBRARY_FACE: Final = "library"

_BEAT_SECONDS = 2.0
_PUBLISH_SECONDS = 30.0
_DAYS_OF_A_MONTH = 31
_SECONDS_OF_A_MINUTE = 60

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
        self._started = self._written = self._published = 0.0

    def meter(self, purpose: str, model: str) -> CallMeter:
        """Make the meter of a model of a paid service, for a purpose such as ``embedding``."""
        name = model.removeprefix("models/")
        require_price(self._settings.costs, name)
        self._paid_models[purpose] = name
        return ModelMeter(self._spending, purpose, name, self._run_id)

    def read(self, limit: int = NO_LIMIT) -> list[RunRecord]:
        """Read the latest runs, newest first. A running run whose process is gone is given as lost."""
        records = self._read(limit)
        gone = {(record.run_id, record.status) for record in records if self._is_gone(record)}
        # A run records its end before it releases its lock: one that ended meanwhile is read again as ended, and one
        # that waited as begun.
        records = self._read(limit) if gone else records
        judged = (
            _judge_gone(record) if (record.run_id, record.status) in gone else record for record in records
        )
        return [record for record in judged if record is not None]

    @contextmanager
    def taking_turn(self, by: str, partitions: Sequence[str], days: Sequence[str] = ()) -> Iterator[None]:
        """Allow one run of the workspace at a time. :meth:`read` shows a run that waits.

        Runs that name the ``days`` that alone they write go on side by side where these differ.
        """
        state = self._tables.catalog.state
        with running(state, by, lambda holder: self._waiting(by, partitions, holder), days=days):
            yield

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
        record = self._draft(by, partitions, dagster_run_id)
        # The lock ends with this process, however that ends, which shows others that the run is lost.
        with self.state.lock(_name_lock(record.run_id)):
            try:
                self._begin(record)
                try:
                    yield ends.append
                except BaseException as error:
                    self._end_after(error)
                    raise
                self._end(ends[-1])
            finally:
                self._current = None

    def clear_trouble(self, by: str, partitions: Sequence[str]) -> None:
        """Record a run that found nothing to do, if the one that ended before it did not succeed."""
        ended = next((record for record in self.read() if record.ended_at is not None), None)
        if ended is not None and ended.status in UNSUCCESSFUL:
            with self.record(by, partitions):
                pass

    def enter(self, stage: str) -> None:
        """Report that a stage begins."""
        if self._current is not None:
            self._beat(
                replace(self._current, stage=stage, partition=None, done=0, total=0, step=None), now=True
            )

    def advance(self, stage: str, partition: str, done: int, total: int) -> None:
        """Report that a stage begins its next group of partitions, and how many of them are done.

        A run that has taken longer than ``runs.max_minutes`` is stopped here.
        """
        if self._current is None:
            return
        record = replace(self._current, stage=stage, partition=partition, done=done, total=total, step=None)
        limit = self._settings.runs.max_minutes
        late = limit is not None and time.monotonic() - self._started > limit * _SECONDS_OF_A_MINUTE
        self._beat(record, now=late or stage != self._current.stage)
        if late:
            raise StoppedError(
                f"the run has taken more than {limit} minutes (runs.max_minutes) and stopped before {partition}; "
                "finished work is kept, so run the same command again to resume, or raise the limit"
            )

    def follow(self, what: str, report: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """Make every call of a progress function a heartbeat, too."""

        def report_both(done: int, total: int) -> None:
            report(done, total)
            if self._current is not None:
                self._beat(replace(self._current, step=f"{done:,} of {total:,} {what}"))

        return report_both

    def count_texts(self, model: str, stats: EmbeddingStats) -> None:
        """Count texts of the run that an embedder computed, unless its meter counts them, or that were in the cache."""
        if self._current is None:
            return
        paid = self._paid_models.get("embedding")
        place = Place(self._current.run_id, self._spending.today(), "embedding", paid or model)
        used = Usage() if paid else Usage(texts=stats.computed, tokens_in=stats.tokens)
        with self.state.begin() as session:
            self._spending.add(session, place, used, cached=stats.cached)

    def publish(self) -> None:
        """Write the table ``runs`` as the history is now, without runs that wait."""
        # The transaction makes rival processes write one after another, each what the history holds then.
        with self.state.begin() as session:
            begun = [record for record in read_records(session) if record.status != WAITING]
            self._tables.commit({(Runs.name, WHOLE): Made(to_frame(begun), "")})

    def is_published(self) -> bool:
        """Return whether the table ``runs`` holds the runs that have ended as the history does."""
        with self.state.reading() as session:
            ended = read_records(session, "ended_at IS NOT NULL")
        try:
            found = self._tables.read(Runs.name)
        except ContractError:
            return False  # damaged, or of a release with other columns
        return found.filter(pl.col("ended_at").is_not_null()).equals(to_frame(ended))

    @contextmanager
    def pricing(self, counts: dict[str, int | float | str]) -> Iterator[None]:
        """Add the cost of the calls inside to the figures of a stage; nothing if there are no calls.

        That is ``api_cost_USD``, or whatever the currency, and ``api_cost`` if a price is not known.
        """
        calls, cost, unpriced = self._spending.tally()
        yield
        calls_now, cost_now, unpriced_now = self._spending.tally()
        if calls_now == calls:
            return
        if unpriced := unpriced_now - unpriced:
            counts["api_cost"] = f"not known: no price of {', '.join(sorted(unpriced))} in costs.prices"
            return
        name = f"api_cost_{self._settings.costs.currency}"
        known = counts.get(name, 0.0)
        counts[name] = round(cost_now - cost + (known if isinstance(known, int | float) else 0.0), 8)

    def _read(self, limit: int) -> list[RunRecord]:
        with self.state.reading() as session:
            return read_records(session, limit=limit)

    def _run_id(self) -> str:
        return OUTSIDE_RUNS if self._current is None else self._current.run_id

    def _is_gone(self, record: RunRecord) -> bool:
        return record.ended_at is None and self.state.find_holder(_name_lock(record.run_id)) is None

    @contextmanager
    def _waiting(self, by: str, partitions: Sequence[str], holder: str) -> Iterator[None]:
        """Show a run as waiting for another one."""
        record = replace(self._draft(by, partitions, None), status=WAITING, failure=f"for {holder}")
        with self.state.lock(_name_lock(record.run_id)):
            with self.state.begin() as session:
                insert_record(session, record)
            try:
                yield
            finally:
                with self.state.begin() as session:
                    _delete(session, record.run_id)

    def _draft(self, by: str, partitions: Sequence[str], dagster_run_id: str | None) -> RunRecord:
        now = time.time()
        return RunRecord(
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

    def _begin(self, record: RunRecord) -> None:
        self._settle_gone()
        with self.state.begin() as session:
            self._drop_old(session, record.started_at)
            insert_record(session, record)
        self._current = record
        self._started = self._published = time.monotonic()
        self._written = self._started

    def _end_after(self, error: BaseException) -> None:
        """Record the end by an error, which is not replaced by another if that fails, as on a full disk."""
        try:
            self._end(end_of(error))
        except (StateError, OSError) as failure:
            logger.warning("the end of a run could not be recorded; the run is shown as lost: %s", failure)

    def _end(self, end: RunEnd) -> None:
        record = self._current
        if record is None:
            raise RuntimeError("the end of a run that was never begun")
        now = time.time()
        ended = replace(
            record,
            status=end.status,
            done=record.total if end.status == SUCCEEDED else record.done,
            ended_at=now,
            heartbeat_at=now,
            failures=end.failures,
            failure=end.failure,
            budget_left=self._spending.describe_left(record.run_id),
        )
        with self.state.begin() as session:
            insert_record(session, ended)
            [stored] = read_records(session, "run_id = ?", (ended.run_id,))
            is_kept = end.changed or end.failures or end.stopped or stored.calls
            if not is_kept and not (ended.status == SUCCEEDED and _follows_trouble(session, ended)):
                _delete(session, ended.run_id)
        self.publish()

    def _beat(self, record: RunRecord, *, now: bool = False) -> None:
        self._current = replace(record, heartbeat_at=time.time())
        moment = time.monotonic()
        if not now and moment - self._written < _BEAT_SECONDS:
            return
        self._written = moment
        with self.state.begin() as session:
            insert_record(session, self._current)
        if moment - self._published > _PUBLISH_SECONDS:
            self._published = moment
            self.publish()

    def _settle_gone(self) -> None:
        """Store which running runs are lost, and remove those that waited until their process ended."""
        with self.state.begin() as session:
            for record in filter(self._is_gone, read_records(session, "ended_at IS NULL")):
                with self.state.lock(_name_lock(record.run_id), wait=False):
                    pass  # which removes what a killed holder has left
                if lost := _judge_gone(record):
                    insert_record(session, lost)
                    logger.warning("run %s was lost: its process ended before the run did", record.run_id)
                else:
                    _delete(session, record.run_id)

    def _drop_old(self, session: Session, now: float) -> None:
        """Remove the runs that are too old, and what was used outside of runs by then."""
        oldest = now - timedelta(days=self._settings.runs.keep_months * _DAYS_OF_A_MONTH).total_seconds()
        for record in read_records(session, "started_at < ? AND ended_at IS NOT NULL", (oldest,)):
            _delete(session, record.run_id)
        day = f"{datetime.fromtimestamp(oldest, UTC):%Y-%m-%d}"
        session.execute("DELETE FROM usage WHERE run_id = ? AND day < ?", (OUTSIDE_RUNS, day))


def _judge_gone(record: RunRecord) -> RunRecord | None:
    """Mark a run as lost whose process is gone; one that never got its turn left nothing to tell."""
    return None if record.status == WAITING else replace(record, status=LOST, ended_at=record.heartbeat_at)


def _follows_trouble(session: Session, run: RunRecord) -> bool:
    """Return whether the run that ended before this one did not succeed."""
    earlier = read_records(session, "ended_at IS NOT NULL AND run_id != ?", (run.run_id,), limit=1)
    return any(record.status in UNSUCCESSFUL for record in earlier)


def _name_lock(run_id: str) -> str:
    return f"life of run {run_id}"


def _delete(session: Session, run_id: str) -> None:
    session.execute("DELETE FROM usage WHERE run_id = ?", (run_id,))
    session.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
