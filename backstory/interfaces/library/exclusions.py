"""Exclude a user's files by appending an ignore pattern; files are never deleted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.ids import is_written
from backstory.ingest.documents.file_rules import IGNORE_FILE
from backstory.ingest.documents.written import SOURCE_MARK
from backstory.ingest.sources.record import change_record
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.workspace import Workspace

_SPECIAL: Final = re.compile(r"([\\*?\[\]])")


def exclude_document(workspace: Workspace, uri: str, path: Path) -> str:
    """Exclude the file of a document from reading. The file stays as it is.

    Args:
        workspace: The workspace.
        uri: Path of the document, as the table ``documents`` has it.
        path: Its file.

    Returns:
        How to revert the exclusion.

    Raises:
        InputError: The file cannot be excluded; see :func:`require_excludable`.
    """
    require_excludable(workspace, uri)
    if SOURCE_MARK in uri:
        return _exclude_from_source(workspace, uri)
    # The parent of a member is an archive, which is read as a folder is, and can hold no such line.
    folder = next(folder for folder in path.parents if folder.is_dir())
    ignored = folder / IGNORE_FILE
    _append_line(ignored, _pattern_of(path.relative_to(folder).as_posix()))
    return f"{ignored} now names it; delete that line to read the file again. The file is unchanged"


def require_excludable(workspace: Workspace, uri: str) -> None:
    """Check that the file of a document can be excluded. Nothing changes.

    Args:
        workspace: The workspace.
        uri: Path of the document, as the table ``documents`` has it.

    Raises:
        InputError: It cannot be excluded, and what to do instead.
    """
    if is_written(uri):
        raise InputError(
            f"{uri} is a post that Backstory wrote; `writers.feedback: off` keeps posts out of the index",
            code="written_post",
        )
    if "\n" in uri or "\r" in uri:
        raise InputError(
            f"{uri!r} contains a line break, and no pattern can match it; rename or move the file"
        )
    if SOURCE_MARK not in uri:
        return
    name, _, below = uri.partition(SOURCE_MARK)
    source = next((each for each in list_sources(workspace) if each.name == name), None)
    if source is None:
        raise InputError(f"{uri} is of a source that no longer exists; index again to drop it")
    if not source.is_added:
        raise InputError(
            f"{uri} is of the source {name} in {workspace.root / SETTINGS_FILE}; write "
            f"`exclude: ['{_pattern_of(below)}']` into its entry there",
            code="source_of_settings",
        )


def _exclude_from_source(workspace: Workspace, uri: str) -> str:
    """Add a pattern to the recorded source of a document: nothing is written into its folder."""
    name, _, below = uri.partition(SOURCE_MARK)
    pattern = _pattern_of(below)
    change_record(
        workspace.added_sources,
        lambda recorded: [
            each.model_copy(update={"exclude": (*each.exclude, pattern)}) if each.label == name else each
            for each in recorded
        ],
    )
    return (
        f"the source {name} now leaves it out; remove the source and add it again to read the file. The file is "
        "unchanged"
    )


def _append_line(path: Path, line: str) -> None:
    """Append a line to a file of patterns, or begin one."""
    with exclusive_temporary(path) as file:
        known = path.read_bytes() if path.exists() else b""
        if known and not known.endswith(b"\n"):
            known += b"\n"
        file.write(known + f"{line}\n".encode())
        file.flush()
        publish(temporary_path(path), path)


def _pattern_of(below: str) -> str:
    return f"/{_escape(below)}"


def _escape(path: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", path)
    return f"{escaped[:-1]}\\ " if escaped.endswith(" ") else escaped
