"""Backups in a store, such as a bucket: each holds the whole workspace, and only what has changed is uploaded."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from backstory.base.errors import InputError, StoreError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.ids import digest
from backstory.base.version import VERSION
from backstory.ingest.documents.file_rules import make_rules
from backstory.ingest.privacy.erasure_list import KEY_SUFFIX
from backstory.operations.backup.archive import add_contents, require_outside
from backstory.operations.backup.contents import HashingReader
from backstory.operations.backup.members import Members
from backstory.operations.backup.restoring import Filled, Restored, place
from backstory.operations.backup.row_parts import (
    NAME_BYTES,
    PART_BYTES,
    Part,
    join_rows,
    read_schema,
    split_rows,
)
from backstory.pipeline.workspace import Workspace
from backstory.settings.storage import clean_store_address
from backstory.storage.store.backups import (
    BACKUPS,
    RowPart,
    StoredBackup,
    StoredDatabase,
    StoredFile,
    list_backups,
    name_workspace,
    read_backup,
)
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.garbage import await_removals, remove_backups
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.store.objects import CALLS_AT_ONCE, ObjectStore

logger = logging.getLogger(__name__)

_ID_FILE: Final = ".backstory/workspace.id"
_ID_BYTES: Final = 16
_ID_DIGITS: Final = 12
_ID: Final = re.compile(rf"-[0-9a-f]{{{_ID_DIGITS}}}")
"""What follows the name of the folder in the name of a backup."""
_STATE: Final = ".backstory/"
_TIME: Final = "%Y-%m-%dT%H-%M-%S-%fZ"
_SMALL_BYTES: Final = 2_000_000
"""A content up to this size travels beside others."""
_CHUNK_BYTES: Final = 1 << 20
_LOST: Final = frozenset({"damaged_object", "missing_object"})
"""Codes of errors after which rows are written again."""
_UNREADABLE: Final = frozenset({"damaged_backup", "missing_object"})
"""Codes of errors after which an earlier backup is passed over."""


@dataclass(frozen=True)
class BackupInStore:
    """A backup that was written into a store.

    Attributes:
        address: The address by which it is restored.
        files: Number of files and databases in it.
        uploaded: Number of contents that were not in the store before.
        size: Their bytes.
        removed: Number of earlier backups that were removed.
        left_out: What is missing and why, one sentence each.
    """

    address: str
    files: int
    uploaded: int
    size: int
    removed: int
    left_out: tuple[str, ...]


def write_to_store(
    workspace: Workspace,
    address: str,
    *,
    inputs: bool = True,
    keep: int | None = None,
) -> BackupInStore:
    """Write a backup into a store. Runs may continue meanwhile.

    It holds what :func:`~backstory.operations.backup.archive.write_backup` describes, but no key, and no input that
    looks like a secret by its name: such a file is not shared with workers either. It is of this workspace by a random
    id, so that another one of the same name neither removes nor restores it.

    Args:
        workspace: An open workspace.
        address: ``s3://bucket/prefix`` or ``file:///folder``; may be that of the workspace's own store.
        inputs: Whether to include chats and posts.
        keep: Number of backups of this workspace that stay; the earlier ones are removed, with what only they hold. One
            that cannot be read is none of them; it is logged.

    Returns:
        What was written.

    Raises:
        SettingsError: The address is none that may be used, or holds a key.
        InputError: There is a backup of this moment (code ``already_there``), the address lies in the workspace
            (``inside_workspace``), or an input was cut while it was read.
        StoreError: The store cannot be used, or contents were removed meanwhile (code ``missing_object``).
        BackstoryError: The tables' ledger is damaged, or the documents never agreed with it.
    """
    store = ObjectStore(clean_store_address(address))
    if store.folder is not None:
        require_outside(workspace, store.folder)
    name = f"{workspace.root.name}-{_identify(workspace)}"
    earlier = list_backups(store, name)
    read = cache(partial(_read_intact, store))
    made_at = datetime.now(UTC).strftime(_TIME)
    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads, TemporaryDirectory(prefix="backstory-") as scratch:
        archive = _StoreArchive(store, threads)
        before = next(filter(None, map(read, reversed(earlier))), None)
        members = _StoredMembers(archive, workspace, {} if before is None else before.databases)
        add_contents(members, workspace, inputs=inputs, scratch=Path(scratch))
        archive.finish()
    backup = StoredBackup(
        VERSION,
        name,
        made_at,
        tuple(members.left_out),
        archive.files,
        members.databases,
        archive.folders,
        archive.links,
    )
    content = backup.encode()
    if (
        store.replace(backup.name, content, None) is None
        and (store.read(backup.name) or (b"",))[0] != content
    ):
        raise InputError(
            f"{store.locate(backup.name)} is there already; run the same command again",
            code="already_there",
            path=store.locate(backup.name),
        )
    await_removals(store)
    # Only now does nobody remove what it names.
    if gone := backup.objects.difference(sha256 for sha256, _ in store.list_contents()):
        store.delete([backup.name])
        raise StoreError(
            f"{len(gone)} contents were removed from {store.address} while they were backed up; run the same command "
            "again",
            code="missing_object",
            address=store.address,
        )
    dropped: Sequence[str] = ()
    if keep is not None:
        dropped = _choose_dropped(earlier, keep, read)
        published, etag = fetch_manifest(store)
        if etag is None and store.address == workspace.settings.storage.files:
            # A manifest that is put back names objects of which only it knows.
            logger.warning("no backup was removed from %s, since %s is gone there", store.address, MANIFEST)
            dropped = ()
        else:
            remove_backups(store, dropped, None if etag is None else published)
    return BackupInStore(
        f"{store.address}/{backup.name}",
        len(backup.files) + len(backup.databases),
        archive.uploaded,
        archive.size,
        len(dropped),
        backup.left_out,
    )


def restore_from_store(address: str, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup of a store into a folder; every content is compared with its hash.

    Args:
        address: The address of a backup; or of a store, for the last one of its workspace.
        into: The workspace to make; None for a folder named as the backed-up workspace, in the current folder.
        replace: Whether a folder that is not empty may be moved aside. It is never deleted.

    Raises:
        SettingsError: The address is none that may be used, or holds a key.
        InputError: There is no backup, or there are some of several workspaces; or the folder is not empty.
        StoreError: The backup is damaged, or the store cannot be used. The folder is then as before.
    """
    cleaned = clean_store_address(address)
    before, _, last = cleaned.rpartition(f"/{BACKUPS}/")
    is_named = name_workspace(f"{BACKUPS}/{last}") != ""
    store = ObjectStore(before if is_named else cleaned)
    name = f"{BACKUPS}/{last}" if is_named else _choose_last(store)
    return place(partial(_fill, store, name), Path(name).name, into, replace=replace)


class _StoreArchive:
    """Takes members as a tar file does, and uploads the contents that the store lacks.

    Attributes:
        files: The files by path.
        folders: Permissions of folders by path.
        links: Targets of links by path.
        uploaded: Number of contents that were uploaded.
        size: Their bytes.
    """

    def __init__(self, store: ObjectStore, threads: ThreadPoolExecutor) -> None:
        self.store = store
        self.files: dict[str, StoredFile] = {}
        self.folders: dict[str, int] = {}
        self.links: dict[str, str] = {}
        self.uploaded = self.size = 0
        self._present = {sha256: found.size for sha256, found in store.list_contents()}
        self._threads = threads
        self._sending: list[Future[str]] = []
        self._places = threading.Semaphore(2 * CALLS_AT_ONCE)

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: HashingReader | None = None) -> None:
        """Take a member, and read its content to the end."""
        if tarinfo.issym():
            self.links[tarinfo.name] = tarinfo.linkname
        elif fileobj is None:
            self.folders[tarinfo.name] = tarinfo.mode
        else:
            sha256 = self._keep(fileobj, tarinfo.size, tarinfo.name)
            self.files[tarinfo.name] = StoredFile(sha256, tarinfo.size, tarinfo.mode, int(tarinfo.mtime))

    def put(self, content: bytes) -> str:
        """Upload a content beside others, unless it is there, and return its hash."""
        sha256 = hashlib.sha256(content).hexdigest()
        if self._lacks(sha256, len(content)):
            self._places.acquire()
            sending = self._threads.submit(self.store.upload_bytes, content)
            sending.add_done_callback(lambda _: self._places.release())
            self._sending.append(sending)
        return sha256

    def holds(self, *hashes: str) -> bool:
        """Return whether the store has contents."""
        return self._present.keys() >= set(hashes)

    def finish(self) -> None:
        """Wait for the uploads."""
        for sending in self._sending:
            sending.result()

    def _keep(self, reader: HashingReader, size: int, name: str) -> str:
        if size <= _SMALL_BYTES:
            content = reader.read(size)
            if len(content) < size:
                raise OSError("unexpected end of data")
            return self.put(content)
        left = size
        while left:
            chunk = reader.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise OSError("unexpected end of data")
            left -= len(chunk)
        if self._lacks(reader.sha256, size):
            self.store.upload_open(reader.file, size, reader.sha256, name)
        return reader.sha256

    def _lacks(self, sha256: str, size: int) -> bool:
        if self._present.get(sha256) == size:
            return False
        self._present[sha256] = size
        self.uploaded += 1
        self.size += size
        return True


class _StoredMembers(Members):
    """The members of a backup in a store: databases in parts of rows, and nothing secret."""

    def __init__(
        self, archive: _StoreArchive, workspace: Workspace, before: Mapping[str, StoredDatabase]
    ) -> None:
        super().__init__(archive, workspace.root)
        self.databases: dict[str, StoredDatabase] = {}
        self._store = archive
        self._before = before
        self._rules = make_rules(workspace.settings.documents)

    def add_folder(self, folder: Path) -> None:
        """Add a folder of inputs, but nothing that looks like a secret."""
        if not self._refuses(f"{self.name_of(folder)}/"):
            super().add_folder(folder)

    def add_file(self, path: Path, *, name: str | None = None) -> None:
        """Add a file, but no key: whoever reads a store must not learn who is behind a pseudonym, or a password."""
        if not self._refuses(name or self.name_of(path)):
            super().add_file(path, name=name)

    def add_database(self, path: Path, name: str) -> None:
        """Add the rows of a database that the backup before lacks."""
        self._known.add(name)
        before = self._before.get(name)
        parts, known = list[RowPart](), dict[bytes, int]()
        for part in () if before is None else before.parts:
            names = self._read_names(part)
            if names:
                known |= dict.fromkeys(names, len(parts))
                parts.append(part)
        made: list[RowPart] = []

        def write(part: Part) -> None:
            rows, names = self._store.put(part.content), self._store.put(b"".join(part.names))
            made.append(RowPart(rows, names, len(part.names), part.size))

        whole = split_rows(path, known, write)
        kept = [part for number, part in enumerate(parts) if number in whole]
        self.databases[name] = StoredDatabase(read_schema(path), (*kept, *made))

    def _refuses(self, name: str) -> bool:
        """Return whether a file or folder must not leave this machine; it is then noted once."""
        if name.startswith(_STATE):
            # A copy of a key, such as secret.key.old, is one, too.
            reason = "since keys are never in a store" if KEY_SUFFIX in PurePosixPath(name).name else ""
        elif self._rules.explain_secret(name):
            reason = "since it looks like a secret by its name, and secrets are never in a store"
        else:
            reason = ""
        if reason and name not in self._known:
            self._known.add(name)
            self.leave_out(f"{name}, {reason}; keep a copy elsewhere")
        return bool(reason)

    def _read_names(self, part: RowPart) -> list[bytes]:
        """Read which rows a part has; none if it is to be written again: it is small, gone or damaged."""
        if part.size < PART_BYTES // 2 or not self._store.holds(part.rows, part.names):
            return []
        try:
            names = self._store.store.read_content(part.names)
        except StoreError as error:
            if error.code not in _LOST:
                raise
            return []
        return [names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES)]


def _identify(workspace: Workspace) -> str:
    """Return digits of the random id of a workspace, which its first backup in a store makes.

    Workers that share a workspace are told by the address that they share.
    """
    if workspace.settings.storage.files is not None:
        return digest([workspace.settings.storage.files], length=_ID_DIGITS)
    path = workspace.root / _ID_FILE
    if not path.exists():
        with exclusive_temporary(path) as file:
            if not path.exists():
                file.write(secrets.token_hex(_ID_BYTES).encode())
                file.flush()
                publish(temporary_path(path), path)
    return digest([path.read_text(encoding="ascii", errors="replace")], length=_ID_DIGITS)


def _read_intact(store: ObjectStore, name: str) -> StoredBackup | None:
    """Read a backup; None, and a line in the log, if that cannot be done."""
    try:
        return read_backup(store, name)
    except StoreError as error:
        if error.code not in _UNREADABLE:
            raise
        logger.warning("an earlier backup does not count: %s", error)
        return None


def _choose_dropped(
    earlier: Sequence[str], keep: int, read: Callable[[str], StoredBackup | None]
) -> Sequence[str]:
    """Choose the backups to remove: all before the last ones that can be read, of which the present one is the last."""
    kept = 1
    for number in reversed(range(len(earlier))):
        if kept == keep:
            return earlier[: number + 1]
        kept += read(earlier[number]) is not None
    return ()


def _choose_last(store: ObjectStore) -> str:
    last = {name_workspace(name): name for name in list_backups(store)}
    if not last:
        raise InputError(
            f"{store.address} holds no backup; name the address to which `backstory backup` wrote",
            code="absent_file",
            path=store.address,
        )
    if len(last) > 1:
        raise InputError(
            f"{store.address} holds backups of {len(last)} workspaces; name one of them, such as the last one of each: "
            + ", ".join(f"{store.address}/{name}" for name in last.values()),
            code="several_workspaces",
            path=store.address,
            backups=tuple(last.values()),
        )
    return next(iter(last.values()))


def _fill(store: ObjectStore, name: str, folder: Path) -> Filled:
    """Fill a folder with what a backup holds."""
    backup = read_backup(store, name)
    for path in sorted(backup.folders):
        (folder / path).mkdir(parents=True, exist_ok=True)

    def fetch(path: str) -> None:
        file, target = backup.files[path], folder / path
        store.download(file.sha256, target)
        target.chmod(file.mode)
        os.utime(target, (file.changed_at, file.changed_at))

    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        for _ in threads.map(fetch, backup.files):
            pass
    for path, target in backup.links.items():
        (folder / path).symlink_to(target)
    for path, database in backup.databases.items():
        _join(store, database, folder / path)
    for path, mode in backup.folders.items():
        (folder / path).chmod(mode)
    return Filled(_name_folder(backup.workspace), len(backup.files) + len(backup.databases), backup.left_out)


def _name_folder(named: str) -> str:
    """Return the name of the folder that was backed up, without the id of the workspace."""
    end = -_ID_DIGITS - 1
    return named[:end] if _ID.fullmatch(named[end:]) else named


def _join(store: ObjectStore, database: StoredDatabase, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as scratch:

        def fetch(part: RowPart) -> Path:
            store.download(part.rows, Path(scratch) / part.rows)
            return Path(scratch) / part.rows

        rows = join_rows(database.schema, map(fetch, database.parts), path)
    if rows != sum(part.count for part in database.parts):
        raise StoreError(
            f"the backup of {path.name} in {store.address} is damaged: it has {rows} rows of "
            f"{sum(part.count for part in database.parts)}; restore another one",
            code="damaged_backup",
            object=path.name,
        )
