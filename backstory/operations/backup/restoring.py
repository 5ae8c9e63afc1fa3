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

_ASIDE = "before-restore"


@dataclass(frozen=True)
class Restored:
    """A restored workspace.

    Attributes:
        root: Its folder.
        files: Number of restored files.
        aside: Folder to which the former content was moved; None if there was none.
        left_out: What the backup does not hold, one sentence each.
    """

    root: Path
    files: int
    aside: Path | None
    left_out: tuple[str, ...]


def restore_backup(path: Path, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup into a folder, by default one in the current folder that is named as the workspace was.

    With ``replace``, a folder that is not empty is moved aside. It is never deleted.

    Raises:
        InputError: The file is damaged or no backup, or the folder is not empty. The folder is then as before.
        OSError: The folder cannot be written.
    """
    wanted = None if into is None else into.expanduser().absolute()
    building = (Path.cwd() if wanted is None else wanted.parent) / f".{path.name}.restoring"
    if wanted is not None:
        _require_room(wanted, replace=replace)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700, parents=True)
    try:
        contents = _extract(path, building)
        root = Path.cwd() / Path(contents.workspace).name if wanted is None else wanted
        _require_room(root, replace=replace)
        aside = _move_aside(root)
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
    """Restore a backup from a store, by its address; or by that of the store, for the last one there.

    Raises:
        InputError: There is none (code ``no_backup``), or it is damaged.
        StateError: The store cannot be used.
    """
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


def _require_room(root: Path, *, replace: bool) -> None:
    if root.exists() and not root.is_dir():
        raise InputError(f"{root} is a file; name a folder with --into", code="file_in_the_way")
    if not replace and root.is_dir() and any(root.iterdir()):
        raise InputError(
            f"{root} is not empty; name another folder with --into, or move its content aside with --replace",
            code="not_empty",
        )


def _extract(path: Path, folder: Path) -> Contents:
    """Extract a backup, and nothing outside of the folder, and compare every file with the list of contents."""
    if not hasattr(tarfile, "data_filter"):
        raise InputError(
            "this Python extracts files outside of a folder; restore with Python 3.11.4 or later",
            code="old_python",
        )
    try:
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}", code="absent_file") from error
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path} is not a whole backup ({error}); nothing was restored", code="damaged_backup"
        ) from error
    listed = folder / CONTENTS_FILE
    try:
        contents = Contents.model_validate_json(listed.read_bytes())
    except (FileNotFoundError, ValidationError) as error:
        raise InputError(
            f"{path} is not a whole backup: its list of contents is absent or damaged", code="damaged_backup"
        ) from error
    if contents.format != FORMAT:
        raise InputError(
            f"{path} has format {contents.format}, and this version of Backstory restores format {FORMAT}; install "
            f"Backstory {contents.version}",
            code="other_format",
        )
    listed.unlink()
    _verify(path, folder, contents)
    return contents


def _verify(path: Path, folder: Path, contents: Contents) -> None:
    found = {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink()
    }
    for name in sorted(found ^ contents.files.keys()):
        raise InputError(
            f"{path} is damaged: {name} is {'not listed' if name in found else 'absent'}",
            code="damaged_backup",
        )
    for name, expected in contents.files.items():
        with (folder / name).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != expected:
            raise InputError(
                f"{path} is damaged: {name} differs from its checksum; nothing was restored",
                code="damaged_backup",
            )


def _move_aside(root: Path) -> Path | None:
    """Move a folder with content out of the way; remove an empty one."""
    if not root.is_dir():
        return None
    if not any(root.iterdir()):
        root.rmdir()
        return None
    number = 1
    while (aside := root.with_name(f"{root.name}.{_ASIDE}-{number}")).exists():
        number += 1
    root.rename(aside)
    return aside
