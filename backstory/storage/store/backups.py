"""Backups in a store: each is one object that names the contents of its files, as the manifest does for workers.

Contents that any publication or backup of the store names already are not uploaded again.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from backstory.base.errors import StoreError
from backstory.storage.store.objects import CALLS_AT_ONCE, ObjectStore

BACKUPS: Final = "backups"
"""Folder of the backups in a store."""

_FORMAT: Final = 1
_SUFFIX: Final = ".json.gz"
_NAME: Final = re.compile(rf"{BACKUPS}/(.+)-\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{{6}}Z{re.escape(_SUFFIX)}")


@dataclass(frozen=True)
class StoredFile:
    """A file of a backup.

    Attributes:
        sha256: Hash of its content, which names its object.
        size: Bytes.
        mode: Its permissions.
        changed_at: Time of the last change in seconds since 1970.
    """

    sha256: str
    size: int
    mode: int
    changed_at: int


@dataclass(frozen=True)
class RowPart:
    """Some rows of a database.

    Attributes:
        rows: Hash of a database of SQLite that holds them.
        names: Hash of the hashes of the rows, by which a later backup finds which of them it has.
        count: Number of rows.
        size: Bytes of the rows.
    """

    rows: str
    names: str
    count: int
    size: int


@dataclass(frozen=True)
class StoredDatabase:
    """A database of SQLite in a backup.

    Attributes:
        schema: The statements that make it.
        parts: Its rows.
    """

    schema: str
    parts: tuple[RowPart, ...]


@dataclass(frozen=True)
class StoredBackup:
    """What one backup holds.

    Attributes:
        version: Version of Backstory that wrote it.
        workspace: Name of the workspace's folder, and digits of its id.
        made_at: Time of the backup by the clock of that machine, UTC.
        left_out: What is missing and why, one sentence each.
        files: The files by their path in the workspace.
        databases: The databases by their path.
        folders: Permissions of the folders of inputs, by path.
        links: Target of each link, by path.
    """

    version: str
    workspace: str
    made_at: str
    left_out: tuple[str, ...]
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    databases: Mapping[str, StoredDatabase] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{BACKUPS}/{self.workspace}-{self.made_at}{_SUFFIX}"

    @property
    def objects(self) -> set[str]:
        """The hashes of all objects."""
        parts = [part for database in self.databases.values() for part in database.parts]
        return {
            *(file.sha256 for file in self.files.values()),
            *(part.rows for part in parts),
            *(part.names for part in parts),
        }

    def encode(self) -> bytes:
        """Write it as canonical JSON, compressed."""
        content = {"format": _FORMAT, **asdict(self)}
        return gzip.compress(json.dumps(content, sort_keys=True).encode(), compresslevel=6, mtime=0)


def list_backups(store: ObjectStore, workspace: str | None = None) -> list[str]:
    """List the names of the backups of a store, those of one workspace in the order of their times.

    Args:
        store: The store.
        workspace: What the backups of one workspace say of it; None for all.

    Raises:
        StoreError: The store cannot be used.
    """
    found = sorted(name for name in store.list_names(BACKUPS) if _NAME.fullmatch(name))
    return [name for name in found if workspace in (None, name_workspace(name))]


def name_workspace(name: str) -> str:
    """Return the name of the workspace of a backup, by the name of the backup."""
    matched = _NAME.fullmatch(name)
    return "" if matched is None else matched[1]


def read_backup(store: ObjectStore, name: str) -> StoredBackup:
    """Read a backup.

    Args:
        store: The store.
        name: A name of :func:`list_backups`.

    Raises:
        StoreError: There is none (code ``missing_object``), it is damaged (``damaged_backup``), or the store cannot be
            used.
    """
    found = store.read(name)
    if found is None:
        raise StoreError(f"there is no backup {store.locate(name)}", code="missing_object", object=name)
    return _decode(store, name, found[0])


def find_kept(store: ObjectStore, names: Collection[str] | None = None) -> set[str]:
    """Find the hashes of the objects that backups name. One that is removed meanwhile names none.

    Args:
        store: The store.
        names: The backups; None for all.

    Raises:
        StoreError: One is damaged or of another version (code ``damaged_backup``), or the store cannot be used.
    """

    def find(name: str) -> set[str]:
        found = store.read(name)
        return set() if found is None else _decode(store, name, found[0]).objects

    wanted = list_backups(store) if names is None else names
    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        return set().union(*threads.map(find, wanted))


def _decode(store: ObjectStore, name: str, written: bytes) -> StoredBackup:
    try:
        content = json.loads(gzip.decompress(written))
        if content.pop("format") != _FORMAT:
            raise ValueError(f"Backstory {content['version']} wrote it")
        read = StoredBackup(
            **{
                **content,
                "left_out": tuple(content["left_out"]),
                "files": {path: StoredFile(**file) for path, file in content["files"].items()},
                "databases": {path: _read_database(told) for path, told in content["databases"].items()},
            }
        )
        for path in (*read.files, *read.databases, *read.folders, *read.links):
            _require_inside(path)
        for path, target in read.links.items():
            _require_inside(str(PurePosixPath(path).parent / target))
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"the backup {store.locate(name)} is damaged or of another version ({error}); use another one, and "
            "delete it if it is damaged, or upgrade Backstory if a later version wrote it",
            code="damaged_backup",
            object=name,
        ) from error
    return read


def _read_database(told: Mapping[str, Any]) -> StoredDatabase:
    return StoredDatabase(str(told["schema"]), tuple(RowPart(**part) for part in told["parts"]))


def _require_inside(path: str) -> None:
    """Raise if a path leads out of the folder that is restored."""
    parts, depth = PurePosixPath(path).parts, 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 1:
            raise ValueError(f"{path!r} lies outside of the folder")
    if not parts or path.startswith("/") or "\0" in path:
        raise ValueError(f"{path!r} lies outside of the folder")
