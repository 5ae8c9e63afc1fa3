"""Sources that people add and remove by command, recorded in the workspace in addition to those of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError
from backstory.ingest.sources.record import Recorded, change_record, read_record
from backstory.ingest.sources.roots import find_covering, list_sources, require_apart
from backstory.settings.inputs import SourceSettings, make_source_name
from backstory.settings.paths import WorkspacePaths


def list_added(workspace: WorkspacePaths) -> list[SourceSettings]:
    """List the sources that were added by command, in the order in which they were added.

    It raises ``WorkspaceError`` if the recorded list is damaged.
    """
    return list(read_record(workspace.added_sources))


def add_source(workspace: WorkspacePaths, path: Path, *, exclude: Sequence[str] = ()) -> SourceSettings:
    """Record a file or folder as a source. The next run reads it; nothing is read or copied now.

    ``exclude``: files and folders to leave out, as in ``.gitignore``. It returns the recorded source. A path that was
    added before in the same way is left as it was. It raises ``InputError`` if the path is absent, is already read as
    part of something else, or is no place for documents. It raises ``SettingsError`` if the sources of the settings
    are invalid. It raises ``WorkspaceError`` if the recorded list is damaged.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; name an existing file or folder", code="absent_file")
    place = path.resolve()
    root = workspace.inputs_root.resolve()
    stored = place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)
    try:
        stored.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path!r}: the path is not UTF-8; rename the file or folder", code="not_utf8"
        ) from error
    require_apart(workspace, place)
    wanted = SourceSettings(path=stored, exclude=tuple(exclude))
    known = next(
        (each for each in list_added(workspace) if each.model_copy(update={"name": ""}) == wanted), None
    )
    if known is not None:
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

    It raises ``InputError`` if no source has this name or path, or it stands in the settings file. It raises
    ``WorkspaceError`` if the recorded list is damaged.
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


def readmit(workspace: WorkspacePaths, name: str, patterns: Sequence[str]) -> None:
    """Take patterns out of what a source leaves out; the next run reads what they named.

    It raises ``WorkspaceError`` if the recorded list is damaged.
    """

    def take_out(recorded: Recorded) -> list[SourceSettings]:
        return [
            each.model_copy(update={"exclude": tuple(one for one in each.exclude if one not in patterns)})
            if each.label == name
            else each
            for each in recorded
        ]

    change_record(workspace.added_sources, take_out)
