"""The plan of a run: all stages in the order in which data flows, and whether any of them has something to make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backstory.base.errors import BackstoryError
from backstory.base.ids import digest
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.sources.listing import hash_listing, list_documents
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.incremental.inputs import hash_dependencies
from backstory.pipeline.stages.corpus import DocumentChunksStage, DocumentsStage, SearchIndexStage
from backstory.pipeline.stages.messages import MessagesStage
from backstory.pipeline.stages.posts import PostsStage, list_files_of_people
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.stages.windows import (
    ContextsStage,
    DecisionsStage,
    HitsStage,
    WindowChunksStage,
    WindowContextsStage,
    WindowsStage,
)
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

CHATS: Final[tuple[type[Stage], ...]] = (MessagesStage, WindowsStage, WindowChunksStage)
"""Stages that read no document."""

CORPUS: Final[tuple[type[Stage], ...]] = (DocumentsStage, DocumentChunksStage, SearchIndexStage)
"""Stages of the documents and their index, which read no chat."""

SEARCHING: Final = (HitsStage, DecisionsStage, ContextsStage, WindowContextsStage)
"""Stages that search the documents for windows."""

SEARCHED: Final = frozenset(stage.table for stage in SEARCHING)
"""Tables of the stages that search the documents."""

ANSWERS: Final[tuple[type[Stage], ...]] = (*SEARCHING, PostsStage)
"""Stages that search the documents for windows, and write posts."""

STAGES: Final = CHATS + CORPUS + ANSWERS
"""All stages, in the order in which data flows."""

ALL_TABLES: Final = frozenset(stage.table for stage in STAGES)
"""Tables of all stages."""

TABLES_OF_DOCUMENTS: Final = frozenset(stage.table for stage in CORPUS)
"""Tables of the stages that read no chat."""

_COMPLETE: Final = "complete run"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Check whether every stage is up to date, every output is intact, and the checks have passed.

    Every byte of exports and tables is hashed, and each document whose state on the disk has changed.
    """
    if any(source.settings.is_remote for source in list_sources(workspace)):
        return False  # whether a place elsewhere has changed is known only by listing it
    passed = workspace.catalog.read(_COMPLETE).get(WHOLE)
    if passed is None or passed.content != digest(_list_entries(workspace)):
        return False
    first, last = passed.inputs.split()
    if not first <= partitions[0] <= partitions[-1] <= last:
        return False
    resources = RunResources(workspace)
    try:
        return not any(stage(resources, partitions).stale_partitions() for stage in STAGES)
    except BackstoryError:
        return False  # such as of an absent model, which the run raises, and records


def record_run(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Record that the tables in their current state passed the checks for these partitions."""
    passed = Entry(f"{partitions[0]} {partitions[-1]}", digest(_list_entries(workspace)), len(partitions))
    workspace.catalog.record(_COMPLETE, {WHOLE: passed})


def _list_entries(workspace: Workspace) -> list[str]:
    """List the entries of all tables that stages write, as one list of texts."""
    tables = sorted(ALL_TABLES.union(*(stage.side_outputs for stage in STAGES)))
    entries = workspace.catalog.read_all(tables)
    return [
        part
        for table in tables
        for key, entry in sorted(entries[table].items())
        for part in (table, key, entry.inputs, entry.content)
    ]


def hash_state(workspace: Workspace) -> str:
    """Hash the catalog, the settings and the sizes and times of the tables' files, but not those in a bucket.

    With equal hashes, :func:`is_fresh` answers the same for the same exports and documents.
    """
    depends = [hash_dependencies(workspace, stage.table) for stage in STAGES]
    files = [name for names in workspace.tables.list_files().values() for name in names.values()]
    stamps = [str(workspace.tables.store.stamp(name)) for name in files]
    return digest([*depends, *_list_entries(workspace), *stamps], length=16)


def hash_document_files(workspace: Workspace) -> str:
    """Hash every file that may be a document: those of the folder of documents, and those of the further sources."""
    return hash_listing(
        list_documents(workspace, workspace.list_other_parts()), FileHashes(workspace.catalog)
    )


def fingerprint_documents(workspace: Workspace) -> str:
    """Hash every file of documents, and what people did to the written posts, if these are documents."""
    posts = list_files_of_people(workspace) if workspace.feeds_back else []
    return digest([hash_document_files(workspace), *posts])
