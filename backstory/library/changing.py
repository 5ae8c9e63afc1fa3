"""What changes a library: files are read, texts are added, and both are removed, always by the pipeline's stages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backstory.documents.sources import name_source
from backstory.errors import InputError
from backstory.library.added_texts import check_texts, inspect_text, locate_text, write_text
from backstory.library.corpus import Corpus, CorpusReader
from backstory.library.indexing import Indexing, Named, is_made, make_corpus, revisions_of
from backstory.library.results import FileOutcome, IndexReport
from backstory.workspace import Workspace


@dataclass(frozen=True)
class Change:
    """One change of a library.

    Attributes:
        workspace: The workspace.
        reader: Reads its tables.
        started: When the change began, by :func:`time.perf_counter`.
    """

    workspace: Workspace
    reader: CorpusReader
    started: float

    def index(self, paths: Sequence[Path], *, recursive: bool) -> IndexReport:
        """Read files and folders; see :meth:`backstory.library.Library.index`."""
        absent = [path for path in paths if not path.expanduser().exists()]
        if absent:
            raise InputError(f"{absent[0]} is not there; name a file or folder that is")
        files = [Path(os.path.realpath(path.expanduser())) for path in paths]
        outside = [path for path in files if not path.is_relative_to(self.workspace.posts.resolve())]
        outcomes = [
            FileOutcome(
                path=str(path),
                status="skipped",
                reason=f"it lies outside of {self.workspace.posts}; copy or move it there",
            )
            for path in outside
        ]
        return self._make(Named(files, outcomes))

    def add(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None,
        metadata: Sequence[Mapping[str, Any]] | None,
    ) -> IndexReport:
        """Add texts; see :meth:`backstory.library.Library.add`."""
        checked = check_texts(texts, ids, metadata)
        folder = self.workspace.posts
        for added in checked:
            if inspect_text(locate_text(folder, added.text_id)) == "edited":
                write_text(folder, added)  # raises, before any text is written
        return self._make(Named([write_text(folder, added).resolve() for added in checked]))

    def remove(self, names: Sequence[str], corpus: Corpus | None) -> IndexReport:
        """Remove texts, sources or documents; see :meth:`backstory.library.Library.remove`."""
        folder = self.workspace.posts
        outcomes = []
        texts = [path for name in names if inspect_text(path := locate_text(folder, name)) == "ours"]
        others = [name for name in names if inspect_text(locate_text(folder, name)) != "ours"]
        found = [corpus.find(name) if corpus else None for name in others]
        for name, row in zip(others, found, strict=True):
            if row is None:
                raise InputError(f"nothing is called {name!r}; nothing is indexed yet")
            raise InputError(
                f"{row['uri']} is a file of yours, which is not deleted; exclude or move it yourself"
            )
        for path in texts:
            path.unlink()
            source = name_source(
                self.workspace.settings.documents.folder, path.relative_to(folder).as_posix()
            )
            outcomes.append(FileOutcome(path=source, status="removed", reason=None))
        return self._make(Named((), outcomes), accept_removals=True)

    def _make(self, named: Named, *, accept_removals: bool = False) -> IndexReport:
        before = revisions_of(self.reader.read() if is_made(self.workspace) else None)
        workspace = replace(self.workspace, accept_removals=True) if accept_removals else self.workspace
        embedded, failures = make_corpus(workspace)
        if not is_made(self.workspace):
            raise InputError("; ".join(failures))
        return Indexing(before, named, embedded, failures, self.started).report(self.reader.read())
