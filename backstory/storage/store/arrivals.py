"""Puts in place what other workers have published: files of a workspace folder, and partitions with their entries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from backstory.base.errors import StoreError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.wording import inflect
from backstory.storage.store.manifest import (
    FILE,
    Item,
    ItemKey,
    Manifest,
    SharedFile,
    merge,
    name_items,
)
from backstory.storage.store.objects import CALLS_AT_ONCE, ObjectStore, hash_content, naming_local_file
from backstory.storage.store.replica import (
    INDEX_POINTER,
    Arrival,
    InStep,
    Replica,
    name_partition,
    name_table,
)
from backstory.storage.tables.ledger import Entry
from backstory.storage.tables.locks import writing_table
from backstory.storage.tables.schemas import TABLES

_STATE_FOLDER: Final = ".backstory/"


def take_changes(
    replica: Replica, store: ObjectStore, known: InStep, base: Manifest, manifest: Manifest
) -> int:
    """Change the folder by what has changed between two manifests.

    What is about to be put in place is recorded before, so that nobody takes it for a change of this worker after a
    call that was stopped.

    Args:
        replica: The folder.
        store: The store.
        known: The record of what the folder was last in step with.
        base: What the folder was last in step with, or has published since.
        manifest: What is published.

    Returns:
        Number of files that were fetched.

    Raises:
        StoreError: Both changed a file that a person wrote (code ``conflicting_files``); another worker changed what
            this user may not read here (``closed_file``); the manifest names a file that no such workspace shares
            (``foreign_file``); an object is damaged or gone; or the store cannot be used.
    """
    before = base.items
    local = replica.scan(manifest)
    _require_readable(replica, base.files, manifest.files)
    if replica.has_lost_tables(base):
        # They are taken from the store, and not removed there, too.
        before = {key: item for key, item in before.items() if not replica.is_made(key)}
    before = known.follow_arrivals(before, local)
    target, conflicts = merge(before, local, manifest.items)
    kept = sorted(key for key in conflicts if not replica.may_replace(key))
    if kept:
        raise StoreError(
            f"{name_items(kept)} {inflect(len(kept), 'was', 'were')} changed both here and by another worker; move the "
            "file of this folder aside, run `backstory run`, which fetches the other one, and join the two by hand",
            code="conflicting_files",
            changed=tuple(path for _, path in kept),
        )
    for table, key in target:
        path = key if table == FILE else name_partition(table, key)
        if (table == FILE or table in TABLES) and not replica.is_shared(path):
            raise StoreError(
                f"the manifest of {store.address} names {path!r}, which no workspace with these settings shares; "
                "compare conversations.folder, documents.folder and writers.folder with the other workers' settings",
                code="foreign_file",
                address=store.address,
                path=path,
            )
    wanted = {
        path: item
        for (table, path), item in target.items()
        if table == FILE and isinstance(item, SharedFile) and local.get((FILE, path)) != item
    }
    removed = {key for key in local if key not in target}
    arrival = Arrival({key: item for key, item in target.items() if local.get(key) != item}, removed)
    if arrival.items or removed:
        replica.write_in_step(replace(known, address=store.address, arriving=(*known.arriving, arrival)))
    version = ""
    if INDEX_POINTER in wanted:
        version = _read_version(store, wanted[INDEX_POINTER], target)
    _fetch(
        replica,
        store,
        {path: file for path, file in wanted.items() if name_table(path) is None and path != INDEX_POINTER},
        local,
    )
    _replace_partitions(replica, store, wanted, target, local, removed)
    if INDEX_POINTER in wanted:
        # Last, so that a reader finds every file of the snapshot that is published.
        replica.publish_snapshot(version)
        replica.record_hash(INDEX_POINTER, wanted[INDEX_POINTER].sha256)
    for table, path in removed:
        # An earlier snapshot may be open: the next run prunes it.
        if table == FILE and name_table(path) is None and not path.startswith("index/"):
            (replica.root / path).unlink(missing_ok=True)
    return len(wanted)


def _require_readable(
    replica: Replica, base: Mapping[str, SharedFile], published: Mapping[str, SharedFile]
) -> None:
    """Raise if others changed what this user may not read here, which could be neither compared nor replaced.

    If it counted as in step, what lies here would pass for a change of this worker as soon as it can be read.
    """
    changed = [path for path in {*base, *published} if base.get(path) != published.get(path)]
    closed = sorted(path for path in changed if replica.is_closed(path))
    if closed:
        raise StoreError(
            f"another worker changed {name_items([(FILE, path) for path in closed])}, which this user may not read "
            "here; permit it, with the folders above, and run `backstory run`",
            code="closed_file",
            changed=tuple(closed),
        )


def _read_version(store: ObjectStore, pointer: SharedFile, target: Collection[ItemKey]) -> str:
    """Read which snapshot is published, and raise if no file of it is shared."""
    version = store.read_content(pointer.sha256).decode("ascii", "replace").strip()
    if not any(table == FILE and path.startswith(f"index/{version}/") for table, path in target):
        raise StoreError(
            f"{INDEX_POINTER} of {store.address} names the snapshot {version!r}, of which the manifest names no file; "
            "run `backstory run` on the worker that published it",
            code="foreign_file",
            address=store.address,
            path=INDEX_POINTER,
        )
    return version


def _replace_partitions(
    replica: Replica,
    store: ObjectStore,
    wanted: Mapping[str, SharedFile],
    target: Mapping[ItemKey, Item],
    local: Mapping[ItemKey, Item],
    removed: Collection[ItemKey],
) -> None:
    """Replace files of tables with their ledger entries, as a stage does: the entry goes before the file comes."""
    changed: dict[str, dict[str, Entry | None]] = {}
    for table, key in removed:
        if table != FILE:
            changed.setdefault(table, {})[key] = None
    for (table, key), item in target.items():
        if isinstance(item, Entry) and (
            local.get((table, key)) != item or (table in TABLES and name_partition(table, key) in wanted)
        ):
            changed.setdefault(table, {})[key] = item
    ledger = replica.ledger
    for table, entries in sorted(changed.items()):
        if table not in TABLES:
            _record(replica, table, entries)
            continue
        with writing_table(replica.root / "data", table):
            ledger.forget(table, entries)
            paths = {key: name_partition(table, key) for key in entries}
            _fetch(replica, store, {path: wanted[path] for path in paths.values() if path in wanted}, local)
            for key, entry in entries.items():
                if entry is None or not entry.rows:
                    (replica.root / paths[key]).unlink(missing_ok=True)
            _record(replica, table, entries)


def _record(replica: Replica, table: str, entries: Mapping[str, Entry | None]) -> None:
    replica.ledger.forget(table, [key for key, entry in entries.items() if entry is None])
    replica.ledger.record(table, {key: entry for key, entry in entries.items() if entry is not None})


def _fetch(
    replica: Replica, store: ObjectStore, wanted: Mapping[str, SharedFile], local: Mapping[ItemKey, Item]
) -> None:
    """Put files in place: copied from an equal one of this folder, or downloaded."""
    present = {
        item.sha256: path
        for (table, path), item in local.items()
        if table == FILE and isinstance(item, SharedFile)
    }

    def place_file(path: str, file: SharedFile) -> None:
        target = replica.root / path
        if replica.describe(path, Manifest()) == file:
            return  # of an earlier call that was stopped
        known = present.get(file.sha256)
        if known is None or not _copy(replica.root / known, target, file.sha256):
            store.download(file.sha256, target)
        if path.startswith(_STATE_FOLDER):
            target.chmod(0o600)
        if file.changed_at is not None:
            os.utime(target, ns=(file.changed_at, file.changed_at))
        replica.record_hash(path, file.sha256)

    def place(path: str) -> None:
        with naming_local_file(replica.root / path):
            place_file(path, wanted[path])

    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        for _ in threads.map(place, wanted):
            pass


def _copy(known: Path, path: Path, sha256: str) -> bool:
    """Copy a file of the folder, such as a part of the snapshot before; return whether it was still equal."""
    try:
        with known.open("rb") as source, exclusive_temporary(path) as file:
            shutil.copyfileobj(source, file)
            file.flush()
            if hash_content(temporary_path(path)) != sha256:
                return False
            publish(temporary_path(path), path)
    except (FileNotFoundError, PermissionError):  # a folder that may not be written ends the download, too
        return False
    return True
