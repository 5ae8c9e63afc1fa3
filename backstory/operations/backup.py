"""Backups of a workspace: one tar file, consistent even while a run writes tables, and its verified restore."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from pydantic import BaseModel, ValidationError

from backstory.base import VERSION
from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import ContractError, InputError, SearchIndexError
from backstory.base.files.atomic import exclusive_temporary, flush, publish, temporary_path
from backstory.index.snapshot import CURRENT_FILE, open_current, require_files
from backstory.ingest.sources.listing import list_sources
from backstory.pipeline.history.history import RunHistory
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import Settings
from backstory.settings.paths import STATE_FOLDER
from backstory.settings.storage import clean_store_address
from backstory.storage.schema import CATALOG, STATE, WORKSPACE_PARTS
from backstory.storage.state import copy_state
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder, Store, open_store
from backstory.storage.tables.catalog import Catalog
from backstory.storage.tables.tables import WHOLE, Tables
from backstory.storage.tables.views import write_views

FORMAT: Final = 1
CONTENTS_FILE: Final = ".backstory-backup.json"
"""Name of the list of contents, the last member of a backup. It is not part of a workspace."""
HEADER: Final = "comment"
"""The field of the header of a tar file that holds a :class:`Header`."""

_FOLDER: Final = "backups"
_ENDING: Final = ".tar.gz"
_TIME: Final = "%Y-%m-%dT%H-%M-%SZ"
_OF_BACKSTORY: Final = ("data", "index", "reports", ".backstory", ".dagster")
"""Folders of a workspace with what Backstory wrote, which is added on its own."""
_DAMAGED: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValidationError)


class Header(BaseModel, frozen=True):
    """What a backup is of. It stands before all else, so that what hinders a restore is known before the work."""

    format: int
    version: str
    workspace: str


class Contents(BaseModel, frozen=True):
    """What a backup holds: the SHA-256 of each file by its path, and what is missing and why, one sentence each."""

    files: dict[str, str]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Backup:
    """A written backup: its file or address, what it holds, and how many earlier ones were removed from the store."""

    place: str
    size: int
    files: int
    holds_secret: bool
    holds_inputs: bool
    left_out: tuple[str, ...]
    removed: int = 0


@dataclass(frozen=True)
class Restored:
    """A restored workspace, where its former content is, if there was any, and what the backup does not hold."""

    root: Path
    files: int
    aside: Path | None
    left_out: tuple[str, ...]


def write_backup(workspace: Workspace, place: Path, *, inputs: bool = True, keys: bool = True) -> Backup:
    """Write a backup that only its owner can read, into a file or folder. Runs may continue meanwhile.

    The tables are those of one moment. A damaged file of a table is left out with its entry in the catalog; the first
    run after a restore rebuilds it. Damaged documents are an error (``ContractError``): they hold tombstones and
    revisions that nothing else holds.
    """
    path = _choose_path(workspace, place)
    header = Header(format=FORMAT, version=VERSION, workspace=workspace.root.name).model_dump_json()
    with exclusive_temporary(path) as temporary:
        os.fchmod(temporary.fileno(), 0o600)
        if path.exists():
            what = f"{path} exists; a backup never replaces a file, so name another one, or a folder"
            raise InputError(what, code="already_there")
        # Tables and vectors are hardly compressible.
        with tarfile.open(
            fileobj=temporary, mode="w:gz", compresslevel=1, pax_headers={HEADER: header}
        ) as tar:
            members = _Members(tar, workspace.root)
            members.add_file(workspace.root / SETTINGS_FILE)
            _add_state(members, workspace, keys=keys, scratch=path.parent)
            _add_index(members, workspace)
            if inputs:
                _add_inputs(members, workspace)
            else:
                members.left_out.append("chats and posts; put them back before the first run")
            contents = Contents(files=members.files, left_out=tuple(members.left_out))
            members.add_bytes(CONTENTS_FILE, contents.model_dump_json(indent=1).encode("utf-8", "replace"))
        temporary.flush()
        publish(temporary_path(path), path)
    size, holds_secret = path.stat().st_size, members.name_of(workspace.secret) in contents.files
    return Backup(str(path), size, len(contents.files), holds_secret, inputs, contents.left_out)


def write_to_store(workspace: Workspace, address: str, *, inputs: bool, keep: int | None) -> Backup:
    """Write a backup without keys into a store; of this workspace, only the latest ``keep`` stay there, if given."""
    store = open_store(clean_store_address(address))
    name = f"{_FOLDER}/{workspace.root.name}/{datetime.now(UTC).strftime(_TIME)}{_ENDING}"
    with TemporaryDirectory(prefix="backstory-") as folder:
        path = Path(folder) / f"backup{_ENDING}"
        done = write_backup(workspace, path, inputs=inputs, keys=False)
        store.write(name, path)
    earlier = _list_backups(store, workspace.root.name)[:-keep] if keep else []
    store.delete(earlier)
    return replace(done, place=store.locate(name), removed=len(earlier))


def _list_backups(store: Store, workspace: str = "") -> list[str]:
    """List the backups of a store, each in a folder named for its workspace, the oldest of each first."""
    names = store.list_names(f"{_FOLDER}/{workspace}".rstrip("/"))
    return sorted(name for name in names if name.endswith(_ENDING))


def _choose_path(workspace: Workspace, place: Path) -> Path:
    path = place.expanduser().absolute()
    if path.is_dir():
        path /= f"{workspace.root.name}-{datetime.now(UTC).strftime(_TIME)}{_ENDING}"
    if not path.name.endswith(_ENDING) or not path.parent.is_dir():
        what = f"{path} is no file ending in {_ENDING} in a folder that exists; name such a file, or a folder"
        raise InputError(what, code="unfit_place")
    if path.resolve().is_relative_to(workspace.root.resolve()):
        what = f"{path} lies in the workspace, and would be lost with it; name another place"
        raise InputError(what, code="inside_workspace")
    return path


class _HashingReader:
    """Reads a file and hashes the same bytes, so one reading serves the archive and the checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self.hash.update(chunk)
        return chunk


class _Members:
    """Adds files of a workspace to a tar file, and notes the checksum of each, and what was left out and why."""

    def __init__(self, tar: tarfile.TarFile, root: Path) -> None:
        self.files: dict[str, str] = {}
        self.left_out: list[str] = []
        self._tar = tar
        self._root = root

    def add_inputs(self, place: Path) -> None:
        """Add a file, or a folder and what is in it, in order; a link only if it leads to a place in its folder."""
        for path in (place, *sorted(place.rglob("*"))):
            name, folder, target = self.name_of(path), path.parent.resolve(), path.resolve()
            if name.partition("/")[0] in _OF_BACKSTORY:
                continue
            if path.is_symlink() and target.is_relative_to(folder):
                described = _describe(name, path.lstat(), tarfile.SYMTYPE)
                described.linkname = os.path.relpath(target, folder)
                self._tar.addfile(described)
            elif path.is_symlink():
                self.left_out.append(f"{name} is a link out of its folder; links are not followed")
            elif path.is_dir():
                self._tar.addfile(_describe(name, path.stat(), tarfile.DIRTYPE))
            elif path.is_file():
                self.add_file(path)
            else:
                self.left_out.append(f"{name} is neither a file nor a folder")

    def add_file(self, path: Path, place: Path | None = None) -> None:
        """Add a file unless it was added; a copy goes to the place of what it is a copy of."""
        name = self.name_of(place or path)
        if name not in self.files:
            with path.open("rb") as file:
                self._add(_describe(name, os.fstat(file.fileno())), file)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Add a member that is not a file of the workspace, or that was made for the backup."""
        described = tarfile.TarInfo(name)
        described.size, described.mode = len(content), 0o600
        self._add(described, io.BytesIO(content))

    def name_of(self, path: Path) -> str:
        """Return the path of a file in the workspace."""
        return path.relative_to(self._root).as_posix()

    def _add(self, described: tarfile.TarInfo, file: IO[bytes]) -> None:
        reader = _HashingReader(file)
        try:
            self._tar.addfile(described, reader)
        except OSError as error:
            if error.errno is not None:
                raise
            what = f"{described.name} became shorter while it was read; start the backup again"
            raise InputError(what, code="changed_file") from error
        self.files[described.name] = reader.hash.hexdigest()


def _describe(name: str, status: os.stat_result, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """Describe a member without its owner, since a restore belongs to whoever makes it."""
    described = tarfile.TarInfo(name)
    described.type, described.mode = kind, status.st_mode & 0o777
    described.size = status.st_size if kind == tarfile.REGTYPE else 0
    described.mtime = int(status.st_mtime)  # it dates a chat without years
    return described


def _add_state(members: _Members, workspace: Workspace, *, keys: bool, scratch: Path) -> None:
    """Add the folder ``.backstory``, the tables, and all state, that of a server as the files of one machine.

    The catalog is copied first, and files never change, so that the tables are those of one moment.
    """
    for path in sorted((workspace.root / ".backstory").rglob("[!.]*")):
        is_kept = not path.is_relative_to(workspace.mirrors) and ".sqlite" not in path.name
        if not keys and path == workspace.secret:
            members.left_out.append(f"{path.name}, which no store is to hold; keep it yourself")
        elif path.is_file() and not path.is_symlink() and is_kept:
            members.add_file(path)
    with TemporaryDirectory(dir=scratch, prefix=".backstory-backup-") as folder:
        for part in (CATALOG, *(part for part in WORKSPACE_PARTS if part is not CATALOG)):
            copy = open_state(Path(folder), None, part)
            copy_state(workspace.open_state(part, workspace.settings.storage.database), copy)
            if not copy.exists():
                continue
            if part is CATALOG:
                _add_tables(members, Tables(workspace.tables.store, Catalog(copy)))
            copy.close()
            members.add_file(Path(copy.place), Path(workspace.open_state(part, None).place))


def _add_tables(members: _Members, tables: Tables) -> None:
    for table, names in tables.list_files().items():
        damaged = tables.find_damage(table)
        if table == "documents" and damaged:
            raise ContractError(damaged[WHOLE], code="damaged_table")
        for key, name in names.items():
            if key in damaged:
                continue
            content = tables.store.read(name)
            if content is None:
                what = f"{name} was replaced while it was read; start the backup again"
                raise InputError(what, code="changed_file")
            members.add_bytes(f"data/{name}", content)
        if damaged:
            tables.catalog.forget(table, damaged)
            members.left_out.append(f"{len(damaged)} partitions of {table}: {next(iter(damaged.values()))}")


def _add_index(members: _Members, workspace: Workspace) -> None:
    """Add the current snapshot; one that is damaged is left out, since the next run builds it again."""
    try:
        with closing(open_current(workspace.index)) as snapshot:  # as long as it is open, no run deletes it
            require_files(snapshot.folder, snapshot.manifest, checksums=True)
            for path in filter(Path.is_file, sorted(snapshot.folder.rglob("*"))):
                members.add_file(path)
            members.add_bytes(f"index/{CURRENT_FILE}", f"{snapshot.folder.name}\n".encode())
    except SearchIndexError as error:
        members.left_out.append(f"the search index, which the next run builds: {error}")


def _add_inputs(members: _Members, workspace: Workspace) -> None:
    """Add the inputs, those of sources, and the posts that were written: some may have been edited."""
    places, root = [workspace.chats_dir, workspace.documents_dir, workspace.posts_dir], workspace.root
    for source in list_sources(workspace):
        if source.settings.is_remote:
            members.left_out.append(f"the copies of the source {source.name}; the next run fetches them")
        else:
            places.append(source.root)
    for place in dict.fromkeys(places):
        is_inside = place.is_relative_to(root) and place.resolve().is_relative_to(root.resolve())
        if place.is_symlink() or not is_inside:
            members.left_out.append(f"{place}, which is not in the workspace; back it up yourself")
        elif place.exists():
            members.add_inputs(place)


def restore_backup(path: Path, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup into a folder, by default one in the current folder that is named as the workspace was.

    Everything is extracted and verified beside the folder first. With ``replace``, a folder that is not empty is moved
    aside. It is never deleted. After an error, it is as before.
    """
    with _open_backup(path) as (tar, header):
        root = (into or Path(Path(header.workspace).name)).expanduser().absolute()
        is_full = _holds_content(root, replace=replace)
        building = root.parent / f".{path.name}.restoring"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(mode=0o700, parents=True)
        try:
            contents = _extract(tar, building)
            aside = None
            if is_full:
                aside = root.with_name(f"{root.name}.before-{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}")
                root.rename(aside)
            building.rename(root)
            flush(root.parent)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    if (root / "data").is_dir():
        tables = Tables(Folder(root / "data"), Catalog(open_state(root / "data", None, CATALOG)))
        RunHistory(open_state(root / STATE_FOLDER, None, STATE), tables, Settings()).publish()
        tables.publish()
        write_views(tables)
    return Restored(root, len(contents.files), aside, contents.left_out)


def restore_from_store(address: str, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup from a store, by its address; or by that of the store, for the last one there."""
    place, _, name = address.rpartition(f"/{_FOLDER}/") if address.endswith(_ENDING) else (address, "", "")
    store = open_store(place.rstrip("/"))
    names = [one for one in _list_backups(store) if not name or one == f"{_FOLDER}/{name}"]
    if not names:
        raise InputError(f"{address} holds no backup; compare the address", code="no_backup")
    latest = max(names, key=lambda one: one.rpartition("/")[2])
    with TemporaryDirectory(prefix="backstory-") as folder:
        path = Path(folder) / latest.rpartition("/")[2]
        store.fetch(latest, path)
        return restore_backup(path, into, replace=replace)


@contextmanager
def _open_backup(path: Path) -> Iterator[tuple[tarfile.TarFile, Header]]:
    """Open a backup to read it; what shows that it is none, or not whole, is one error."""
    if not path.is_file():
        raise InputError(f"there is no file {path}", code="absent_file")
    try:
        with tarfile.open(path) as tar:
            header = Header.model_validate_json(tar.pax_headers.get(HEADER, ""))
            if header.format != FORMAT:
                what = f"{path} is of another format; install Backstory {header.version} to restore it"
                raise InputError(what, code="other_format")
            yield tar, header
    except _DAMAGED as error:
        what = f"{path} is not a whole backup ({error}); nothing was restored"
        raise InputError(what, code="damaged_backup") from error


def _holds_content(root: Path, *, replace: bool) -> bool:
    """Return whether a folder holds something, which a restore may then move aside."""
    if root.exists() and not root.is_dir():
        raise InputError(f"{root} is a file; name a folder with --into", code="file_in_the_way")
    is_full = root.exists() and any(root.iterdir())
    if is_full and not replace:
        what = f"{root} is not empty; name another folder with --into, or move its content aside by --replace"
        raise InputError(what, code="not_empty")
    return is_full


def _extract(tar: tarfile.TarFile, folder: Path) -> Contents:
    """Extract a backup, and nothing outside of the folder, and compare every file with its checksum."""
    tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
    for member in tar:
        place, is_link = folder / member.name, member.issym() or member.islnk()
        beside = place.parent if member.issym() else folder
        reached = (place, beside / member.linkname) if is_link else (place,)
        is_inside = all(one.resolve().is_relative_to(folder.resolve()) for one in reached)
        if not is_inside or not (member.isfile() or member.isdir() or is_link):
            raise tarfile.ReadError(f"{member.name} leads out of it, or is no file")
        tar.extract(member, folder)
    listed = folder / CONTENTS_FILE
    contents = Contents.model_validate_json(listed.read_bytes() if listed.is_file() else b"")
    listed.unlink()
    for name, checksum in contents.files.items():
        if not (folder / name).is_file():
            raise tarfile.ReadError(f"{name} is absent")
        with (folder / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
                raise tarfile.ReadError(f"{name} differs from its checksum")
    return contents
