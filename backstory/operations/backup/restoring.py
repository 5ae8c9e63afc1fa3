"""Restores a backup: extract and verify everything next to the target before replacing anything."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import ValidationError

from backstory.base.errors import InputError
from backstory.base.files.atomic import flush
from backstory.operations.backup.writing import CONTENTS_FILE, ENDING, FOLDER, FORMAT, Contents, list_backups
from backstory.pipeline.history.history import RunHistory
from backstory.settings.models import Settings
from backstory.settings.paths import STATE_FOLDER
from backstory.storage.schema import CATALOG, STATE
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder, open_store
from backstory.storage.tables.catalog import Catalog
from backstory.storage.tables.tables import Tables
from backstory.storage.tables.views import write_views

_DAMAGED: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Restored:
    """A restored workspace, and the folder to which the former content was moved, if there was any."""

    root: Path
    files: int
    aside: Path | None
    left_out: tuple[str, ...]
    """What the backup does not hold, one sentence each."""


def restore_backup(path: Path, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup into a folder, by default one in the current folder that is named as the workspace was.

    With ``replace``, a folder that is not empty is moved aside. It is never deleted. After an error, it is as before.
    """
    wanted = None if into is None else into.expanduser().absolute()
    building = (Path.cwd() if wanted is None else wanted.parent) / f".{path.name}.restoring"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700, parents=True)
    try:
        contents = _extract(path, building)
        root = wanted or Path.cwd() / Path(contents.workspace).name
        aside = _make_room(root, replace=replace)
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
    place, _, name = address.rpartition(f"/{FOLDER}/") if address.endswith(ENDING) else (address, "", "")
    store = open_store(place.rstrip("/"))
    names = [one for one in list_backups(store) if not name or one == f"{FOLDER}/{name}"]
    if not names:
        raise InputError(f"{address} holds no backup; compare the address", code="no_backup")
    latest = max(names, key=lambda one: one.rpartition("/")[2])
    with TemporaryDirectory(prefix="backstory-") as folder:
        path = Path(folder) / latest.rpartition("/")[2]
        store.fetch(latest, path)
        return restore_backup(path, into, replace=replace)


def _make_room(root: Path, *, replace: bool) -> Path | None:
    """Move a folder with content aside if that is wanted, and return where to."""
    if root.exists() and not root.is_dir():
        raise InputError(f"{root} is a file; name a folder with --into", code="file_in_the_way")
    if not root.exists() or not any(root.iterdir()):
        return None
    if not replace:
        what = f"{root} is not empty; name another folder with --into, or move its content aside by --replace"
        raise InputError(what, code="not_empty")
    number = 1
    while (aside := root.with_name(f"{root.name}.before-restore-{number}")).exists():
        number += 1
    root.rename(aside)
    return aside


def _extract(path: Path, folder: Path) -> Contents:
    """Extract a backup, and nothing outside of the folder, and compare every file with its checksum."""
    if not path.is_file():
        raise InputError(f"there is no file {path}", code="absent_file")
    listed = folder / CONTENTS_FILE
    try:
        with tarfile.open(path) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
            for member in tar:
                place, is_link = folder / member.name, member.issym() or member.islnk()
                beside = place.parent if member.issym() else folder
                reached = (place, beside / member.linkname) if is_link else (place,)
                is_inside = all(one.resolve().is_relative_to(folder.resolve()) for one in reached)
                if not is_inside or not (member.isfile() or member.isdir() or is_link):
                    raise tarfile.ReadError(f"{member.name} leads out of it, or is no file")
                tar.extract(member, folder)
        contents = Contents.model_validate_json(listed.read_bytes())
        listed.unlink()
        if contents.format != FORMAT:
            what = f"{path} is of another format; install Backstory {contents.version} to restore it"
            raise InputError(what, code="other_format")
        for name, checksum in contents.files.items():
            if _hash(folder / name) != checksum:
                raise tarfile.ReadError(f"{name} differs from its checksum")
    except (*_DAMAGED, ValidationError, FileNotFoundError) as error:
        what = f"{path} is not a whole backup ({error}); nothing was restored"
        raise InputError(what, code="damaged_backup") from error
    return contents


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
