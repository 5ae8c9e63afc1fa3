"""Find the errors that would stop a run before it writes. Nothing is written."""

from __future__ import annotations

from backstory.base.errors import BackstoryError
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.pipeline.stages.documents import read_documents
from backstory.pipeline.stages.messages import read_all_messages
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE


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
    if stored := workspace.tables.keys("messages"):
        read_all_messages(workspace, stored)


def _require_documents(workspace: Workspace) -> None:
    if WHOLE in workspace.catalog.read("documents"):
        read_documents(workspace, workspace.list_documents(), FileHashes(workspace.catalog))
