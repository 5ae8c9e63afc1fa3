"""Restores a backup: extract and verify everything next to the target before replacing anything."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import ValidationError

from backstory.base.errors import InputError
from backstory.base.files.atomic import flush
from backstory.operations.backup.contents import CONTENTS_FILE, FORMAT, Contents
from backstory.pipeline.history.publication import publish_damaged
from backstory.settings.paths import STATE_FOLDER
from backstory.storage.schema import CATALOG, STATE
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder
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


class Filled(NamedTuple):
    """What a folder was filled with.

    Attributes:
        workspace: Name of the folder that was backed up.
        files: Number of files.
        left_out: What the backup does not hold, one sentence each.
    """

    workspace: str
    files: int
    left_out: tuple[str, ...]


def restore_backup(path: Path, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup into a folder.

    Args:
        path: A file that :func:`backstory.operations.backup.archive.write_backup` wrote.
        into: The workspace to make; None for a folder named as the backed-up workspace, in the current folder.
        replace: Whether a folder that is not empty may be moved aside. It is never deleted.

    Returns:
        What was restored.

    Raises:
        InputError: The file is damaged or no backup, or the folder is not empty. The folder is then as before.
        OSError: The folder cannot be written.
    """

    def extract(folder: Path) -> Filled:
        contents = _extract(path, folder)
        return Filled(contents.workspace, len(contents.files), contents.left_out)

    return place(extract, path.name, into, replace=replace)


def place(
    fill: Callable[[Path], Filled], name: str, into: Path | None = None, *, replace: bool = False
) -> Restored:
    """Fill a folder beside that of a workspace, and put it in its place when it is whole.

    Args:
        fill: Fills an empty folder, and raises if anything is damaged.
        name: Name of the backup.
        into: As of :func:`restore_backup`.
        replace: As of :func:`restore_backup`.

    Raises:
        InputError: As of :func:`restore_backup`.
    """
    wanted = None if into is None else into.expanduser().absolute()
    building = (Path.cwd() if wanted is None else wanted.parent) / f".{name}.restoring"
    if wanted is not None:
        _require_room(wanted, replace=replace)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700, parents=True)
    try:
        filled = fill(building)
        root = Path.cwd() / Path(filled.workspace).name if wanted is None else wanted
        _require_room(root, replace=replace)
        aside = _move_aside(root)
        building.rename(root)
        flush(root.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    if (root / "data").is_dir():
        tables = Tables(Folder(root / "data"), Catalog(open_state(root / "data", None, CATALOG)))
        publish_damaged(tables, open_state(root / STATE_FOLDER, None, STATE))
        tables.publish()
        write_views(tables)
    return Restored(root, filled.files, aside, filled.left_out)


def _require_room(root: Path, *, replace: bool) -> None:
    if root.exists() and not root.is_dir():
        raise InputError(f"{root} is a file; name a folder with --into", code="file_in_the_way")
    if not replace and root.is_dir() and any(root.iterdir()):
        raise InputError(
            f"{root} is not empty; name another folder with --into, or move its content aside with --replace",
            code="not_empty",
        )


def _extract_safely(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive, and nothing outside of the folder.

    Raises:
        tarfile.TarError: A member would lie outside, or is none of a file, a folder and a link within.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
        return
    # Python before 3.11.4 has no filters.
    members = tar.getmembers()
    for member in members:
        named = [member.name]
        if member.issym():
            named.append(os.path.normpath(PurePosixPath(member.name).parent / member.linkname))
        outside = any(
            PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in named
        )
        if outside or not (member.isfile() or member.isdir() or member.issym()):
            raise tarfile.TarError(f"{member.name!r} would lie outside of the folder")
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    tar.extractall(folder, members)  # noqa: S202 - every member was looked at


def _extract(path: Path, folder: Path) -> Contents:
    """Extract a backup, and compare every file with the list of contents."""
    try:
        with tarfile.open(path) as tar:
            _extract_safely(tar, folder)
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
        if sha256 != expected.sha256:
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
