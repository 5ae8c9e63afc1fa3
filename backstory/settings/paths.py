"""The paths of a workspace: the folder that holds settings, chats, documents, tables and the search index."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backstory.base.credentials import Keys
from backstory.settings.models import Settings

INDEX_FOLDER: Final = "index"
"""The folder of the published snapshots in a workspace."""

CONVERSATIONS: Final = Path(".backstory", "conversations.db")
"""The file of conversations in a workspace."""


@dataclass(frozen=True)
class WorkspacePaths:
    """The paths of one workspace, and its settings.

    Attributes:
        root: Absolute path of the folder.
        settings: Its settings.
        accept_removals: Whether a run may drop messages or documents that earlier runs read.
        keys: Its own keys; None for those of the environment.
    """

    root: Path
    settings: Settings
    accept_removals: bool = False
    keys: Keys | None = field(default=None, repr=False, compare=False)

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
    def added_sources(self) -> Path:
        """File of the list of sources that were added by command."""
        return self.root / ".backstory" / "sources.json"

    @property
    def mirrors(self) -> Path:
        """Folder of the copies of sources that lie elsewhere."""
        return self.root / ".backstory" / "mirrors"

    @property
    def fetches(self) -> bool:
        """Whether a run fetches changes of sources that lie elsewhere."""
        return True

    @property
    def posts_dir(self) -> Path:
        """Folder of the written posts."""
        return self.root / self.settings.writers.folder

    @property
    def dumps(self) -> Path:
        """Folder of the texts of documents that tools of agents write out."""
        return self.root / "dumps"

    @property
    def tables(self) -> Path:
        """Folder of the tables."""
        return self.root / "data"

    @property
    def index(self) -> Path:
        """Folder of the published snapshots."""
        return self.root / INDEX_FOLDER

    @property
    def secret(self) -> Path:
        """File of the key of the pseudonyms."""
        return self.root / ".backstory" / "secret.key"

    @property
    def archive(self) -> Path:
        """Folder of the archive: messages that are kept after the exports lost them."""
        return self.root / ".backstory" / "archive"

    @property
    def learned(self) -> Path:
        """File of what was learned about documents."""
        return self.root / ".backstory" / "learned.json"

    @property
    def corrections(self) -> Path:
        """File of what people said that windows should have been given."""
        return self.root / ".backstory" / "corrections.json"

    @property
    def conversations(self) -> Path:
        """File of the conversations that people have with the documents."""
        return self.root / CONVERSATIONS

    @property
    def forgotten(self) -> Path:
        """File of the list of forgotten things."""
        return self.root / ".backstory" / "forgotten.json"

    @property
    def opt_outs(self) -> Path:
        """File of the list of people who opted out by a command in a chat."""
        return self.root / ".backstory" / "opt_outs.json"

    @property
    def dagster_home(self) -> Path:
        """Folder of Dagster's instance."""
        return self.root / ".dagster"
