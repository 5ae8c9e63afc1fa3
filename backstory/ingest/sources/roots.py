"""The sources of a workspace, by its settings and by command, and where each begins."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, SettingsError, WorkspaceError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.ingest.documents.written import SOURCE_MARK
from backstory.settings.inputs import SourceSettings, make_source_name
from backstory.settings.paths import WorkspacePaths

COPIES: Final = "files"
"""Folder of the copies in a mirror."""


@dataclass(frozen=True)
class Source:
    """A source of documents: its name, which begins their uris, and the absolute path of its file, folder or mirror."""

    name: str
    root: Path
    settings: SourceSettings
    is_added: bool


def list_sources(workspace: WorkspacePaths) -> tuple[Source, ...]:
    """List all further sources: those of the settings, then those that were added by command.

    It raises ``SettingsError`` if two sources have the same name, or one lies where the workspace keeps something
    else.
    """
    stated = [
        _place(workspace, settings, is_added=False) for settings in workspace.settings.documents.sources
    ]
    added = [_place(workspace, settings, is_added=True) for settings in read_record(workspace.added_sources)]
    names = {source.name for source in stated}
    file = workspace.root / SETTINGS_FILE
    twice = next((source for source in added if source.name in names), None)
    if twice is not None:
        raise SettingsError(
            f"{file}: documents.sources has a source {twice.name}, and a source added by command has the same name "
            f"({twice.settings.path}). Give the first another `name`, or remove the second",
            code="duplicate_source",
        )
    for source in (*stated, *added):
        if source.settings.is_remote:
            continue
        try:
            require_apart(workspace, source.root)
        except InputError as error:
            raise SettingsError(f"{file}: documents.sources: {error}", code=error.code) from error
    return (*stated, *added)


def locate_document(workspace: WorkspacePaths, uri: str) -> Path | None:
    """Find the file of a document of a further source.

    It returns its path; None if the document is of no source, or its file is gone.
    """
    name, mark, below = uri.partition(SOURCE_MARK)
    source = next((each for each in list_sources(workspace) if mark and each.name == name), None)
    if source is None:
        return None
    if source.settings.is_remote:
        path = source.root / COPIES / below
    else:
        path = source.root / below if source.root.is_dir() else source.root.with_name(below)
    return path if path.is_file() else None


def require_apart(workspace: WorkspacePaths, root: Path) -> None:
    """Raise if a path is no place for documents, because the workspace keeps something else there.

    It raises ``InputError`` if the path is the folder of documents, or lies where chats or what runs write lie.
    """
    place = root.resolve()
    if place == workspace.documents_dir.resolve():
        raise InputError(f"{root} is the folder of documents, which every run reads", code="read_already")
    made = (
        workspace.posts_dir,
        workspace.tables_dir,
        workspace.index,
        workspace.secret.parent,
        workspace.dagster_home,
    )
    for folder in (workspace.chats_dir, *made):
        if place.is_relative_to(folder.resolve()):
            raise InputError(
                f"{root} lies in {folder}, which this workspace uses for other files; name another path",
                code="other_use",
            )


def find_covering(workspace: WorkspacePaths, path: Path) -> str | None:
    """Find what already holds a path.

    It returns the name of the source whose root is the path or a folder above it; the empty text for the folder of
    documents; None if nothing holds the path.
    """
    place = path.resolve()
    if place.is_relative_to(workspace.documents_dir.resolve()):
        return ""
    around = [source for source in list_sources(workspace) if place.is_relative_to(source.root.resolve())]
    return max(around, key=lambda source: len(source.root.resolve().parts)).name if around else None


def _place(workspace: WorkspacePaths, settings: SourceSettings, *, is_added: bool) -> Source:
    root = (
        workspace.mirrors / settings.label
        if settings.path is None
        else workspace.root / Path(settings.path).expanduser()
    )
    return Source(settings.label, root, settings, is_added)


Recorded = tuple[SourceSettings, ...]


def read_record(path: Path) -> Recorded:
    """Read the list of a workspace; empty if no source was ever added."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["sources"]
        return tuple(SourceSettings.model_validate(entry) for entry in entries)
    except FileNotFoundError:
        return ()
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(
            f"{path} is damaged, and it lists the added sources. Restore it from a backup, or delete it and add the "
            "sources again; no file is lost",
            code="damaged_record",
        ) from error


def change_record(path: Path, change: Callable[[Recorded], Sequence[SourceSettings]]) -> None:
    """Replace the list of a workspace, and flush it to disk. Other processes wait meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(path) as file:
        entries = [
            source.model_dump(mode="json", exclude_defaults=True) for source in change(read_record(path))
        ]
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{json.dumps({'sources': entries}, indent=1)}\n".encode())
        file.flush()
        publish(temporary_path(path), path)


def add_source(workspace: WorkspacePaths, path: Path, *, exclude: Sequence[str] = ()) -> SourceSettings:
    """Record a file or folder as a source. The next run reads it; nothing is read or copied now.

    ``exclude``: files and folders to leave out, as in ``.gitignore``. A path that was added before in the same way is
    left as it was. It raises ``InputError`` if the path is absent, is already read as part of something else, or is no
    place for documents.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; name an existing file or folder", code="absent_file")
    place = path.resolve()
    root = workspace.root.resolve()
    stored = place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)
    try:
        stored.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path!r}: the path is not UTF-8; rename the file or folder", code="not_utf8"
        ) from error
    require_apart(workspace, place)
    wanted = SourceSettings(path=stored, exclude=tuple(exclude))
    for known in read_record(workspace.added_sources):
        if known.model_copy(update={"name": ""}) == wanted:
            return known
    covering = find_covering(workspace, place)
    if covering is not None:
        what = f"of the source {covering}" if covering else "of the folder of documents"
        raise InputError(f"{path} is already part {what}, and needs no entry of its own", code="read_already")
    stated = [source.label for source in workspace.settings.documents.sources]
    found: list[SourceSettings] = []

    def append(recorded: Recorded) -> Recorded:
        taken = [*stated, *(source.label for source in recorded)]
        found.append(wanted.model_copy(update={"name": make_source_name(stored, taken)}))
        return (*recorded, *found)

    change_record(workspace.added_sources, append)
    return found[0]


def remove_source(workspace: WorkspacePaths, name: str | Path) -> SourceSettings:
    """Take a source out of the recorded list. The next run drops its documents; no file is deleted.

    It raises ``InputError`` if no source has this name or path, or it stands in the settings file.
    """
    place = Path(name).expanduser().resolve()
    sources = list_sources(workspace)
    named = [source for source in sources if source.name == str(name)]
    placed = named or [source for source in sources if source.root.resolve() == place]
    if not placed:
        known = ", ".join(source.name for source in sources if source.is_added)
        raise InputError(
            f"no source has the name or path {name}; sources added by command: {known}"
            if known
            else f"no source has the name or path {name}, and none was added by command",
            code="unknown_source",
        )
    found = placed[0]
    if not found.is_added:
        raise InputError(
            f"the source {found.name} is configured in {workspace.root / SETTINGS_FILE}; remove it from "
            "`documents.sources` there",
            code="source_of_settings",
        )
    change_record(
        workspace.added_sources, lambda recorded: [each for each in recorded if each.label != found.name]
    )
    return found.settings


def change_exclude(
    workspace: WorkspacePaths, name: str, change: Callable[[Sequence[str]], Sequence[str]]
) -> None:
    """Change what an added source leaves out; the next run follows it."""

    def change_one(source: SourceSettings) -> SourceSettings:
        exclude = tuple(change(source.exclude))
        return source.model_copy(update={"exclude": exclude}) if source.label == name else source

    change_record(workspace.added_sources, lambda recorded: list(map(change_one, recorded)))
