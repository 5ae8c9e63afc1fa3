"""Whether a run over some partitions would find anything to do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from backstory import __version__
from backstory.ids import digest
from backstory.index import current_version
from backstory.ledger import Entry
from backstory.schemas import TABLES
from backstory.stages.conversations import exports_fingerprint
from backstory.stages.materialization import settings_digest
from backstory.tables import list_partitions
from backstory.workspace import Workspace

_RUNS = "runs"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Say whether nothing changed since the same partitions were last materialized completely.

    Exports and documents are hashed, and every partition that had rows must still have its file.

    Args:
        workspace: The workspace.
        partitions: Keys of the wanted partitions.

    Returns:
        True if a run would find every stage unchanged.
    """
    known = workspace.ledger.read(_RUNS).get(_range(partitions))
    return known is not None and known.inputs == _fingerprint(workspace) and _has_all_files(workspace)


def record_run(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Note that the partitions were materialized completely from what the workspace holds now."""
    entry = Entry(_fingerprint(workspace), current_version(workspace.index), len(partitions))
    workspace.ledger.record(_RUNS, {_range(partitions): entry})


def _range(partitions: Sequence[str]) -> str:
    return f"{partitions[0]} {partitions[-1]}"


def _fingerprint(workspace: Workspace) -> str:
    posts = [
        f"{path.relative_to(workspace.posts)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(workspace.posts.rglob("*"))
        if path.is_file()
    ]
    state = [__version__, settings_digest(workspace.settings), exports_fingerprint(workspace)]
    models = [workspace.embedder.id, workspace.reranker.id if workspace.reranker else ""]
    return digest([*state, *models, current_version(workspace.index), *posts])


def _has_all_files(workspace: Workspace) -> bool:
    for table in TABLES:
        filled = {key for key, entry in workspace.ledger.read(table).items() if entry.rows}
        if not filled <= set(list_partitions(workspace.tables, table)):
            return False
    return True
