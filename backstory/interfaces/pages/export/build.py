"""Exports the posts of a workspace for another program."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.base.wording import name_some
from backstory.interfaces.pages.export.formats import FormatName
from backstory.interfaces.pages.export.ghost import GHOST_FILE, write_ghost_file
from backstory.interfaces.pages.export.mail import MAILBOX, write_mailbox
from backstory.interfaces.pages.export.markdown_files import write_markdown_files
from backstory.interfaces.pages.site.folder import Written, claim_folder
from backstory.interfaces.pages.site.library import Library
from backstory.interfaces.pages.site.reading import read_library
from backstory.pipeline.chats.copies import record_copy
from backstory.pipeline.rendered_pages import (
    EXPORT_MARK,
    EXPORTS_FOLDER,
    SITE_MARK,
    list_site_pages,
    read_export_mark,
)
from backstory.pipeline.workspace import Workspace

_EXPLANATION: Final = (
    "`backstory export` made these files: it replaces and removes them, and touches no others.\n"
)
_TITLE: Final = "Posts"
_NAMED: Final = 5


@dataclass(frozen=True)
class Export:
    """An export that was written.

    Attributes:
        folder: Its folder.
        library: What it was made from.
        written: Which files were written.
    """

    folder: Path
    library: Library
    written: Written


def export_posts(workspace: Workspace, format_name: FormatName, output: Path | None = None) -> Export:
    """Write the posts in a format of another program. Files that hold the same already stay untouched.

    Args:
        workspace: A workspace with windows.
        format_name: The format.
        output: Folder to write; None for a folder named after the format in ``export`` of the workspace.

    Raises:
        InputError: There are no windows yet, a file that Backstory did not export is where one would be written, or
            the folder is that of a site, or lies in the workspace and holds other files.
        SettingsError: ``site.front_matter`` names a field that does not exist.
    """
    folder = (output or workspace.root / EXPORTS_FOLDER / format_name).absolute()
    library = read_library(workspace)
    files = _write(workspace, library, format_name)
    if folder.resolve().is_relative_to(workspace.root.resolve()) or (folder / SITE_MARK).exists():
        claim_folder(folder, EXPORT_MARK, _EXPLANATION, "export")
    before = read_export_mark(folder)
    _require_own(folder, set(files).difference(before))
    # First the list of all files, old and new: what a killed export leaves behind, also half written, is found by it.
    _write_mark(folder, {*before, *files})
    changed = [name for name, content in files.items() if not _holds(folder / name, content)]
    for name in changed:
        write_file(folder / name, files[name])
    stale = [path for path in list_site_pages(folder) if path.relative_to(folder).as_posix() not in files]
    for path in stale:
        path.unlink()
    _write_mark(folder, set(files))
    if output is not None:
        record_copy(workspace, folder)
    return Export(folder, library, Written(len(changed), len(files) - len(changed), len(stale)))


def _require_own(folder: Path, names: Collection[str]) -> None:
    """Raise if a path that was not exported before is taken."""
    taken = sorted(name for name in names if os.path.lexists(folder / name))
    if folder.is_file() or taken:
        raise InputError(
            f"{folder} already holds {name_some(taken, _NAMED)}, which `backstory export` did not write; move what is "
            "there, or name another folder with --output"
            if taken
            else f"{folder} is a file; name a folder with --output",
            code="foreign_file",
        )


def _write(workspace: Workspace, library: Library, format_name: FormatName) -> Mapping[str, bytes]:
    settings = workspace.settings.site
    if format_name == "ghost-json":
        return {GHOST_FILE: write_ghost_file(library)}
    if format_name == "mbox":
        return {MAILBOX: write_mailbox(library, settings.title or _TITLE, settings.base_url)}
    return dict(write_markdown_files(library, format_name, settings))


def _write_mark(folder: Path, names: set[str]) -> None:
    write_file(folder / EXPORT_MARK, (_EXPLANATION + "".join(f"{name}\n" for name in sorted(names))).encode())


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
