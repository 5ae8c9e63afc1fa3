"""The documents of a workspace, as the tables have them: their list, texts, pages and chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from backstory.base.errors import BackstoryError, NoIndexError, naming_faults_of_system
from backstory.base.ids import is_written
from backstory.index.snapshot import current_version, find_moment
from backstory.ingest.documents.files import list_foreign
from backstory.interfaces.library.freshness import (
    FileChanges,
    Watcher,
    describe_indexing,
    explain_absence,
    is_made,
)
from backstory.interfaces.library.results import (
    Chunk,
    DocumentEntry,
    DocumentList,
    DocumentText,
    Dump,
    Explanation,
    FileState,
    GrepAnswer,
    LibraryStatus,
    ShouldBe,
    Style,
    Summary,
)
from backstory.interfaces.library.snapshots import Snapshots
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import Result
from backstory.settings.writers import MAX_WORDS
from backstory.storage.turns import is_running

# Reading the tables, and the stages with their contracts, take longer to load than a search takes.
if TYPE_CHECKING:
    from backstory.interfaces.library.corpus import Corpus, CorpusReader

_R = TypeVar("_R", bound=Result)


class DocumentReader:
    """Reads the documents of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Take an open workspace."""
        self._workspace = workspace
        self._snapshots = Snapshots(workspace)
        self._changes = FileChanges(workspace)
        self._watcher: Watcher | None = None
        self._last_failures: tuple[str, ...] = ()

    @property
    def workspace(self) -> Workspace:
        """The workspace."""
        return self._workspace

    def explain(
        self, window: str, document: str | None = None, *, should_be: ShouldBe | None = None
    ) -> Explanation:
        """Explain why documents are, or are not, in the context that a run built for a window.

        Args:
            window: Names the window; see :func:`backstory.operations.inspection.windows.find_window`.
            document: Name of one document, as :meth:`document` takes it; None for all that a part of the window found.
            should_be: Records an answer to the explanation, which `backstory learn` takes for a label: the document
                should be ``here``, or ``absent``. ``unsaid`` takes the answer back. None records nothing.

        Raises:
            InputError: There is no such window, or it has no context yet; or the answer is about no document, or about
                one that can be no label.
        """
        from backstory.interfaces.library.explain import explain_window

        return self._give(explain_window(self._read_corpus(), window, document, should_be))

    def grep(
        self,
        pattern: str,
        regex: bool = False,
        limit: int = 100,
        offset: int = 0,
        *,
        ignore_case: bool = True,
    ) -> GrepAnswer:
        """Find every match of a pattern in the texts of the documents.

        Args:
            pattern: A text, or a regular expression.
            regex: Whether the pattern is a regular expression.
            limit: Maximum number of returned matches; all of them are counted.
            offset: Number of matches to skip, for the next page.
            ignore_case: Whether upper and lower case are the same.
        """
        from backstory.interfaces.library.grep import grep

        corpus = self._read_corpus()
        found = grep(
            corpus,
            pattern,
            is_regex=regex,
            ignore_case=ignore_case,
            limit=limit,
            offset=offset,
            notes=self._tell_old(),
        )
        return self._give(found)

    def documents(self) -> DocumentList:
        """List the searched documents, and the files that were not read, with the reasons."""
        return self._give(self._read_corpus().list_all())

    def files(self) -> list[FileState]:
        """List every file of the documents with its state: searched, waiting for the next indexing, or not read.

        The list is by path. It has an entry for each file also where nothing is indexed yet.
        """
        self._workspace.follower.follow()
        corpus = self._corpus.read().mine
        searched = dict.fromkeys(corpus.documents["uri"], "")
        with suppress(NoIndexError), self._snapshots.reading() as snapshot:
            searched |= snapshot.revisions
        return corpus.list_files(self._changes.compare(searched))

    def status(self) -> LibraryStatus:
        """Return the status of the library, and the files that have changed since they were indexed."""
        workspace, watcher = self._workspace, self._watcher
        version = current_version(workspace.index) or None
        corpus, pending = None, list[str]()
        reason = "; ".join(self._last_failures) or (watcher.error if watcher else None)
        try:
            corpus = self._corpus.read()
            pending = self._changes.list_pending(corpus.revisions)
        except BackstoryError as error:
            reason = str(error)
        mine = None if corpus is None else corpus.mine
        if is_running(workspace.catalog.state) or (watcher is not None and watcher.busy):
            state, reason = "indexing", reason or describe_indexing(workspace) or "indexing is under way"
        elif reason is not None:
            state = "error"
        elif version is None:
            state, reason = "idle", "nothing is indexed yet"
        else:
            state = "ready"
            if pending:
                reason = f"changes pending for the next indexing: {len(pending)}"
            elif corpus and mine and len(corpus.documents) > len(mine.documents) == 0:
                tenant = workspace.settings.rag.tenant
                reason = (
                    f"no document states the tenant {tenant!r} of the setting rag.tenant, so none is searched"
                )
        return LibraryStatus(
            state=state,
            reason=reason,
            root=str(workspace.root),
            folder=str(workspace.documents_dir),
            documents=0 if mine is None else mine.documents.height,
            chunks=0 if mine is None else sum(mine.chunk_counts.values()),
            pending=tuple(name for name in pending if mine is None or name not in mine.hidden),
            unread=0 if mine is None else len(mine.list_unread()),
            index_version=version,
            embedder=workspace.embedder.id,
            last_sync=(watcher.last_sync if watcher else None) or find_moment(workspace.index),
            watching=watcher is not None and watcher.is_alive,
        )

    def document(self, name: str) -> DocumentEntry:
        """Describe one document.

        Args:
            name: Its id, its path, the end of its path from a whole folder or file name on, its slug, its title, or the
                first six or more characters of its id.
        """
        corpus = self._read_corpus()
        return self._give(corpus.describe(corpus.find(name)))

    def text(self, document: str, pages: int | tuple[int, int] | None = None) -> DocumentText:
        """Read the text of a document: a page, the first to the last of several, or the whole text."""
        span = (pages, pages) if isinstance(pages, int) else pages
        return self._give(self._read_corpus().read(document, span))

    def page_picture(self, document: str, page: int) -> bytes:
        """Draw a page of a PDF for a screen, as a PNG file; pages count from 1.

        Raises:
            InputError: The document has no picture of this page, or its file has changed since it was indexed.
            ReadError: The page cannot be drawn.
        """
        return self._read_corpus().draw_page(document, page)

    def chunk(self, name: str) -> Chunk:
        """Read one chunk of a document by its id, as hits and tools give it."""
        return self._give(self._read_corpus().find_chunk(name))

    def chunks(self, places: Iterable[tuple[str, int]]) -> list[Chunk | None]:
        """Read the chunks that hold characters of documents, all of one state of the tables.

        Args:
            places: The name of a document and a character of its text, from 0, for each chunk.

        Returns:
            The chunks in their order; None for a character that no chunk holds.
        """
        corpus = self._read_corpus()
        found = (corpus.find_chunk_at(name, character) for name, character in places)
        return [None if one is None else self._give(one) for one in found]

    def summarize(
        self, document: str, style: Style = "detailed", max_words_per_section: int = MAX_WORDS
    ) -> Summary:
        """Summarize a document, section by section, by the summarizer of the settings.

        Without a model, the summary consists of sentences of the document. A model's answers are cached: you never
        pay twice for the same section.

        Args:
            document: Its name, as :meth:`document` takes it.
            style: ``brief``: a paragraph; ``detailed``: every main point; ``bullets``: a list.
            max_words_per_section: Maximum number of words per section, at least 1.

        Returns:
            The summary. Its status is ``partial`` if a section failed, and it names each of those with the reason.
        """
        from backstory.interfaces.library.summaries import summarize_document

        corpus = self._read_corpus()
        notes = self._tell_old()
        return self._give(summarize_document(corpus, document, style, max_words_per_section, notes))

    @naming_faults_of_system()
    def dump(
        self,
        document: str,
        path: str | Path,
        *,
        pages: int | tuple[int, int] | None = None,
        roots: Sequence[Path] = (),
        replace: bool = False,
    ) -> Dump:
        """Write the text of a document into a file.

        Args:
            document: Its name, as :meth:`document` takes it.
            path: The file.
            pages: A page, or the first and last of several; None for the whole text.
            roots: Folders, in one of which the file must lie after links are resolved; empty for anywhere.
            replace: Whether a file that is there is replaced. The document's own file never is.
        """
        from backstory.interfaces.library.corpus import dump_text
        from backstory.pipeline.chats.copies import record_copy

        text = self.text(document, pages)
        dumped = dump_text(text, Path(path), roots=roots, replace=replace)
        # A written post quotes messages and documents.
        shown = "" if is_written(text.document.uri) else text.document.document_id
        record_copy(self._workspace, Path(path), shown)
        return dumped

    @cached_property
    def _corpus(self) -> CorpusReader:
        from backstory.interfaces.library.corpus import CorpusReader

        return CorpusReader(self._workspace)

    def _give(self, result: _R) -> _R:
        """Return a result as a caller of this library gets it."""
        return result

    def _read_corpus(self) -> Corpus:
        self._workspace.follower.follow()
        if not is_made(self._workspace):
            raise explain_absence(self._workspace)
        return self._corpus.read().mine

    def _tell_old(self) -> list[str]:
        """Describe the files that have changed since the tables were written, which may be ahead of the snapshot."""
        corpus = self._corpus.read()
        hidden = list_foreign(corpus.documents, self._workspace.settings.rag.tenant)
        return self._list_notes(self._changes.describe(corpus.version, corpus.revisions, hidden))

    def _list_notes(self, age: str | None) -> list[str]:
        notes = [describe_indexing(self._workspace), age]
        if error := self._workspace.follower.error:
            notes.append(
                f"This may be out of date, since no later snapshot can be had ({error.code}): {error}"
            )
        return list(filter(None, notes))
