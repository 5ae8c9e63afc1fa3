"""Find the errors that would stop a run before it writes. Nothing is written."""

from __future__ import annotations

from backstory.base.errors import BackstoryError
from backstory.ingest.chats.export_files import find_exports
from backstory.ingest.documents.folder import read_listed_documents
from backstory.ingest.sources.listing import list_documents
from backstory.pipeline.chats.removals import refuse_removals, require_documents
from backstory.pipeline.incremental.partitions import read_previous
from backstory.pipeline.stages.messages import read_all_messages
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import partition_keys


def find_run_stops(workspace: Workspace) -> list[str]:
    """Find the errors that would stop a run over all partitions, such as messages missing from the exports.

    Returns:
        The message of each error that the run would raise. None before the first run, which has nothing to lose.
    """
    stops = []
    for require in (_require_messages, _require_documents):
        try:
            require(workspace)
        except BackstoryError as error:
            stops.append(str(error))
    return stops


def _require_messages(workspace: Workspace) -> None:
    stored = workspace.tables.keys("messages")
    if stored:
        reading = read_all_messages(workspace)
        keys = partition_keys(reading.messages, workspace.settings.partitions.grain)
        refuse_removals(workspace, reading, find_exports(workspace.chats_dir), [*stored, *keys.unique()])


def _require_documents(workspace: Workspace) -> None:
    previous = read_previous(workspace, "documents")
    if previous is not None:
        listing = list_documents(workspace, workspace.list_other_parts())
        settings = workspace.settings
        read = read_listed_documents(
            listing, settings.documents, previous, timezone=settings.conversations.timezone
        )
        require_documents(workspace, previous, read.documents)
