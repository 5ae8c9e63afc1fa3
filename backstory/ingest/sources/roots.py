"""The sources of a workspace, by its settings and by command, and where each begins."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

    @property
    def folder(self) -> Path:
        """The folder of its files; of a mirror, that of the copies."""
        if self.settings.is_remote:
            return self.root / COPIES
        return self.root.parent if self.root.is_file() else self.root


def list_sources(workspace: WorkspacePaths) -> tuple[Source, ...]:
    """List all further sources: those of the settings, then those that were added by command.

    It raises ``SettingsError`` if two sources have the same name, or one lies where the workspace keeps something
    else.
    """
    file = workspace.root / SETTINGS_FILE
    sources: dict[str, Source] = {}
    for is_added, group in (
        (False, workspace.settings.documents.sources),
        (True, read_record(workspace.added_sources)),
    ):
        for settings in group:
            name, path = settings.label, settings.path
            if name in sources:
                raise SettingsError(
                    f"{file}: documents.sources has a source {name}, and a source added by command has the same "
                    f"name ({path}). Give the first another `name`, or remove the second",
                    code="duplicate_source",
                )
            root = workspace.mirrors / name if path is None else workspace.root / Path(path).expanduser()
            sources[name] = Source(name, root, settings, is_added)
            if path is not None:
                try:
                    require_apart(workspace, root)
                except InputError as error:
                    raise SettingsError(f"{file}: documents.sources: {error}", code=error.code) from error
    return tuple(sources.values())


def locate_document(workspace: WorkspacePaths, uri: str) -> Path | None:
    """Find the file of a document of a further source; None if the document is of no source, or its file is gone."""
    name, mark, below = uri.partition(SOURCE_MARK)
    places = [source.folder / below for source in list_sources(workspace) if mark and source.name == name]
    return next((path for path in places if path.is_file()), None)


def require_apart(workspace: WorkspacePaths, root: Path) -> None:
    """Raise if a path is no place for documents, because the workspace keeps something else there.

    It raises ``InputError`` if the path is the folder of documents, or lies where chats or what runs write lie.
    """
    place = root.resolve()
    if place == workspace.documents_dir.resolve():
        raise InputError(f"{root} is the folder of documents, which every run reads", code="read_already")
    made = (workspace.posts_dir, workspace.tables_dir, workspace.index, workspace.secret.parent)
    for folder in (workspace.chats_dir, *made, workspace.dagster_home):
        if place.is_relative_to(folder.resolve()):
            raise InputError(
                f"{root} lies in {folder}, which this workspace uses for other files; name another path",
                code="other_use",
            )


def find_covering(workspace: WorkspacePaths, path: Path) -> str | None:
    """Find what already holds a path: the innermost source; the empty text for the folder of documents; or None."""
    place = path.resolve()
    if place.is_relative_to(workspace.documents_dir.resolve()):
        return ""
    roots = {source.root.resolve(): source.name for source in list_sources(workspace)}
    return next((roots[folder] for folder in (place, *place.parents) if folder in roots), None)


def read_record(path: Path) -> tuple[SourceSettings, ...]:
    """Read the list of added sources of a workspace; empty if none was ever added."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["sources"]
        return tuple(SourceSettings.model_validate(entry) for entry in entries)
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(
            f"{path} is damaged, and it lists the added sources. Restore it from a backup, or delete it and add the "
            "sources again; no file is lost",
            code="damaged_record",
        ) from error


@contextmanager
def _changing(path: Path) -> Iterator[list[SourceSettings]]:
    """Give the list of a workspace to be changed, and write it in the end. Other processes wait meanwhile."""
    with exclusive_temporary(path) as file:
        sources = list(read_record(path))
        yield sources
        entries = [source.model_dump(mode="json", exclude_defaults=True) for source in sources]
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
    with _changing(workspace.added_sources) as recorded:
        taken = [source.label for source in (*workspace.settings.documents.sources, *recorded)]
        added = wanted.model_copy(update={"name": make_source_name(stored, taken)})
        recorded.append(added)
    return added


def remove_source(workspace: WorkspacePaths, name: str | Path) -> SourceSettings:
    """Take a source out of the recorded list. The next run drops its documents; no file is deleted.

    It raises ``InputError`` if no source has this name or path, or it stands in the settings file.
    """
    place = Path(name).expanduser().resolve()
    sources = list_sources(workspace)
    named = [source for source in sources if source.name == str(name)]
    placed = named or [source for source in sources if source.root.resolve() == place]
    if not placed:
        known = ", ".join(source.name for source in sources if source.is_added) or "none"
        raise InputError(
            f"no source has the name or path {name}; sources added by command: {known}", code="unknown_source"
        )
    found = placed[0]
    if not found.is_added:
        raise InputError(
            f"the source {found.name} is configured in {workspace.root / SETTINGS_FILE}; remove it from "
            "`documents.sources` there",
            code="source_of_settings",
        )
    with _changing(workspace.added_sources) as recorded:
        recorded[:] = [each for each in recorded if each.label != found.name]
    return found.settings


def change_exclude(
    workspace: WorkspacePaths, name: str, change: Callable[[Sequence[str]], Sequence[str]]
) -> None:
    """Change what an added source leaves out; the next run follows it."""
    with _changing(workspace.added_sources) as recorded:
        recorded[:] = [
            each.model_copy(update={"exclude": tuple(change(each.exclude))}) if each.label == name else each
            for each in recorded
        ]
