"""The index jobs of one tenant, in the state of its workspace, so that they survive a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias
from uuid import uuid4

from pydantic import Field

from backstory.base.errors import InputError
from backstory.retrieval.found import Result
from backstory.storage.state import Session, State

JobState: TypeAlias = Literal["PENDING", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED"]

MOST_ATTEMPTS: Final = 3
"""Times that a job may end the process that works on it; then it has failed."""

_KEPT: Final = 200
"""Jobs that are kept, the latest ones."""

_PUT_BACK: Final = "state = 'PENDING', attempts = attempts - 1, file = NULL"


class Job(Result):
    """One indexing of the documents of a tenant."""

    job_id: str = Field(description="Its id.")
    state: JobState = Field(
        description="PENDING: it waits; PROCESSING; COMPLETED: the index holds all files as they were when it was last "
        "requested; FAILED: see `failure`; CANCELLED: it stops at its next file. What was made stays."
    )
    requested_by: str = Field(description="Id of the user; `schedule` for the sync, `library` for an agent.")
    requested_at: datetime = Field(description="When that was, UTC.")
    started_at: datetime | None = Field(description="When it began; null if it waits.")
    ended_at: datetime | None = Field(description="When it ended; null if it has not.")
    attempts: int = Field(description="Times that it was begun: once more after the service was killed.")
    percent: float = Field(description="How much is done, from 0 to 100; it never goes back.")
    step: str | None = Field(description="What it is doing, in words; null if nothing.")
    done: int = Field(description="Finished items of the step, such as files or chunks.")
    total: int = Field(description="All items of the step.")
    file: str | None = Field(description="The file that it reads; null if none.")
    counts: dict[str, int] = Field(
        description="Of the last pass: files by outcome, documents, chunks, and embedded texts; empty before its end."
    )
    failure_code: str | None = Field(description="Code of the cause of a failure; null if it has not failed.")
    failure: str | None = Field(description="Why it failed, and what to do; kept of the latest job only.")


class JobTurn(NamedTuple):
    """One attempt at a job; what an earlier one records, whose process has outlived its service, changes nothing."""

    job_id: str
    attempt: int
    accepts_removals: bool


class JobStore:
    """The jobs of one tenant. At most one of them is pending or under way; threads may share an object."""

    def __init__(self, state: State) -> None:
        """Take the state of the workspace, part :data:`~backstory.storage.schema.STATE`."""
        self.state = state

    def request(self, user_id: str, *, accepts_removals: bool = False) -> Job:
        """Request an indexing of all files as they are now: by a job, or by one more pass of the active one.

        The index may lose its last documents if removals are accepted, as after a file was deleted.
        """
        with self.state.begin() as session:
            active = _find_active(session) or _add(session, user_id)
            session.execute(
                "UPDATE jobs SET again = CASE WHEN state = 'PROCESSING' THEN 1 ELSE 0 END, "
                "accepts_removals = CASE WHEN accepts_removals > ? THEN accepts_removals ELSE ? END "
                "WHERE active = 1",
                (accepts_removals, accepts_removals),
            )
            return active

    def current(self) -> Job | None:
        """Return the job that is pending or under way; None without one."""
        with self.state.reading() as session:
            return _find_active(session)

    def read(self, job_id: str) -> Job:
        """Return a job."""
        with self.state.reading() as session:
            return _find(session, job_id)

    def list_jobs(self, limit: int, offset: int = 0) -> tuple[list[Job], int]:
        """List some jobs, the latest first, and tell the number of all."""
        with self.state.reading() as session:
            jobs = _list(session, "ORDER BY number DESC LIMIT ? OFFSET ?", limit, offset)
            return jobs, session.execute("SELECT count(*) FROM jobs").fetchone()[0]

    def cancel(self, job_id: str) -> Job:
        """Cancel a job that has not ended."""
        with self.state.begin() as session:
            job = _find(session, job_id)
            if job.ended_at is not None:
                raise InputError(f"the job {job_id} has ended already ({job.state})", code="job_ended")
            _end(session, job_id, "CANCELLED")
            return _find(session, job_id)

    def resume(self) -> Job | None:
        """Make the job of a process that is gone pending again, and return the active job.

        The caller is the only process that works on these jobs. One that began :data:`MOST_ATTEMPTS` times has failed.
        """
        if not self.state.exists():
            return None
        with self.state.begin() as session:
            active = _find_active(session)
            if active is not None and active.attempts >= MOST_ATTEMPTS and active.state == "PROCESSING":
                failure = f"its process ended {active.attempts} times before it did; the log of the service may say why"
                _end(session, active.job_id, "FAILED", "killed", failure)
            session.execute("UPDATE jobs SET state = 'PENDING', file = NULL WHERE state = 'PROCESSING'")
            return _find_active(session)

    def take(self) -> JobTurn | None:
        """Begin the pending job; None without one."""
        with self.state.begin() as session:
            row = session.execute(
                "UPDATE jobs SET state = 'PROCESSING', attempts = attempts + 1, again = 0, "
                "started_at = coalesce(started_at, ?) WHERE active = 1 AND state = 'PENDING' "
                "RETURNING job_id, attempts, accepts_removals",
                (datetime.now(UTC).isoformat(),),
            ).fetchone()
            return None if row is None else JobTurn(row[0], row[1], bool(row[2]))

    def put_back(self, turn: JobTurn) -> None:
        """Make a job pending again whose work was stopped in order, so that it does not count as an attempt."""
        with self.state.begin() as session:
            _set(session, turn, _PUT_BACK)

    def advance(
        self, turn: JobTurn, *, percent: float, step: str, done: int, total: int, file: str | None
    ) -> bool:
        """Record where a job stands, and return whether this attempt at it is still under way."""
        columns = (
            "percent = CASE WHEN percent > ? THEN percent ELSE ? END, step = ?, done = ?, total = ?, file = ?"
        )
        with self.state.begin() as session:
            return _set(session, turn, columns, percent, percent, step, done, total, file)

    def complete(self, turn: JobTurn, counts: Mapping[str, int]) -> bool:
        """Record a finished pass over the files, and return whether the job is completed.

        A job that was requested meanwhile becomes pending for another one.
        """
        with self.state.begin() as session:
            if not _set(session, turn, "counts = ?", json.dumps(dict(counts))):
                return False  # it was cancelled during its last step
            if session.execute("SELECT again FROM jobs WHERE job_id = ?", (turn.job_id,)).fetchone()[0]:
                _set(session, turn, _PUT_BACK)
                return False
            _set(session, turn, "percent = 100")
            _end(session, turn.job_id, "COMPLETED")
            return True

    def fail(self, turn: JobTurn, code: str, failure: str) -> None:
        """Record that a job has failed, unless it was cancelled."""
        with self.state.begin() as session:
            if _set(session, turn, "file = NULL"):
                _end(session, turn.job_id, "FAILED", code, failure)


def _add(session: Session, user_id: str) -> Job:
    """Add a job, which carries out the removals of those that did not complete."""
    # A failure may name a file of which nothing is to be left.
    session.execute("UPDATE jobs SET failure = NULL WHERE failure IS NOT NULL")
    job_id = uuid4().hex
    session.execute(
        "INSERT INTO jobs (number, job_id, active, state, requested_by, requested_at, accepts_removals, attempts, "
        "again, percent, done, total, counts) "
        "SELECT coalesce(max(number), 0) + 1, ?, 1, 'PENDING', ?, ?, coalesce(max(CASE WHEN number > "
        "coalesce((SELECT max(number) FROM jobs WHERE state = 'COMPLETED'), 0) THEN accepts_removals END), 0), "
        "0, 0, 0.0, 0, 0, '{}' FROM jobs",
        (job_id, user_id, datetime.now(UTC).isoformat()),
    )
    session.execute(
        "DELETE FROM jobs WHERE number <= (SELECT max(number) FROM jobs) - ? AND active IS NULL", (_KEPT,)
    )
    return _find(session, job_id)


def _set(session: Session, turn: JobTurn, columns: str, *values: object) -> bool:
    """Change columns of a job, and return whether this attempt at it is under way; else nothing changes."""
    query = f"UPDATE jobs SET {columns} WHERE job_id = ? AND attempts = ? AND state = 'PROCESSING'"  # noqa: S608
    return bool(session.execute(query, (*values, turn.job_id, turn.attempt)).rowcount)


def _end(
    session: Session, job_id: str, state: JobState, code: str | None = None, failure: str | None = None
) -> None:
    session.execute(
        "UPDATE jobs SET state = ?, active = NULL, again = 0, ended_at = ?, step = NULL, done = 0, total = 0, "
        "file = NULL, failure_code = ?, failure = ? WHERE job_id = ?",
        (state, datetime.now(UTC).isoformat(), code, failure, job_id),
    )


def _list(session: Session, condition: str, *values: object) -> list[Job]:
    rows = session.execute(f"SELECT {', '.join(Job.model_fields)} FROM jobs {condition}", values)  # noqa: S608
    records = [dict(zip(Job.model_fields, row, strict=True)) for row in rows]
    return [Job(**{**record, "counts": json.loads(record["counts"])}) for record in records]


def _find_active(session: Session) -> Job | None:
    return next(iter(_list(session, "WHERE active = 1")), None)


def _find(session: Session, job_id: str) -> Job:
    for job in _list(session, "WHERE job_id = ?", job_id):
        return job
    raise InputError(f"there is no job {job_id!r}", code="unknown_job")
