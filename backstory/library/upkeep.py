"""The upkeep of a library: files and texts are taken in and out, and its index is kept in step with them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from backstory.library.freshness import name_state
from backstory.library.readings import Readings
from backstory.library.results import IndexReport, LibraryStatus
from backstory.library.watching import POLL_SECONDS, SETTLE_SECONDS, Watcher
from backstory.workspace import Workspace

# The stages and their contracts take longer to load than a search takes.
if TYPE_CHECKING:
    from backstory.library.changing import Change


class Upkeep(Readings):
    """What changes the index, and what says how it stands."""

    def __init__(self, workspace: Workspace) -> None:
        """Take an open workspace; nothing is read or made yet.

        Args:
            workspace: An open workspace, with chats or without.
        """
        super().__init__(workspace)
        self._changing = threading.Lock()
        self._starting = threading.Lock()
        self._watcher: Watcher | None = None
        self._last_failures: tuple[str, ...] = ()

    def close(self) -> None:
        """Stop watching."""
        with self._starting:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()

    def index(
        self, paths: str | Path | Sequence[str | Path] | None = None, recursive: bool = True
    ) -> IndexReport:
        """Read files, and bring the index in step with all files of the library.

        Files and folders outside of the folder of documents become further sources, which are read where they lie.
        Only what has changed is read and embedded again.

        Args:
            paths: A file or folder, or several; None for those that the library has already.
            recursive: Whether folders in a folder are read as well.

        Returns:
            What became of each file. A file that cannot be read fails alone.

        Raises:
            InputError: A path is no place for documents.
        """
        given = [] if paths is None else [paths] if isinstance(paths, str | Path) else list(paths)
        with self._changing:
            return self._keep(self._change().index(given, recursive=recursive))

    def add(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> IndexReport:
        """Add texts as documents: Markdown files in the folder ``added`` of the folder of documents.

        Args:
            texts: The texts.
            ids: One id per text. A text takes the place of an earlier one of its id. None names each by its content.
            metadata: For each text a mapping with any of ``title``, ``slug``, ``date``, ``tags``, ``kind`` and
                ``tenant``, by default that of the setting ``rag.tenant``. Anything else is kept in the file, and is not
                searched.

        Raises:
            InputError: A text, an id or metadata is invalid, or a person's file or a text of another tenant is in the
                place of a text. Nothing is added then.
        """
        with self._changing:
            return self._keep(self._change().add(texts, ids, metadata))

    def remove(self, names: str | Path | Sequence[str | Path]) -> IndexReport:
        """Remove texts, sources or documents from the index. A file of a person is never deleted.

        Args:
            names: The id of an added text, whose file is deleted; the name or path of an added source, which is not
                read any more; or the name of a document, whose file is excluded from reading and stays.

        Returns:
            What became of each of them, and how an exclusion is taken back.

        Raises:
            InputError: Nothing has this name, or several documents have it.
        """
        given = [names] if isinstance(names, str | Path) else list(names)
        from backstory.library.corpus import is_made

        with self._changing:
            corpus = self._read_corpus() if is_made(self._workspace) else None
            return self._keep(self._change().remove([str(name) for name in given], corpus))

    def watch(self, *, poll_seconds: float = POLL_SECONDS, settle_seconds: float = SETTLE_SECONDS) -> Watcher:
        """Keep the index in step with the files from now on, in a thread of this process, until :meth:`close`.

        Args:
            poll_seconds: How often the names, sizes and times of the files are looked at.
            settle_seconds: How long they must stay unchanged, so that a burst of changes is indexed once.

        Returns:
            The watcher, which is the same as before if one runs already.
        """
        with self._starting:
            if self._watcher is None or not self._watcher.is_alive:
                self._watcher = Watcher(
                    lambda: name_state(self._workspace),
                    self.index,
                    poll_seconds=poll_seconds,
                    settle_seconds=settle_seconds,
                )
                self._watcher.start()
            return self._watcher

    def status(self) -> LibraryStatus:
        """Say how the library stands, and which files have changed since they were indexed; every file is hashed."""
        from backstory.library.standing import read_status

        return read_status(self._workspace, self._corpus, self._last_failures, self._watcher)

    def _change(self) -> Change:
        from backstory.library.changing import Change

        return Change(self._workspace, self._corpus, perf_counter())

    def _keep(self, report: IndexReport) -> IndexReport:
        self._last_failures = report.failures
        return report
