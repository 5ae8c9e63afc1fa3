"""The plan of a run: all stages in the order in which data flows, with what each reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from backstory.full_disks import naming_full_disk
from backstory.pipeline.conversations import (
    find_pending_messages,
    materialize_messages,
)
from backstory.pipeline.corpus import (
    find_pending_document_chunks,
    find_pending_documents,
    materialize_document_chunks,
    materialize_documents,
)
from backstory.pipeline.message_windows import (
    find_pending_window_chunks,
    find_pending_windows,
    materialize_window_chunks,
    materialize_windows,
)
from backstory.pipeline.posts import find_pending_posts, materialize_posts
from backstory.pipeline.retrieval import (
    find_pending_retrieval,
    materialize_contexts,
    materialize_decisions,
    materialize_hits,
    materialize_window_contexts,
)
from backstory.pipeline.search_index import find_pending_index, materialize_search_index
from backstory.pipeline.stage_report import StageReport
from backstory.telemetry import describe_range, observe
from backstory.workspace import Workspace

MakePartitions = Callable[[Workspace, Sequence[str]], StageReport]
FindPending = Callable[[Workspace, Sequence[str]], list[str]]


@dataclass(frozen=True)
class Stage:
    """One stage. Two ways to make the same table are equal.

    Attributes:
        table: The table that it writes, or ``search_index``.
        make: Materializes the table for some partitions. A table without partitions is always built whole.
        find_pending: Lists the partitions that ``make`` would rebuild: their inputs differ from the recorded ones,
            or their file differs from the one written.
        reads: The tables that it reads, including those of :attr:`reads_previous`.
        partitioned: Whether the table has the calendar partitions of the workspace.
        reads_previous: Tables of which it also reads the previous partition.
        writes_beside: Secondary tables that it also writes; they have no calendar partitions.
    """

    table: str
    make: MakePartitions = field(compare=False)
    find_pending: FindPending = field(compare=False)
    reads: tuple[str, ...] = ()
    partitioned: bool = True
    reads_previous: tuple[str, ...] = ()
    writes_beside: tuple[str, ...] = ()


Answer = TypeVar("Answer")


def _whole(of_workspace: Callable[[Workspace], Answer]) -> Callable[[Workspace, Sequence[str]], Answer]:
    return lambda workspace, _partitions: of_workspace(workspace)


def _pending_retrieval(table: str) -> FindPending:
    return lambda workspace, partitions: find_pending_retrieval(workspace, table, partitions)


def _observed(stage: Stage) -> Stage:
    """Make a stage show in logs and traces, with its name, its partitions and its figures."""

    def make(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
        with observe("stage", stage=stage.table, **describe_range(partitions)) as work:
            report = stage.make(workspace, partitions)
            # Counts may be texts that name files; those stay out of traces.
            work.add(**{name: value for name, value in report.figures.items() if not isinstance(value, str)})
            return report

    return replace(stage, make=make)


def _with_ledger(make: MakePartitions) -> MakePartitions:
    """Make a stage replace a damaged ledger before it starts, and say so if the disk is full."""

    def make_with_ledger(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
        with naming_full_disk(workspace.root):
            workspace.ledger.set_aside_if_damaged()
            return make(workspace, partitions)

    return make_with_ledger


_STAGES: Final = (
    Stage(
        "messages",
        _with_ledger(materialize_messages),
        find_pending_messages,
        writes_beside=("quarantine", "sources"),
    ),
    Stage(
        "windows",
        _with_ledger(materialize_windows),
        find_pending_windows,
        reads=("messages",),
        reads_previous=("messages",),
    ),
    Stage(
        "window_chunks",
        _with_ledger(materialize_window_chunks),
        find_pending_window_chunks,
        reads=("windows", "messages"),
        reads_previous=("messages",),
    ),
    Stage(
        "documents",
        _with_ledger(_whole(materialize_documents)),
        _whole(find_pending_documents),
        partitioned=False,
        writes_beside=("sources",),
    ),
    Stage(
        "document_chunks",
        _with_ledger(_whole(materialize_document_chunks)),
        _whole(find_pending_document_chunks),
        reads=("documents",),
        partitioned=False,
    ),
    Stage(
        "search_index",
        _with_ledger(_whole(materialize_search_index)),
        _whole(find_pending_index),
        reads=("documents", "document_chunks"),
        partitioned=False,
    ),
    Stage(
        "hits",
        _with_ledger(materialize_hits),
        _pending_retrieval("hits"),
        reads=("windows", "window_chunks", "search_index"),
    ),
    Stage(
        "decisions",
        _with_ledger(materialize_decisions),
        _pending_retrieval("decisions"),
        reads=("hits", "windows", "window_chunks", "search_index"),
    ),
    Stage(
        "contexts",
        _with_ledger(materialize_contexts),
        _pending_retrieval("contexts"),
        reads=("decisions", "windows", "window_chunks", "search_index"),
    ),
    Stage(
        "window_contexts",
        _with_ledger(materialize_window_contexts),
        _pending_retrieval("window_contexts"),
        reads=("windows", "window_chunks", "hits", "decisions", "contexts", "search_index"),
    ),
    Stage(
        "posts",
        _with_ledger(materialize_posts),
        find_pending_posts,
        reads=("messages", "windows", "window_chunks", "contexts", "window_contexts"),
        reads_previous=("messages",),
    ),
)

STAGES: Final = tuple(_observed(stage) for stage in _STAGES)
"""All stages, in the order in which data flows."""

INTERIM_STAGES: Final = tuple(
    _observed(
        replace(
            stage,
            make=_with_ledger(_whole(partial(materialize_search_index, interim=True))),
            find_pending=_whole(partial(find_pending_index, interim=True)),
        )
        if stage.table == "search_index"
        else stage
    )
    for stage in _STAGES
)
"""The same, while the run will add further posts to the index."""
