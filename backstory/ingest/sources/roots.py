"""The sources of a workspace, by its settings and by command, and where each begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, SettingsError
from backstory.ingest.documents.written import SOURCE_MARK
from backstory.ingest.sources.record import read_record
from backstory.settings.inputs import SourceSettings
from backstory.settings.paths import WorkspacePaths

COPIES: Final = "files"
"""Folder of the copies in a mirror."""


@dataclass(frozen=True)
class Source:
    """A source of documents.

    Attributes:
        name: Its name, which begins the uri of each of its documents.
        root: Absolute path of its file or folder, which may be absent; of a source that lies elsewhere, of its mirror.
        settings: What is read of it.
        is_added: Whether it was added by command, and does not stand in the settings file.
    """

    name: str
    root: Path
    settings: SourceSettings
    is_added: bool


def list_sources(workspace: WorkspacePaths) -> tuple[Source, ...]:
    """List all further sources: those of the settings, then those that were added by command.

    It raises ``SettingsError`` if two sources have the same name, or one lies where the workspace keeps something
    else. It raises ``WorkspaceError`` if the list of added sources is damaged.
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


def locate_source(workspace: WorkspacePaths, path: str) -> Path:
    """Return the absolute path that the settings of a source mean; links are not resolved."""
    return workspace.inputs_root / Path(path).expanduser()


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
        else locate_source(workspace, settings.path)
    )
    return Source(settings.label, root, settings, is_added)
