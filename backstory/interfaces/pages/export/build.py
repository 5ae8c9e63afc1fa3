"""Exports the posts of a workspace for another program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.interfaces.pages.export.formats import FormatName
from backstory.interfaces.pages.export.ghost import GHOST_FILE, write_ghost_file
from backstory.interfaces.pages.export.mail import MAILBOX, write_mailbox
from backstory.interfaces.pages.export.markdown_files import write_markdown_files
from backstory.interfaces.pages.report.page import write_file
from backstory.interfaces.pages.site.folder import Written, claim_folder
from backstory.interfaces.pages.site.library import Library
from backstory.interfaces.pages.site.reading import read_library
from backstory.pipeline.chats.copies import record_copy
from backstory.pipeline.workspace import Workspace
from backstory.storage.rendered_pages import EXPORT_MARK, EXPORTS_FOLDER, read_export_mark

_EXPLANATION: Final = (
    "`backstory export` made these files: it replaces and removes them, and touches no others.\n"
)
_TITLE: Final = "Posts"


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
        InputError: There are no windows yet, or the folder holds something else.
        SettingsError: ``site.front_matter`` names a field that does not exist.
    """
    folder = (output or workspace.root / EXPORTS_FOLDER / format_name).absolute()
    library = read_library(workspace)
    files = _write(workspace, library, format_name)
    claim_folder(folder, EXPORT_MARK, _EXPLANATION, "export")
    before = read_export_mark(folder)
    # First the list of all files, old and new: a killed export leaves none behind that is not on it.
    _write_mark(folder, {*before, *files})
    changed = [name for name, content in files.items() if not _holds(folder / name, content)]
    for name in changed:
        write_file(folder / name, files[name])
    stale = [folder / name for name in before if name not in files and (folder / name).is_file()]
    for path in stale:
        path.unlink()
    _write_mark(folder, set(files))
    if output is not None:
        record_copy(workspace, folder)
    return Export(folder, library, Written(len(changed), len(files) - len(changed), len(stale)))


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
