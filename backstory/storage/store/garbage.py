"""Deletes the objects of a store that neither workers nor backups name any more."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from backstory.base.errors import StoreError
from backstory.base.processes import has_ended, name_process
from backstory.storage.store.backups import BACKUPS, find_kept
from backstory.storage.store.manifest import KEPT, Manifest, utc_now
from backstory.storage.store.objects import CALLS_AT_ONCE, ObjectStore, name_content

logger = logging.getLogger(__name__)

_REMOVALS: Final = "removals"
"""Folder of the marks of those who delete objects at this moment."""
_REMOVAL_SECONDS: Final = 300.0
"""After so long a removal deletes nothing more, and leaves the rest to the next one."""
_LONGEST_REMOVAL: Final = timedelta(minutes=15)
"""A mark that is older is of a process that was killed: its last call has ended, also by a clock that differs."""
_LAST_CALL_SECONDS: Final = 5.0
"""How long a store may take for what it was asked by a process that has ended."""
_PAUSE_SECONDS: Final = 0.5
_DAMAGED: Final = "damaged_backup"


def collect_garbage(
    store: ObjectStore, manifest: Manifest, keeps: timedelta = KEPT, *, removed: Collection[str] = ()
) -> int:
    """Delete the objects that neither the manifest nor an earlier one of the last hours nor a backup names.

    Those of uploads that were interrupted are among them. If a backup cannot be read, nothing is deleted, since it may
    name any of them: the log tells so.

    Args:
        store: The store.
        manifest: The published manifest.
        keeps: How long an object stays.
        removed: Hashes of objects that need not be as old.

    Returns:
        Number of deleted objects.

    Raises:
        StoreError: A backup cannot be read (code ``damaged_backup``), and the objects were to be deleted at once; or
            the store cannot be used.
    """
    named, oldest = manifest.objects, utc_now() - keeps
    since = oldest.isoformat()
    kept = named | {sha256 for sha256, dropped in manifest.dropped.items() if dropped > since}
    until = time.monotonic() + _REMOVAL_SECONDS

    def drop(sha256: str) -> bool:
        if keeps and sha256 not in removed:
            # A list may be stale, and the object one that another worker has uploaded again just now. So each is
            # deleted directly after the look at it.
            found = store.find(name_content(sha256))
            if found is None or found.changed_at >= oldest:
                return False
        if time.monotonic() > until:
            return False
        store.delete([name_content(sha256)])
        return True

    # With no time to keep, only what was dropped goes: what lies there else may be an upload of this moment.
    unnamed = {
        sha256
        for sha256, found in store.list_contents()
        if sha256 not in kept
        and (sha256 in removed or (found.changed_at < oldest if keeps else sha256 in manifest.dropped))
    }
    if not unnamed:
        return 0
    with _removing(store):
        try:
            unnamed -= find_kept(store)
        except StoreError as error:
            if error.code != _DAMAGED or not keeps:
                raise
            logger.warning(
                "nothing was deleted from %s, since a backup may name it that cannot be read: %s",
                store.address,
                error,
            )
            return 0
        with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
            return sum(threads.map(drop, unnamed))


def remove_backups(store: ObjectStore, names: Collection[str], published: Manifest | None) -> None:
    """Remove backups, the objects that only they name, and those of backups that were interrupted.

    Args:
        store: The store.
        names: The backups.
        published: What workers share in the same store; None if they share nothing there. Objects of the last hours may
            be uploads of theirs, or read by them, and are left to the next removal.

    Raises:
        StoreError: The store cannot be used.
    """
    removed: set[str] = set()
    for name in names if published is None else ():
        try:
            removed |= find_kept(store, [name])
        except StoreError as error:
            if error.code != _DAMAGED:
                raise
            # What it named goes by its age.
    if names:
        store.delete(list(names))
    collect_garbage(store, published or Manifest(), removed=removed)


def await_removals(store: ObjectStore) -> None:
    """Wait until nobody deletes objects who may not have seen a backup that was written just now.

    A removal that begins later sees the backup. So what is there after the call stays there. One of a process that was
    killed on this machine is hardly waited for; of one that was killed on another, nobody here knows.

    Raises:
        StoreError: The store cannot be used.
    """
    waited, is_told = threading.Event(), False
    for name in list(store.list_names(_REMOVALS)):
        ended: float | None = None
        while (found := store.find(name)) is not None and utc_now() - found.changed_at < _LONGEST_REMOVAL:
            if ended is None and _has_ended(store, name):
                ended = time.monotonic()
            if ended is not None and time.monotonic() - ended >= _LAST_CALL_SECONDS:
                store.delete([name])
                break
            if ended is None and not is_told:
                is_told = True
                logger.warning(
                    "waiting for whoever deletes objects from %s: up to %d minutes, if it was killed elsewhere",
                    store.address,
                    _LONGEST_REMOVAL.total_seconds() // 60,
                )
            waited.wait(_PAUSE_SECONDS)


def list_all(store: ObjectStore) -> list[str]:
    """List the names of all contents, backups and marks.

    Raises:
        StoreError: The store cannot be used.
    """
    contents = [name_content(sha256) for sha256, _ in store.list_contents()]
    return [*contents, *store.list_names(BACKUPS), *store.list_names(_REMOVALS)]


@contextmanager
def _removing(store: ObjectStore) -> Iterator[None]:
    """Let those who write a backup know that objects are being deleted; marks of killed processes go."""
    for name in list(store.list_names(_REMOVALS)):
        found = store.find(name)
        if found is not None and utc_now() - found.changed_at > _LONGEST_REMOVAL:
            store.delete([name])
    mark = f"{_REMOVALS}/{secrets.token_hex(8)}"
    store.replace(mark, name_process().encode(), None)
    try:
        yield
    finally:
        store.delete([mark])


def _has_ended(store: ObjectStore, mark: str) -> bool:
    """Return whether the process of a mark has ended for certain."""
    read = store.read(mark)
    return read is not None and has_ended(read[0].decode("utf-8", "replace"))
