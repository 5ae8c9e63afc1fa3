"""Publication of snapshots: the ``CURRENT`` file names the current one and is replaced atomically.

The file ``HISTORY`` lists all snapshots in order. A publishing process holds the folder's lock. Readers need no lock
to find the current snapshot.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import polars as pl

from backstory.base.errors import NoIndexError, SearchIndexError
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
)
from backstory.index.snapshot.served import UNPUBLISHED, let_go, list_keyless

CURRENT_FILE = "CURRENT"
_LOCK_FILE = ".lock"
_VERSION = re.compile(rb"([0-9a-f]{16})\n")
_DISCARDED = ".discarded-"


@contextmanager
def publishing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, and wait for it while another process publishes.

    Leftovers of a killed publication are removed, and at the end those of one that failed.

    Args:
        folder: The folder of the index; made if absent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("ab") as lock_file:
        lock(lock_file)
        _remove_leftovers(folder)
        # Before a snapshot is removed or replaced, since its manifest alone names them.
        list_keyless(folder)
        try:
            yield
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


def start_snapshot(folder: Path, version: str) -> Path:
    """Make a hidden folder to build a snapshot in, which readers ignore."""
    path = folder / f"{UNPUBLISHED}{version}"
    path.mkdir()
    return path


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
    add_publication(folder, version, manifest, folder / f"{UNPUBLISHED}{HISTORY_FILE}")
    if built is not None:
        for path in [*built.rglob("*"), built]:
            flush(path)
        if target.exists():
            _discard(folder, target)
        built.rename(target)
        flush(folder)
    pointer = folder / f"{UNPUBLISHED}{CURRENT_FILE}"
    pointer.write_text(f"{version}\n", encoding="utf-8")
    flush(pointer)
    pointer.replace(folder / CURRENT_FILE)
    flush(folder)


def prune(folder: Path, keep: int, *, on_server: bool = True, must_succeed: bool = False) -> list[str]:
    """Delete all but the most recently published snapshots; skip the current one and open ones.

    Args:
        folder: The folder of the index.
        keep: Number of snapshots to keep, the current one included.
        on_server: Whether what no snapshot needs on a server is deleted, too. A copy of the folder leaves it to the
            worker that publishes: others may still search it.
        must_succeed: Whether it is an error, and not a warning, if a server does not delete it.

    Returns:
        Versions of the deleted snapshots.

    Raises:
        SearchIndexError: A server did not delete everything, and that is an error.
        MissingExtraError: The client of the server is not installed any more, and that is an error.
    """
    current = current_version(folder)
    place = {published.version: number for number, published in enumerate(read_history(folder))}
    snapshots = _list_snapshots(folder)
    snapshots.sort(key=lambda path: (path.name == current, place.get(path.name, -1), path.name), reverse=True)
    return _drop_unused(folder, snapshots[keep:], on_server=on_server, must_succeed=must_succeed)


def prune_documents(folder: Path, revisions: pl.DataFrame, *, on_server: bool = True) -> list[str]:
    """Delete the snapshots that hold what was deleted since; never the current one, nor one that is open.

    One that is open is no longer listed, so that it is not served again.

    Args:
        folder: The folder of the index.
        revisions: ``document_id`` and ``revision`` of all that a snapshot may hold.
        on_server: Whether what no snapshot needs on a server is deleted, too.

    Returns:
        Versions of the deleted snapshots.
    """
    old = [path for path in _list_snapshots(folder) if path.name != current_version(folder)]
    if not old:
        return []
    with publishing(folder):
        holding = [path for path in old if path.is_dir() and _may_hold_others(path, revisions)]
        return _drop_unused(folder, holding, on_server=on_server) if holding else []


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


def _drop_unused(
    folder: Path, snapshots: Sequence[Path], *, on_server: bool = True, must_succeed: bool = False
) -> list[str]:
    """Take snapshots out of the history, and delete those that no process has open. Return the deleted ones."""
    drop_publications(folder, {path.name for path in snapshots}, folder / f"{UNPUBLISHED}{HISTORY_FILE}")
    with ExitStack() as closed:
        unused = [path for path in snapshots if closed.enter_context(closed_to_readers(path))]
        if on_server:
            # First, so that a process that is killed meanwhile leaves the snapshots to the next one.
            let_go(folder, unused, must_succeed=must_succeed)
        for path in unused:
            _discard(folder, path)
    return [path.name for path in unused]


def _remove_leftovers(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith((UNPUBLISHED, _DISCARDED)):
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
