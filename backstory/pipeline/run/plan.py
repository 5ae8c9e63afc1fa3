"""The plan of a run: all stages in the order in which data flows, the wanted partitions, and what is up to date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Final

from backstory.base.errors import BackstoryError, InputError
from backstory.base.ids import digest, digest_json
from backstory.ingest.documents.files import FileHashes
from backstory.ingest.sources.listing import hash_listing, list_documents, list_sources
from backstory.pipeline.incremental.inputs import hash_dependencies
from backstory.pipeline.sharing import require_keys
from backstory.pipeline.stages.corpus import DocumentChunksStage, DocumentsStage, SearchIndexStage
from backstory.pipeline.stages.messages import MessagesStage, find_partitions
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
from backstory.storage.tables.partitions import partition_key
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


def find_wanted(workspace: Workspace, first: date | None, last: date | None) -> list[str]:
    """List the partitions of a range of days that have messages, or had some in an earlier run.

    They are in order, and at least one. Without a first or last day, the range begins and ends with the messages.
    """
    if first is not None and last is not None and last < first:
        raise InputError(f"--to {last} lies before --from {first}; swap the two", code="swapped_range")
    grain = workspace.settings.partitions.grain
    require_keys(workspace, workspace.tables)
    found = find_partitions(workspace)
    start = found[0] if first is None else partition_key(datetime.combine(first, time(0), UTC), grain)
    end = found[-1] if last is None else partition_key(datetime.combine(last, time(23), UTC), grain)
    wanted = [key for key in found if start <= key <= end]
    if not wanted:
        raise InputError(
            f"there is no message from {start} to {end}: the first is of {found[0]}, the last of {found[-1]}",
            code="empty_range",
        )
    return wanted


_COMPLETE: Final = "complete run"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Check whether every stage is up to date, every output is intact, and the checks have passed.

    Every byte of exports and tables is hashed, and each document whose state on the disk has changed.
    """
    if any(source.settings.is_remote for source in list_sources(workspace)):
        return False  # whether a place elsewhere has changed is known only by listing it
    passed = workspace.catalog.read(_COMPLETE).get(WHOLE)
    if passed is None or passed.content != _hash_entries(workspace):
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
    passed = Entry(f"{partitions[0]} {partitions[-1]}", _hash_entries(workspace), len(partitions))
    workspace.catalog.record(_COMPLETE, {WHOLE: passed})


def _hash_entries(workspace: Workspace) -> str:
    """Hash the entries of all tables that stages write."""
    entries = workspace.catalog.read_all(sorted(ALL_TABLES.union(*(stage.side_outputs for stage in STAGES))))
    made = {
        table: {key: (entry.inputs, entry.content) for key, entry in of_table.items()}
        for table, of_table in entries.items()
    }
    return digest_json(made)


def hash_state(workspace: Workspace) -> str:
    """Hash the catalog, the settings and the sizes and times of the tables' files, but not those in a bucket.

    With equal hashes, :func:`is_fresh` answers the same for the same exports and documents.
    """
    depends = [hash_dependencies(workspace, stage.table) for stage in STAGES]
    files = [name for names in workspace.tables.list_files().values() for name in names.values()]
    stamps = [str(workspace.tables.store.stamp(name)) for name in files]
    return digest([*depends, _hash_entries(workspace), *stamps], length=16)


def hash_document_files(workspace: Workspace) -> str:
    """Hash every file that may be a document: those of the folder of documents, and those of the further sources."""
    return hash_listing(
        list_documents(workspace, workspace.list_other_parts()), FileHashes(workspace.catalog)
    )


def fingerprint_documents(workspace: Workspace) -> str:
    """Hash every file of documents, and what people did to the written posts, if these are documents."""
    posts = list_files_of_people(workspace) if workspace.feeds_back else []
    return digest([hash_document_files(workspace), *posts])
