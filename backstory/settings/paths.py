"""The paths of a workspace: the folder that holds settings, chats, documents, tables and the search index."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backstory.base.environment import Keys
from backstory.settings.models import Settings

INDEX_FOLDER: Final = "index"
"""The folder of the published snapshots in a workspace."""

STATE_FOLDER: Final = ".backstory"
"""The folder in a workspace of what only its owner may read."""


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

    fetches = True
    """Whether a run fetches changes of sources that lie elsewhere."""
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
    archive = Place(".backstory/archive")
    """Folder of the archive: messages that are kept after the exports lost them."""
    learned = Place(".backstory/learned.json")
    """File of what was learned about documents."""
    corrections = Place(".backstory/corrections.json")
    """File of what people said that windows should have been given."""
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
    def inputs_root(self) -> Path:
        """Folder that relative paths of sources begin at."""
        return self.root

    @property
    def posts_dir(self) -> Path:
        """Folder of the written posts."""
        return self.root / self.settings.writers.folder
