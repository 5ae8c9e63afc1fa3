"""The folder of a workspace, which holds settings, chats, documents, tables and index: its paths, and its creation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Final, Literal

from backstory.base.environment import SETTINGS_FILE, Keys
from backstory.base.errors import InputError
from backstory.settings.inputs import check_timezone
from backstory.settings.models import Settings

INDEX_FOLDER: Final = "index"
"""The folder of the published snapshots in a workspace."""

STATE_FOLDER: Final = ".backstory"
"""The folder in a workspace of what only its owner may read."""

FOLDERS: Final = ("chats", "posts")
OWNER_ONLY: Final = 0o700
"""Permissions of the folder of a workspace."""
_TEMPLATE: Final = Path(__file__).with_name("backstory.yaml.template")


class Place:
    """A path below the root of a workspace, as an attribute of it."""

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def __get__(self, workspace: WorkspacePaths, _: type[WorkspacePaths]) -> Path:
        """Return the path in a workspace."""
        return workspace.root / self._path


@dataclass(frozen=True)
class WorkspacePaths:
    """The paths of one workspace, and its settings."""

    root: Path
    """Absolute path of the folder."""
    settings: Settings
    accept_removals: bool = False
    """Whether a run may drop messages or documents that earlier runs read."""
    keys: Keys | None = field(default=None, repr=False, compare=False)
    """Its own keys; None for those of the environment."""
    writes: bool = True
    """Whether a reading of its inputs may note what it found, fetch sources, or make the key of the pseudonyms."""

    dumps = Place("dumps")
    """Folder of the texts of documents that tools of agents write out."""
    tables_dir = Place("data")
    """Folder of the tables, with their catalog and views."""
    index = Place(INDEX_FOLDER)
    """Folder of the published snapshots."""
    added_sources = Place(".backstory/sources.json")
    """File of the list of sources that were added by command."""
    mirrors = Place(".backstory/mirrors")
    """Folder of the copies of sources that lie elsewhere."""
    secret = Place(".backstory/secret.key")
    """File of the key of the pseudonyms."""
    archive = Place(".backstory/archive.parquet")
    """File of the archive: messages that are kept after the exports lost them."""
    learned = Place(".backstory/learned.json")
    """File of what was learned about documents."""
    forgotten = Place(".backstory/forgotten.json")
    """File of the list of forgotten things."""
    opt_outs = Place(".backstory/opt_outs.json")
    """File of the list of people who opted out by a command in a chat."""
    dagster_home = Place(".dagster")
    """Folder of Dagster's instance."""

    @property
    def chats_dir(self) -> Path:
        """Folder of the chat exports."""
        return self.root / self.settings.conversations.folder

    @property
    def documents_dir(self) -> Path:
        """Folder of the documents."""
        return self.root / self.settings.documents.folder

    @property
    def posts_dir(self) -> Path:
        """Folder of the written posts."""
        return self.root / self.settings.writers.folder


def init_workspace(
    folder: Path,
    documents: Path | None = None,
    *,
    chats: Sequence[Path] = (),
    timezone: str | None = None,
    writer: Literal["none", "digest"] | None = None,
) -> Path:
    """Create the folders and the settings file of a workspace.

    A created folder is accessible to its owner only. An existing folder keeps its permissions.

    Args:
        folder: The workspace to create. It may exist, but must hold no settings file.
        documents: A folder that exists, whose documents are read where they lie; without ``chats``, the workspace then
            gets no folder of chats. None for a folder of documents in the workspace.
        chats: Chat exports, files or folders, of which the workspace gets copies.
        timezone: Time zone of the clock in exports that state none; None for UTC.
        writer: What writes posts; None for nothing.

    Returns:
        The absolute path.

    Raises:
        InputError: The folder is a workspace already, a file is in the place of a folder, it cannot be written to,
            there is no such time zone, or no such export or folder of documents.
    """
    written = _write_settings(documents, timezone, writer)
    folders = FOLDERS if documents is None or chats else FOLDERS[1:]
    root = folder.expanduser().resolve()
    copies = {path.expanduser().resolve(): root / FOLDERS[0] / path.name for path in chats}
    settings = root / SETTINGS_FILE
    for path in copies:
        if not path.exists():
            raise InputError(f"{path} does not exist; name a chat export", code="absent_file")
    if len(set(copies.values())) < len(copies):
        raise InputError("two of the chat exports have one name; rename one of them", code="same_name")
    try:
        for place in (settings, *copies.values()):
            if place.exists():
                raise InputError(
                    f"{place} is already there; nothing was changed. Remove it, or name another folder",
                    code="already_there",
                )
        # A closed folder protects everything inside it: tables, index, history and reports.
        root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        for name in folders:
            (root / name).mkdir(exist_ok=True)
        for path, copy in copies.items():
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, copy)
        # Written last, because the settings file makes a folder a workspace.
        with settings.open("x", encoding="utf-8") as file:
            file.write(written)
    except OSError as error:
        is_taken = isinstance(error, FileExistsError | NotADirectoryError)
        raise InputError(
            f"{root} cannot be made a workspace: {error.filename or root} cannot be written "
            f"({'a file is in the way' if is_taken else error.strerror}); correct that, or name another folder",
            code="file_in_the_way" if is_taken else "unwritable_folder",
        ) from error
    return root


def _write_settings(documents: Path | None, timezone: str | None, writer: str | None) -> str:
    try:
        zone = check_timezone("UTC" if timezone is None else timezone)
    except ValueError as error:
        raise InputError(str(error), code="unknown_timezone") from error
    place = None if documents is None else documents.expanduser().resolve()
    if place is not None and not place.is_dir():
        raise InputError(f"{place} is no folder; name the folder that holds the documents", code="no_folder")
    quoted = json.dumps(str(place), ensure_ascii=False)
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        timezone=f"{zone:<14}",
        sources="" if place is None else f"  sources:\n    - path: {quoted}\n",
        writer=f"{writer or 'none':<12}",
        off="# " if writer is None else "",
    )
