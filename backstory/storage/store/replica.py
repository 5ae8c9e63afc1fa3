"""The folder of a workspace as a copy of what the store holds: what is in it, and what it was last in step with."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import StoreError
from backstory.base.files.atomic import exclusive_temporary, lock, publish, temporary_path
from backstory.base.ids import digest_json
from backstory.settings.paths import WorkspacePaths
from backstory.storage.rendered_pages import EXPORTS_FOLDER, REPORTS_FOLDER, SITE_FOLDER
from backstory.storage.store.manifest import (
    FILE,
    Item,
    ItemKey,
    Manifest,
    SettingsChange,
    SharedFile,
    decode_manifest,
    make_manifest,
)
from backstory.storage.store.objects import hash_content
from backstory.storage.tables.ledger import LEDGER_FILE, Entry, Ledger
from backstory.storage.tables.schemas import TABLES

logger = logging.getLogger(__name__)

INDEX_POINTER: Final = "index/CURRENT"
"""The file that names the published snapshot."""

_STATE_FOLDER: Final = ".backstory"
_STATE: Final = frozenset(
    f"{_STATE_FOLDER}/{name}"
    for name in ("corrections.json", "forgotten.json", "learned.json", "opt_outs.json", "sources.json")
)
_STATE_FOLDERS: Final = (f"{_STATE_FOLDER}/archive/", f"{_STATE_FOLDER}/mirrors/")
_RECORD: Final = "replica.json"
_LOCK: Final = ".replica.lock"
_IGNORE_FILE: Final = ".backstoryignore"

JOINED: Final = '"joined"'
"""In place of an etag, of a folder whose last publication was joined with those of others: no manifest is its."""

LOCAL_MEMORY: Final = frozenset({"copies", "document_files", "views"})
"""What the ledger remembers of the files of one machine: their places, times and numbers on its disk."""

_OWN_SETTINGS: Final = {"storage", "agents", "alerts", "orchestration", "costs", "runs"}
"""Groups of settings that each worker may have for itself, since no table depends on them."""

# What a run makes again from the rest: of two versions, that of the store is taken.
_MADE: Final = ("data/", "index/", f"{_STATE_FOLDER}/mirrors/")
_HASH_DIGITS: Final = 32
_SETTING_DIGITS: Final = 16


@dataclass(frozen=True)
class Arrival:
    """What a call began to put in place from the store.

    Attributes:
        items: The files and ledger entries that it was to write.
        removed: Those that it was to remove.
    """

    items: Mapping[ItemKey, Item]
    removed: Collection[ItemKey]


@dataclass(frozen=True)
class InStep:
    """What the folder was last in step with.

    Attributes:
        address: Address of the store; empty if it never was.
        etag: Etag of its manifest; None if there was none. :data:`JOINED` if the last publication was joined with
            those of others, which are not in the folder yet.
        manifest: The manifest; then what this worker published.
        settings: Hash of the settings that this worker last published or changed the workspace by; empty if it never
            did. Those of the folder may differ since: a person has changed them.
        collected: When this worker last looked for objects that nothing names, seconds since 1970.
        arriving: What calls have begun to put in place since, which were stopped. What is in the folder may be of any
            of them, and is then no change of this worker.
    """

    address: str = ""
    etag: str | None = None
    manifest: Manifest = field(default_factory=Manifest)
    settings: str = ""
    collected: float = 0.0
    arriving: tuple[Arrival, ...] = ()

    def follow_arrivals(
        self, base: Mapping[ItemKey, Item], local: Mapping[ItemKey, Item]
    ) -> dict[ItemKey, Item]:
        """Return what the store gave last for each key, of which others may have published more since.

        Args:
            base: What it gave before the calls that were stopped.
            local: What is in the folder.
        """
        given = dict(base)
        for arrival in self.arriving:
            given |= {key: item for key, item in arrival.items.items() if local.get(key) == item}
            for key in arrival.removed:
                if key not in local:
                    given.pop(key, None)
        return given


class Replica:
    """The shared files of one workspace folder.

    Args:
        paths: The workspace.
        publish_snapshot: Makes a snapshot of the index, by its version, the published one; its files are in place.
        is_secret: Whether the file of an input, by its path in its folder, is never to leave this machine.
        is_as_written: Whether a written post is as a run wrote it, so that no work of a person is in it.
    """

    def __init__(
        self,
        paths: WorkspacePaths,
        publish_snapshot: Callable[[str], None],
        is_secret: Callable[[str], bool],
        is_as_written: Callable[[Path], bool],
    ) -> None:
        self.root = paths.root
        self.settings = digest_json(paths.settings.model_dump(mode="json", exclude=_OWN_SETTINGS))
        self.change = SettingsChange(
            _hash_settings(
                paths.settings.model_dump(mode="json", exclude=_OWN_SETTINGS, exclude_defaults=True)
            ),
            f"{socket.gethostname()}:{paths.root}",
        )
        self.publish_snapshot = publish_snapshot
        self._tables = paths.tables
        self._is_secret = is_secret
        self._posts = paths.posts_dir
        self._is_as_written = is_as_written
        inputs = (paths.chats_dir, paths.documents_dir, paths.posts_dir)
        self._inputs = tuple(
            dict.fromkeys(
                folder.relative_to(paths.root).as_posix()
                for folder in inputs
                if folder.is_relative_to(paths.root)
            )
        )
        self._hashes: dict[str, tuple[list[int], str]] = {}
        self._in_step: tuple[list[int], InStep] | None = None
        self._closed: set[str] = set()
        self._told: set[str] = set()

    @property
    def ledger(self) -> Ledger:
        """The ledger of the folder."""
        return Ledger(self._tables / LEDGER_FILE)

    @contextmanager
    def held(self, *, wait: bool = True) -> Iterator[bool]:
        """Let one process at a time bring the folder in step; a run holds it until it has published.

        Args:
            wait: Whether to wait for the other; otherwise yield whether it was free.
        """
        folder = self.root / _STATE_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _LOCK).open("ab") as file:
            yield lock(file, wait=wait)

    def read_in_step(self, address: str) -> InStep:
        """Read what the folder was last in step with; nothing if that was another store, or is not known."""
        path = self.root / _STATE_FOLDER / _RECORD
        try:
            stamp = _stamp(path)
            if self._in_step is not None and self._in_step[0] == stamp:
                state = self._in_step[1]
                return state if state.address == address else InStep()
            record = json.loads(path.read_bytes())
            manifest = decode_manifest(bytes.fromhex(record["manifest"]), str(path))
            arriving = tuple(
                Arrival(
                    decode_manifest(bytes.fromhex(each["items"]), str(path)).items,
                    [(str(table), str(key)) for table, key in each["removed"]],
                )
                for each in record.get("arriving", ())
            )
            self._hashes = {
                name: (list(map(int, stamp)), str(sha256))
                for name, (stamp, sha256) in record["hashes"].items()
            }
            written, etag = str(record["address"]), record["etag"]
            settings, collected = str(record["settings"]), float(record["collected"])
            state = InStep(written, etag, manifest, settings, collected, arriving)
            self._in_step = stamp, state
            return state if written == address else InStep()
        except FileNotFoundError:
            return InStep()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StoreError):
            # Everything is compared with the store again.
            return InStep()

    def write_in_step(self, state: InStep) -> None:
        """Record what the folder is in step with, after all of its files are in place."""
        known = {path: self._hashes[path] for path in state.manifest.files if path in self._hashes}
        record = {
            "address": state.address,
            "etag": state.etag,
            "settings": state.settings,
            "collected": state.collected,
            "manifest": state.manifest.encode().hex(),
            "arriving": [
                {
                    "items": make_manifest(each.items, "", SettingsChange()).encode().hex(),
                    "removed": sorted(each.removed),
                }
                for each in state.arriving
            ],
            "hashes": known,
        }
        path = self.root / _STATE_FOLDER / _RECORD
        with exclusive_temporary(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(json.dumps(record, sort_keys=True).encode())
            file.flush()
            publish(temporary_path(path), path)
            self._in_step = _stamp(path), state

    def scan(self, known: Manifest) -> dict[ItemKey, Item]:
        """List what is in the folder: files of which the size or a time has changed are hashed again.

        A partition counts only if its file is the one that the ledger records. One that was damaged or deleted since
        it was in step counts as it was, and so does what this user may not read, which the log names: that is no
        change, and others are to keep theirs.

        Args:
            known: The manifest that the folder was last in step with.
        """
        return self._scan(known, counts_lost=True)

    def scan_anew(self, known: Manifest) -> dict[ItemKey, Item]:
        """Do what :meth:`scan` does by the hash of every file, since a disk may have changed what no time tells.

        Partitions that were damaged or deleted do not count, nor does what this user may not read.
        """
        self._hashes.clear()
        return self._scan(known, counts_lost=False)

    def has_lost_tables(self, known: Manifest) -> bool:
        """Return whether there is no ledger, which says which tables are in place, though there was one.

        Args:
            known: The manifest that the folder was last in step with.
        """
        return bool(known.ledger) and not (self._tables / LEDGER_FILE).is_file()

    def describe(self, path: str, known: Manifest) -> SharedFile | None:
        """Describe a file; None if there is none, or none that this user may read.

        Args:
            path: Its path in the workspace.
            known: Of a file with this content, the time is not looked at again.
        """
        closed = PurePosixPath(path).parent.as_posix()  # its folder, if not even its size is told
        try:
            stamp = _stamp(self.root / path)
            closed = path
            remembered = self._hashes.get(path)
            if remembered is None or remembered[0] != stamp:
                remembered = self._hashes[path] = stamp, hash_content(self.root / path)
        except FileNotFoundError:
            return None
        except PermissionError:
            self._closed.add(closed)
            return None
        sha256, before = remembered[1], known.files.get(path)
        if before is not None and before.sha256 == sha256:
            return before
        size, changed_at, *_ = stamp
        return SharedFile(sha256, size, changed_at if self.is_input(path) else None)

    def is_input(self, path: str) -> bool:
        """Return whether a person put a file there, so that its time may mean something."""
        return not path.startswith((*_MADE, f"{_STATE_FOLDER}/"))

    def is_made(self, key: ItemKey) -> bool:
        """Return whether a run makes a file or entry again from the rest."""
        return key[0] != FILE or key[1].startswith(_MADE)

    def may_replace(self, key: ItemKey) -> bool:
        """Return whether the store's version may take the place of that of the folder: no work of a person is lost."""
        path = self.root / key[1]
        return (
            self.is_made(key)
            or not os.path.lexists(path)
            or (path.is_relative_to(self._posts) and self._is_as_written(path))
        )

    def is_shared(self, path: str) -> bool:
        """Return whether a file may be in a store; a manifest that names any other is not trusted."""
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
            return False
        if parts[0] == "data":
            return len(parts) == 3 and parts[1] in TABLES and path.endswith(".parquet")
        if parts[0] == "index":
            return len(parts) > 1
        if parts[0] == _STATE_FOLDER:
            return path in _STATE or path.startswith(_STATE_FOLDERS)
        inside = next((folder for folder in self._inputs if _is_below(path, folder)), None)
        return inside is not None and _is_named_openly(parts) and path != SETTINGS_FILE

    def record_hash(self, path: str, sha256: str) -> None:
        """Remember the hash of a file that was just put in place."""
        self._hashes[path] = _stamp(self.root / path), sha256

    def _scan(self, known: Manifest, *, counts_lost: bool) -> dict[ItemKey, Item]:
        entries = self.ledger.read_all() if (self._tables / LEDGER_FILE).is_file() else {}
        found: dict[ItemKey, Item] = {}
        self._closed.clear()
        for table, recorded in entries.items():
            if table in LOCAL_MEMORY:
                continue
            for key, entry in recorded.items():
                if table in TABLES and entry.rows:
                    path = name_partition(table, key)
                    file = self._describe_partition(path, entry, known)
                    if file is None and counts_lost and known.ledger.get(table, {}).get(key) == entry:
                        file = known.files.get(path)
                    if file is None:
                        continue
                    found[FILE, path] = file
                found[table, key] = entry
        for path in self._list_other_files():
            file = self.describe(path, known)
            if file is not None:
                found[FILE, path] = file
        if self._closed:
            self._tell(self._closed, "cannot be read by this user, so others keep what they have of it")
            if counts_lost:
                found |= {(FILE, path): file for path, file in known.files.items() if self.is_closed(path)}
        return found

    def is_closed(self, path: str) -> bool:
        """Return whether this user may not read a file, or not look for it: the last scan has met it, or its folder."""
        return name_table(path) is None and (
            path in self._closed or any(_is_below(path, name) for name in self._closed)
        )

    def _tell(self, names: Collection[str], what: str) -> None:
        """Log once what keeps inputs from being shared."""
        for name in sorted(set(names) - self._told):
            logger.warning("%r %s", name, what)
        self._told.update(names)

    def _describe_partition(self, path: str, entry: Entry, known: Manifest) -> SharedFile | None:
        file = self.describe(path, known)
        return file if file is not None and file.sha256[:_HASH_DIGITS] == entry.content else None

    def _list_other_files(self) -> Iterator[str]:
        """List the shared files that are not partitions."""
        version = self._read_version()
        if version and (self.root / "index" / version).is_dir():
            yield INDEX_POINTER
            yield from self._walk(f"index/{version}")
        yield from _STATE
        for folder in _STATE_FOLDERS:
            yield from self._walk(folder.rstrip("/"))
        made = {"data", "index", "dumps", EXPORTS_FOLDER, REPORTS_FOLDER, SITE_FOLDER, SETTINGS_FILE}
        seen: set[str] = set()
        for folder in self._inputs:
            for path in self._walk(folder, made if folder == "." else frozenset()):
                inside = path if folder == "." else path.removeprefix(f"{folder}/")
                if "\\" in path:
                    self._tell([path], "is not shared, since its name holds a backslash; rename it")
                elif path not in seen and self.is_shared(path) and not self._is_secret(inside):
                    seen.add(path)
                    yield path

    def _read_version(self) -> str:
        try:
            return (self.root / INDEX_POINTER).read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _walk(self, folder: str, without: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
        """List the files in a folder and those below it, without what is hidden, and without links."""
        place = self.root / folder
        try:
            if not place.is_dir() or place.is_symlink():
                return
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except PermissionError:
            self._closed.add(folder)
            return
        for entry in entries:
            path = entry.name if folder == "." else f"{folder}/{entry.name}"
            if entry.name in without:
                continue
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    yield from self._walk(path)
            elif entry.is_file(follow_symlinks=False) and _is_named_openly((entry.name,)):
                yield path


def _hash_settings(groups: Mapping[str, object]) -> dict[str, str]:
    """Hash each setting, since its value may hold what is not for the store."""
    return {
        name: digest_json(value, length=_SETTING_DIGITS)
        for group, settings in groups.items()
        for name, value in (
            {f"{group}.{key}": value for key, value in settings.items()}
            if isinstance(settings, dict)
            else {group: settings}
        ).items()
    }


def _stamp(path: Path) -> list[int]:
    """Return what changes when a file does: its size, its times, and its number on the disk."""
    status = path.stat(follow_symlinks=False)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def name_partition(table: str, key: str) -> str:
    """Name the file of a partition in the workspace."""
    return f"data/{table}/{key}.parquet"


def name_table(path: str) -> tuple[str, str] | None:
    """Return table and key of the file of a partition; None for any other file."""
    parts = PurePosixPath(path).parts
    return (parts[1], parts[2].removesuffix(".parquet")) if parts[0] == "data" else None


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path.startswith(f"{folder}/")


def _is_named_openly(parts: tuple[str, ...]) -> bool:
    return not any(part.startswith(".") for part in parts if part != _IGNORE_FILE)
