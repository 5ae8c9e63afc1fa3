"""What alerts know of a run that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import polars as pl

from backstory.base.errors import BackstoryError
from backstory.pipeline.checks.checks import Check
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.run.run import Run

COST_FIGURES: Final = (
    *("embedding_computed", "embedding_tokens"),
    *("embedding_api_calls", "rerank_api_calls", "writing_api_calls"),
)
"""Counts of stages that an alert reports as the cost of a run."""


@dataclass(frozen=True)
class UnreadFile:
    """A file that was set aside or could not be read.

    Attributes:
        source: Its name in the table ``sources``, in which names of people are pseudonyms.
        status: ``set_aside`` or ``failed``.
        reason: Why, and what to do.
    """

    source: str
    status: str
    reason: str


@dataclass(frozen=True)
class EndedRun:
    """What alerts know of a run that has ended.

    It is no :class:`~backstory.pipeline.run.run.Run`, since alerts are sent of runs that have none, too: of
    one that an exception ended, and of one whose process is gone, of which Dagster's events hold numbers of cases and
    no tables. The history keeps a :class:`~backstory.pipeline.history.record.RunEnd`, whose reason names no person and
    no file, while an alert tells the sentence of the failure.

    Attributes:
        run_id: Id of the run; None if it failed before it had one.
        partitions: Keys of the wanted partitions; empty if they are not known.
        tables: Tables that the run built or tried to build.
        failures: What stopped the run, one sentence each; empty if it ended well.
        checks: Number of cases of each check that ran.
        files: Files that are not read; None if the run did not look.
        seconds: Wall-clock time; None if it is not known.
        cost: Texts, tokens and calls by name; None if they are not known.
    """

    run_id: str | None
    partitions: Sequence[str]
    tables: Sequence[str]
    failures: Sequence[str] = ()
    checks: Mapping[Check, int] = field(default_factory=dict)
    files: Sequence[UnreadFile] | None = None
    seconds: float | None = None
    cost: Mapping[str, int] | None = None

    @property
    def status(self) -> Literal["failed", "warned", "ended_well"]:
        """Whether the run failed, or found something that a person should look at."""
        if self.failures:
            return "failed"
        return "warned" if self.files or any(self.checks.values()) else "ended_well"


def describe_result(result: Run) -> EndedRun:
    """Describe a run over all tables that has a result."""
    return EndedRun(
        run_id=result.id,
        partitions=result.partitions,
        tables=[stage.table for stage in STAGES],
        failures=[*result.failures, *filter(None, [result.stopped])],
        checks={found.check: len(found.cases) for found in result.found.values()},
        files=list_files(result.unfinished),
        seconds=result.seconds,
        cost={name: result.total(name) for name in COST_FIGURES},
    )


def describe_crash(error: Exception) -> EndedRun:
    """Describe a run that an exception ended before it had a result.

    An exception that the library did not raise on purpose may quote an input, so only its class is told.
    """
    told = (
        str(error) if isinstance(error, BackstoryError) else f"{type(error).__name__}, see the log of the run"
    )
    return EndedRun(run_id=None, partitions=(), tables=(), failures=[told])


def list_files(sources: pl.DataFrame) -> list[UnreadFile]:
    """List the files of some rows of the table ``sources``."""
    rows = sources.select("source", "status", "reason").sort("source").iter_rows()
    return [UnreadFile(source, status, reason or "") for source, status, reason in rows]
