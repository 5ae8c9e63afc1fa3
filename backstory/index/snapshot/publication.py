"""Publication of snapshots: the ``CURRENT`` file names the current one and is replaced atomically.

The file ``HISTORY`` lists all snapshots in order. A publishing process holds the folder's lock. Readers need no lock
to find the current snapshot.
"""

from __future__ import annotations

import logging
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from backstory.base.errors import MissingExtraError, NoIndexError, SearchIndexError
from backstory.base.files.atomic import flush, lock
from backstory.index.snapshot.history import (
    HISTORY_FILE,
    add_publication,
    drop_publications,
    find_bad_line,
    read_history,
)
from backstory.index.snapshot.manifest import (
    REBUILD_COMMAND,
    closed_to_readers,
    hash_manifest,
    read_documents,
    read_manifest,
)
from backstory.settings.models import IndexSettings

CURRENT_FILE = "CURRENT"
_LOCK_FILE = ".lock"
_OWNER_FILE = ".owner"
_VERSION = re.compile(rb"([0-9a-f]{16})\n")
_UNPUBLISHED = ".building-"
_DISCARDED = ".discarded-"
_UPLOADING = ".uploading-"

logger = logging.getLogger(__name__)


@contextmanager
def publishing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, and wait for it while another process publishes.

    Leftovers of a killed publication are removed, and at the end those of one that failed. What either left on a
    server is deleted at the next publication; a server that cannot be reached is warned of, and asked again at the one
    after it.

    Args:
        folder: The folder of the index; made if absent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("ab") as lock_file:
        lock(lock_file)
        _remove_leftovers(folder)
        _try_to_drop_unpublished(folder)
        try:
            yield
            _list_unpublished(folder)
        finally:
            _remove_leftovers(folder)


def current_version(folder: Path) -> str:
    """Return the version of the current snapshot, or an empty string if nothing is published.

    A pointer that is damaged points to nothing, as one that is gone: the next build publishes its snapshot again.
    """
    try:
        written = (folder / CURRENT_FILE).read_bytes()
    except FileNotFoundError:
        return ""
    named = _VERSION.fullmatch(written)
    return named[1].decode() if named else ""


def has_pointer(folder: Path) -> bool:
    """Return whether anything was ever published into a folder, whether or not it can be opened."""
    return (folder / CURRENT_FILE).exists() or bool(read_history(folder))


def require_current(folder: Path) -> str:
    """Return the version of the current snapshot.

    Raises:
        NoIndexError: Nothing is published.
        SearchIndexError: The pointer to the current snapshot is damaged.
    """
    version = current_version(folder)
    if not version and has_pointer(folder):
        raise SearchIndexError(
            f"{folder / CURRENT_FILE} is damaged or gone; run `{REBUILD_COMMAND}`",
            code="damaged_publication",
            path=folder / CURRENT_FILE,
        )
    if not version:
        raise NoIndexError(
            f"no search index is published in {folder}; run `{REBUILD_COMMAND}`, or without chats `backstory add`",
            folder=folder,
        )
    return version


def require_listed_manifest(folder: Path, version: str) -> None:
    """Compare the manifest of a snapshot with the history, since the checksums in it cannot vouch for itself.

    Raises:
        SearchIndexError: The manifest is not the one that was published.
    """
    listed = {published.version: published.manifest for published in read_history(folder)}
    if version in listed and hash_manifest(folder / version) != listed[version]:
        raise SearchIndexError(
            f"the manifest of {folder / version} is not the one that was published; run `{REBUILD_COMMAND}`",
            code="unpublished_manifest",
            folder=folder / version,
        )


def find_history_damage(folder: Path) -> str | None:
    """Return what is wrong with the list of publications, and what to do; None if it lists the current snapshot."""
    version, path = current_version(folder), folder / HISTORY_FILE
    if (number := find_bad_line(folder)) is not None:
        return (
            f"line {number} of {path} names no snapshot; run `{REBUILD_COMMAND}`, which writes the list again"
        )
    if version and version not in {published.version for published in read_history(folder)}:
        return f"{path} does not list the snapshot {version}; run `{REBUILD_COMMAND}`, which adds it"
    return None


def is_served(snapshot: Path) -> bool:
    """Return whether the server of a snapshot, if it has one, holds all its vectors.

    Raises:
        SearchIndexError: The manifest is absent or damaged, or the server cannot be reached.
    """
    manifest = read_manifest(snapshot)
    if not manifest.hnsw_on_server:
        return True
    # Imported late, since no other engine needs it.
    from backstory.index.engines.milvus import are_in_milvus

    return are_in_milvus(manifest.settings, manifest.served_collection, manifest.rows)


def start_snapshot(folder: Path, version: str) -> Path:
    """Make a hidden folder to build a snapshot in, which readers ignore."""
    path = folder / f"{_UNPUBLISHED}{version}"
    path.mkdir()
    return path


def name_collection(folder: Path, version: str) -> str:
    """Name the collection that a server gets for a snapshot.

    The name holds a random number of the folder. So a removal here never deletes what another workspace of equal
    documents searches. A copy of the folder has the same number.

    Args:
        folder: The folder of the index.
        version: The snapshot's version.
    """
    path = folder / _OWNER_FILE
    if not path.exists():
        written = folder / f"{_UNPUBLISHED}owner"
        written.write_text(secrets.token_hex(8), encoding="ascii")
        flush(written)
        written.replace(path)
        flush(folder)
    return f"backstory_{path.read_text(encoding='ascii')}_{version}"


def note_upload(folder: Path, version: str, collection: str, uri: str) -> None:
    """Write down that a server is about to get the vectors of a snapshot, in case this process is killed.

    Args:
        folder: The folder of the index.
        version: The snapshot's version.
        collection: The name of its collection.
        uri: Address of the server.
    """
    note = folder / f"{_UNPUBLISHED}note"
    note.write_text(f"{uri}\n{collection}", encoding="utf-8")
    flush(note)
    note.replace(folder / f"{_UPLOADING}{version}")
    flush(folder)


def drop_unpublished(folder: Path) -> None:
    """Delete from servers the vectors of snapshots that were never published. The caller holds :func:`publishing`.

    Raises:
        SearchIndexError: A server cannot be reached, or refuses; its vectors are dropped by a later call.
        MissingExtraError: The client of the server is not installed any more.
    """
    for note in _list_unpublished(folder):
        # Imported late, since no other engine needs it.
        from backstory.index.engines.milvus import drop_from_milvus

        uri, collection = note.read_text(encoding="utf-8").splitlines()
        drop_from_milvus(IndexSettings(engine="milvus", uri=uri, allow_http=True), collection)
        note.unlink()


def publish(folder: Path, version: str, built: Path | None) -> None:
    """Make a snapshot the current one, durably and in one step.

    Args:
        folder: The folder of the index.
        version: The snapshot's version.
        built: Folder from :func:`start_snapshot` with the built snapshot, which replaces a damaged one of the same
            version; None if the snapshot is in its final folder.
    """
    target = folder / version
    # First, so that a snapshot that was ever current is listed, even after a kill between two of these steps.
    manifest = hash_manifest(built or target)
    add_publication(folder, version, manifest, folder / f"{_UNPUBLISHED}{HISTORY_FILE}")
    if built is not None:
        for path in [*built.rglob("*"), built]:
            flush(path)
        if target.exists():
            if _find_collection(target) != _find_collection(built):
                _drop_served(target)
            _discard(folder, target)
        built.rename(target)
        flush(folder)
    pointer = folder / f"{_UNPUBLISHED}{CURRENT_FILE}"
    pointer.write_text(f"{version}\n", encoding="utf-8")
    flush(pointer)
    pointer.replace(folder / CURRENT_FILE)
    flush(folder)


def prune(folder: Path, keep: int, *, on_server: bool = True) -> list[str]:
    """Delete all but the most recently published snapshots; skip the current one and open ones.

    Args:
        folder: The folder of the index.
        keep: Number of snapshots to keep, the current one included.
        on_server: Whether their vectors on a server are deleted, too. A copy of the folder leaves them to the worker
            that publishes: others may still search them.

    Returns:
        Versions of the deleted snapshots.
    """
    current = current_version(folder)
    place = {published.version: number for number, published in enumerate(read_history(folder))}
    snapshots = _list_snapshots(folder)
    snapshots.sort(key=lambda path: (path.name == current, place.get(path.name, -1), path.name), reverse=True)
    return _drop_unused(folder, snapshots[keep:], on_server=on_server)


def prune_documents(folder: Path, revisions: pl.DataFrame) -> list[str]:
    """Delete the snapshots that hold what was deleted since; never the current one, nor one that is open.

    One that is open is no longer listed, so that it is not served again.

    Args:
        folder: The folder of the index.
        revisions: ``document_id`` and ``revision`` of all that a snapshot may hold.

    Returns:
        Versions of the deleted snapshots.
    """
    old = [path for path in _list_snapshots(folder) if path.name != current_version(folder)]
    if not old:
        return []
    with publishing(folder):
        holding = [path for path in old if path.is_dir() and _may_hold_others(path, revisions)]
        return _drop_unused(folder, holding) if holding else []


def _list_snapshots(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _may_hold_others(snapshot: Path, revisions: pl.DataFrame) -> bool:
    """Return whether a snapshot holds any other revision; true if its list of documents is lost, damaged or older."""
    try:
        listed = read_documents(snapshot).select(revisions.columns)
        return not listed.join(revisions, on=revisions.columns, how="anti").is_empty()
    except (OSError, pl.exceptions.ColumnNotFoundError, SearchIndexError):
        return True


def _drop_unused(folder: Path, snapshots: Sequence[Path], *, on_server: bool = True) -> list[str]:
    """Take snapshots out of the history, and delete those that no process has open. Return the deleted ones."""
    drop_publications(folder, {path.name for path in snapshots}, folder / f"{_UNPUBLISHED}{HISTORY_FILE}")
    pruned = []
    for path in snapshots:
        with closed_to_readers(path) as unused:
            if unused:
                if on_server:
                    _drop_served(path)
                _discard(folder, path)
                pruned.append(path.name)
    return pruned


def _find_collection(snapshot: Path) -> str | None:
    """Find the collection of a snapshot; None if it has none, or if that is not known."""
    try:
        manifest = read_manifest(snapshot)
    except SearchIndexError:
        return None
    return manifest.served_collection if manifest.hnsw_on_server else None


def _drop_served(snapshot: Path) -> None:
    """Delete the vectors of a snapshot from the server that holds them, if one does."""
    try:
        manifest = read_manifest(snapshot)
    except SearchIndexError:
        return
    if manifest.hnsw_on_server:
        # Imported late, since no other engine needs it.
        from backstory.index.engines.milvus import drop_from_milvus

        drop_from_milvus(manifest.settings, manifest.served_collection)


def _list_unpublished(folder: Path) -> list[Path]:
    """List the notes of uploads without a publication, and delete the others."""
    left = []
    for note in sorted(folder.glob(f"{_UPLOADING}*")):
        if (folder / note.name.removeprefix(_UPLOADING)).is_dir():
            note.unlink()
        else:
            left.append(note)
    return left


def _try_to_drop_unpublished(folder: Path) -> None:
    try:
        drop_unpublished(folder)
    except (SearchIndexError, MissingExtraError) as error:
        logger.warning("vectors of an unfinished build are still on a server: %s", error)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith((_UNPUBLISHED, _DISCARDED)):
            _remove(path)


def _discard(folder: Path, snapshot: Path) -> None:
    # Renamed before deletion, so that a killed process never leaves half a snapshot under its name.
    discarded = folder / f"{_DISCARDED}{snapshot.name}"
    snapshot.rename(discarded)
    _remove(discarded)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
