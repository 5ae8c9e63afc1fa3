"""Whether a run over some partitions would find anything to do."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from backstory.ids import digest, digest_json
from backstory.index import current_version
from backstory.index.snapshot.manifest import find_damage
from backstory.pipeline.conversations import exports_fingerprint
from backstory.pipeline.inputs import CODE_VERSIONS
from backstory.tables import list_partitions
from backstory.tables.ledger import Entry
from backstory.tables.schemas import TABLES
from backstory.workspace import Workspace

_RUNS = "runs"
_BYTES_AT_ONCE = 1 << 20


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Say whether nothing changed since the same partitions were last materialized completely.

    Every byte of the exports and documents is hashed, and nothing is believed of a file's size or time: an edit
    is seen however soon after the last one, and of whatever length. Every partition that had rows must still
    have its file, and the published snapshot all of its files.

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
    settings = digest_json(workspace.settings.model_dump(mode="json"))
    state = [digest_json(dict(CODE_VERSIONS)), settings, exports_fingerprint(workspace)]
    models = [workspace.embedder.id, workspace.reranker.id if workspace.reranker else ""]
    posts = sorted(hash_files(workspace.posts))
    return digest([*state, *models, current_version(workspace.index), *posts])


def hash_files(folder: Path) -> Iterator[str]:
    """Give path and hash of every file; in one thread, since more of them take longer for small files."""
    root = os.fspath(folder)
    for place, _, names in os.walk(root):
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118 - a Path for each of thousands takes as long as the hash
            if os.path.isfile(path):  # noqa: PTH113
                yield f"{os.fsencode(path[len(root) :])!r} {_hash_file(path)}"


def _hash_file(path: str) -> str:
    try:
        return _hash_content(path)
    except OSError as error:
        return f"not readable: {error.strerror}"  # reading the documents says so of the file


def _hash_content(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        state = hashlib.sha256()
        while part := os.read(descriptor, _BYTES_AT_ONCE):
            state.update(part)
    finally:
        os.close(descriptor)
    return state.hexdigest()


def _has_all_files(workspace: Workspace) -> bool:
    if find_damage(workspace.index / current_version(workspace.index), checksums=False) is not None:
        return False
    for table in TABLES:
        filled = {key for key, entry in workspace.ledger.read(table).items() if entry.rows}
        if not filled <= set(list_partitions(workspace.tables, table)):
            return False
    return True
