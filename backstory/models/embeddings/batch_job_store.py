"""The record of batch jobs: which texts each job holds, so that no text is paid for twice, whenever a run is killed.

A job is written down under a random label before it is submitted. Its texts are not stored, only their keys in the
order of the job. A file that is damaged or of another format is set aside like that of a cache, and kept: it is the
only record of the jobs that are under way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from backstory.base.database import Description
from backstory.base.errors import CacheFileError
from backstory.base.mounts import open_database
from backstory.base.wording import count
from backstory.models.embeddings.protocol import Task

SENSOR = "embedding_batches"
"""Name of the Dagster sensor that goes on when the jobs are done."""

HOW_TO_GO_ON = (
    f"Run the same command again later, or switch on the sensor {SENSOR}; `backstory status` lists the jobs"
)
"""What to do while jobs are open."""

_SCHEMA = """
CREATE TABLE jobs (
    label TEXT PRIMARY KEY,
    embedder TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    task TEXT NOT NULL,
    planned TEXT NOT NULL,
    name TEXT
);
CREATE TABLE items (
    label TEXT NOT NULL REFERENCES jobs, position INTEGER NOT NULL, key BLOB, PRIMARY KEY (label, position)
);
CREATE TABLE failures (key BLOB PRIMARY KEY, attempts INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE waiting (partition TEXT PRIMARY KEY);
"""


@dataclass(frozen=True)
class Job:
    """A batch job that is not finished.

    Attributes:
        label: Its display name at the service, which only this job has.
        embedder_id: Embedding space of its vectors.
        dimension: Width of its vectors.
        task: Whether its texts are queries or documents.
        planned: When it was written down, ISO 8601 in UTC.
        name: Its name at the service; None if it is not known that the service received it.
        texts: Number of its texts.
    """

    label: str
    embedder_id: str
    dimension: int
    task: Task
    planned: str
    name: str | None
    texts: int


@dataclass(frozen=True)
class Failure:
    """A text that batch jobs did not embed.

    Attributes:
        attempts: Number of jobs that held it.
        reason: What the last of them said.
    """

    attempts: int
    reason: str


class BatchJobStore:
    """Reads and writes the record of one workspace; every call is a transaction.

    Attributes:
        path: The SQLite file.
        database: What the record lies in.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`plan` creates the file.

        Args:
            path: The SQLite file, which need not exist.
        """
        self.path = path
        self.database = open_database(
            path,
            Description(
                schema=_SCHEMA,
                name="the record of batch jobs",
                remedy=(
                    "the next run moves it aside, and submits the texts of its open jobs again, for which you pay "
                    "twice unless you restore the file from a backup"
                ),
                error=CacheFileError,
                synchronous="full",
            ),
        )

    def plan(self, job: Job, keys: Sequence[bytes]) -> None:
        """Write down a job that is about to be submitted, with the keys of its texts in their order."""
        self._write(
            (
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?)",
                [(job.label, job.embedder_id, job.dimension, job.task, job.planned, job.name)],
            ),
            (
                "INSERT INTO items VALUES (?, ?, ?)",
                [(job.label, position, key) for position, key in enumerate(keys)],
            ),
        )

    def name(self, label: str, name: str) -> None:
        """Write down the service's name of a job that it received."""
        self._write(("UPDATE jobs SET name = ? WHERE label = ?", [(name, label)]))

    def close(self, label: str, failures: Mapping[bytes, str], *, done: Collection[bytes] = ()) -> None:
        """Remove a job that is over.

        Args:
            label: The job.
            failures: Why texts were not embedded, by key; each counts as an attempt.
            done: Keys of the texts whose vectors are stored.
        """
        self._write(
            (
                (
                    "INSERT INTO failures VALUES (?, 1, ?) "
                    "ON CONFLICT (key) DO UPDATE SET attempts = failures.attempts + 1, reason = excluded.reason"
                ),
                list(failures.items()),
            ),
            ("DELETE FROM failures WHERE key = ?", [(key,) for key in done]),
            ("DELETE FROM items WHERE label = ?", [(label,)]),
            ("DELETE FROM jobs WHERE label = ?", [(label,)]),
        )

    def list_jobs(self) -> list[Job]:
        """List the jobs that are not over, the oldest first."""
        rows = self._read(
            "SELECT label, embedder, dimension, task, planned, name, count(position) FROM jobs JOIN items "
            "USING (label) GROUP BY label ORDER BY planned, label"
        )
        return [Job(*row) for row in rows]

    def keys_of(self, label: str) -> list[bytes | None]:
        """List the keys of a job's texts in their order; None for one that was forgotten."""
        return [
            key for (key,) in self._read("SELECT key FROM items WHERE label = ? ORDER BY position", label)
        ]

    def open_keys(self) -> set[bytes]:
        """Return the keys of all texts of jobs that are not over."""
        return {key for (key,) in self._read("SELECT key FROM items WHERE key IS NOT NULL")}

    def failures(self) -> dict[bytes, Failure]:
        """Return the texts that jobs did not embed, by key."""
        return {
            key: Failure(*rest) for key, *rest in self._read("SELECT key, attempts, reason FROM failures")
        }

    def forgive(self, keys: Collection[bytes]) -> None:
        """Let texts be submitted again from the start."""
        self._write(("DELETE FROM failures WHERE key = ?", [(key,) for key in keys]))

    def keep_only(self, keys: Collection[bytes]) -> None:
        """Forget all texts but some: their vectors are not stored when their job is done."""
        if not self.database.exists():
            return
        kept = set(keys)
        dropped = [(key,) for key in self.open_keys() | set(self.failures()) if key not in kept]
        self._write(
            ("UPDATE items SET key = NULL WHERE key = ?", dropped),
            ("DELETE FROM failures WHERE key = ?", dropped),
        )

    def waiting(self) -> list[str]:
        """List the partitions that wait for jobs, in order of time."""
        return [partition for (partition,) in self._read("SELECT partition FROM waiting ORDER BY partition")]

    def add_waiting(self, partitions: Collection[str]) -> None:
        """Write down partitions that wait for jobs."""
        self._write(("INSERT INTO waiting VALUES (?) ON CONFLICT DO NOTHING", [(key,) for key in partitions]))

    def remove_waiting(self, partitions: Collection[str]) -> None:
        """Remove partitions that have what they waited for."""
        if self.database.exists():
            self._write(("DELETE FROM waiting WHERE partition = ?", [(key,) for key in partitions]))

    def find_damage(self) -> str | None:
        """Return what is wrong with the file, or None; it stays where it is.

        Raises:
            CacheFileError: The file cannot be opened, or was made by a later release.
        """
        return self.database.find_damage()

    def _read(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        def attempt() -> list[tuple[Any, ...]]:
            with self.database.reading() as session:
                return session.execute(query, values).fetchall()

        return self.database.mend(attempt)

    def _write(self, *statements: tuple[str, Sequence[Sequence[Any]]]) -> None:
        """Run statements in one transaction, each of them once for every row of values."""

        def attempt() -> None:
            with self.database.writing() as session:
                for statement, rows in statements:
                    session.executemany(statement, rows)

        self.database.mend(attempt)


def describe_jobs(jobs: Sequence[Job]) -> str:
    """Describe in a phrase how many jobs are open, how many texts they hold, and when the first was submitted."""
    texts = sum(job.texts for job in jobs)
    since = min((job.planned for job in jobs), default="")
    moment = f"{datetime.fromisoformat(since):%Y-%m-%d %H:%M} UTC" if since else "never"
    held = f"{count(len(jobs), 'batch job')} with {count(texts, 'text')}"
    return f"{held} not done, the first submitted at {moment}"
