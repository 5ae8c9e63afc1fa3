"""The plan of a run: which stages there are, what each reads and writes, in the order in which data flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from backstory.pipeline.conversations import (
    materialize_messages,
    materialize_window_chunks,
    materialize_windows,
)
from backstory.pipeline.corpus import (
    materialize_document_chunks,
    materialize_documents,
    materialize_search_index,
)
from backstory.pipeline.retrieval import (
    materialize_contexts,
    materialize_decisions,
    materialize_hits,
    materialize_window_contexts,
)
from backstory.pipeline.stage_report import StageReport
from backstory.workspace import Workspace

MakePartitions = Callable[[Workspace, Sequence[str]], StageReport]


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        table: The table that it writes, or ``search_index``.
        make: Materializes it for some partitions; a table without partitions is made whole, whatever they are.
        reads: The tables that it reads; those of :attr:`reads_previous`, too.
        partitioned: Whether the table has the calendar partitions of the workspace.
        reads_previous: Of the tables that it reads, those of which it also reads the partition before.
        writes_beside: Further tables that are written in passing; they have no calendar partitions.
    """

    table: str
    make: MakePartitions
    reads: tuple[str, ...] = ()
    partitioned: bool = True
    reads_previous: tuple[str, ...] = ()
    writes_beside: tuple[str, ...] = ()


def _whole(materialize: Callable[[Workspace], StageReport]) -> MakePartitions:
    return lambda workspace, _partitions: materialize(workspace)


STAGES: Final = (
    Stage("messages", materialize_messages, writes_beside=("quarantine", "sources")),
    Stage("windows", materialize_windows, reads=("messages",), reads_previous=("messages",)),
    Stage(
        "window_chunks",
        materialize_window_chunks,
        reads=("windows", "messages"),
        reads_previous=("messages",),
    ),
    Stage("documents", _whole(materialize_documents), partitioned=False, writes_beside=("sources",)),
    Stage("document_chunks", _whole(materialize_document_chunks), reads=("documents",), partitioned=False),
    Stage(
        "search_index",
        _whole(materialize_search_index),
        reads=("documents", "document_chunks"),
        partitioned=False,
    ),
    Stage("hits", materialize_hits, reads=("windows", "window_chunks", "search_index")),
    Stage("decisions", materialize_decisions, reads=("hits", "windows", "window_chunks", "search_index")),
    Stage("contexts", materialize_contexts, reads=("decisions", "windows", "search_index")),
    Stage(
        "window_contexts",
        materialize_window_contexts,
        reads=("windows", "window_chunks", "hits", "decisions", "contexts", "search_index"),
    ),
)
"""All stages, in the order in which data flows."""
