"""A copy of a workspace's state in which stages can be tried: it reads the user's files and writes none of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backstory.models.embeddings.embed import EmbeddingCache
from backstory.models.embeddings.protocol import Embedder
from backstory.models.reranker import Reranker
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import Settings
from backstory.settings.paths import Place
from backstory.settings.storage import StorageSettings
from backstory.storage.state import copy_state
from backstory.storage.tables.tables import copy_tables
from backstory.storage.turns import running
from backstory.writing.draft import Writer

_NOT_COPIED = ("*.sqlite*", "mirrors")


class _OriginalPlace(Place):
    """The path of the same name in the original."""

    def __init__(self) -> None:
        super().__init__("")

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, workspace: Any, _: Any) -> Path:
        place: Path = getattr(workspace.original, self._name)
        return place


@dataclass(frozen=True, kw_only=True)
class ScratchWorkspace(Workspace):
    """A workspace whose tables lie in another folder than the files that a user puts into it.

    Paths below the root are those of the copy, so that whatever a stage writes, it writes there.

    Attributes:
        original: The workspace that is left alone.
    """

    original: Workspace

    fetches = False
    chats_dir = _OriginalPlace()
    documents_dir = _OriginalPlace()
    inputs_root = _OriginalPlace()
    added_sources = _OriginalPlace()
    mirrors = _OriginalPlace()
    posts_dir = _OriginalPlace()
    index = _OriginalPlace()
    forgotten = _OriginalPlace()

    @property
    def located_settings(self) -> Settings:
        """The settings with the folders of models as absolute paths, in the original."""
        return self.original.located_settings

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the original."""
        return self.original.embedder

    @cached_property
    def reranker(self) -> Reranker | None:
        """The reranker of the original."""
        return self.original.reranker

    @cached_property
    def writer(self) -> Writer | None:
        """The writer of the original."""
        return self.original.writer

    @cached_property
    def embeddings(self) -> EmbeddingCache:
        """The cache of vectors of the original."""
        return self.original.embeddings


@contextmanager
def open_scratch(workspace: Workspace) -> Iterator[ScratchWorkspace]:
    """Copy the tables and the key of a workspace into a temporary folder that only this user can read.

    Vectors, drafts and snapshots are not copied. If a run is under way, the copy is made when it has ended.

    Yields:
        The copy. Its folder is deleted at the end.
    """
    with TemporaryDirectory(prefix="backstory-") as folder:
        root = Path(folder)
        scratch = ScratchWorkspace(
            root,
            # A copy is of this machine alone.
            workspace.settings.model_copy(update={"storage": StorageSettings()}),
            workspace.accept_removals,
            workspace.keys,
            workspace.models,
            original=workspace,
        )
        is_made = workspace.catalog.state.exists()
        with running(workspace.catalog.state, "a copy for an estimate") if is_made else nullcontext():
            copy_tables(workspace.tables, scratch.tables)
            if workspace.secret.parent.is_dir():
                shutil.copytree(
                    workspace.secret.parent,
                    scratch.secret.parent,
                    ignore=shutil.ignore_patterns(*_NOT_COPIED),
                )
            copy_state(workspace.state, scratch.state)
        yield scratch
