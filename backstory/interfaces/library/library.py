"""The library: one interface to the documents of a workspace, for Python, the shell and agents."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from backstory.base.errors import NoIndexError, naming_faults_of_system
from backstory.base.ids import is_written
from backstory.index.request import describe_unknown_settings
from backstory.interfaces.library.filters import SearchFilters
from backstory.interfaces.library.freshness import (
    StaleNote,
    describe_indexing,
    explain_absence,
    is_made,
    name_state,
)
from backstory.interfaces.library.results import (
    Chunk,
    ContextAnswer,
    DocumentEntry,
    DocumentList,
    DocumentText,
    Dump,
    Evaluation,
    Explanation,
    GrepAnswer,
    IndexReport,
    LibraryStatus,
    Mode,
    SearchAnswer,
    ShouldBe,
    Style,
    Summary,
)
from backstory.interfaces.library.search import SearchPlan, main_stemmer, search
from backstory.interfaces.library.snapshots import OpenSnapshot, Snapshots
from backstory.interfaces.library.watching import POLL_SECONDS, SETTLE_SECONDS, Watcher
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.depth import DEPTH, Depth
from backstory.settings.writers import MAX_WORDS
from backstory.text.content_words import mark_words
from backstory.text.prompts.formats import ContextFormat

# Reading the tables, and the stages with their contracts, take longer to load than a search takes.
if TYPE_CHECKING:
    from backstory.ingest.documents.file_hashes import FileHashes
    from backstory.interfaces.library.answer import Answer
    from backstory.interfaces.library.corpus import Corpus, CorpusReader
    from backstory.interfaces.library.indexing import MakeTables
    from backstory.interfaces.library.messages import Message
    from backstory.interfaces.library.mutations import Change
    from backstory.interfaces.library.status import FileState
    from backstory.writing.answers.answer import Turn

_NO_FILTERS = SearchFilters()

LIMIT_SECONDS: Final = 10.0
"""Processor time that a regular expression may take over all documents."""


class Library:
    """The documents of a workspace: search them, read them, and keep the index in sync with the files.

    One object serves any number of threads. All state lies in the workspace: any number of processes may open the
    same library, and one may index while others search.
    """

    def __init__(self, workspace: Workspace, make: MakeTables | None = None) -> None:
        """Wrap an open workspace. Nothing is read or written yet.

        Args:
            workspace: An open workspace, with chats or without.
            make: Builds its tables; None to build them in this process.
        """
        self._workspace = workspace
        self._make = make
        self._snapshots = Snapshots(workspace)
        self._stale = StaleNote(workspace)
        self._old = StaleNote(workspace)
        self._changing = threading.Lock()
        self._starting = threading.Lock()
        self._watcher: Watcher | None = None
        self._last_failures: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: str | Path | None = None) -> Self:
        """Open the library of a workspace.

        Args:
            path: Folder of the workspace; None for ``BACKSTORY_WORKSPACE``, or the current folder.

        Raises:
            WorkspaceError: The folder is not a workspace; `backstory init` makes one.
            SettingsError: The settings are invalid.
        """
        return cls(open_workspace(None if path is None else Path(path)))

    @property
    def workspace(self) -> Workspace:
        """The workspace."""
        return self._workspace

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching, and close the open snapshot; the next question opens it again."""
        with self._starting:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
        self._snapshots.close()

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        filters: SearchFilters | Mapping[str, Any] = _NO_FILTERS,
        mode: Mode | None = None,
        expand: bool = False,
        rerank: bool = False,
        depth: Depth = DEPTH,
    ) -> SearchAnswer:
        """Search the documents for one question. One that is longer than the model's input is searched in parts.

        Args:
            query: The question.
            top_k: Maximum number of hits; by default ``depth`` decides.
            filters: Which documents and pages may be found.
            mode: ``hybrid`` orders by vectors and keywords, ``dense`` by vectors, ``keyword`` by words; None for the
                setting ``rag.ranking``.
            expand: Whether to search for further keys: the content words of the question, and the results of
                templates such as "what is X" -> "X definition". A chunk gets the best score of all keys.
            rerank: Whether the reranker of the settings orders the hits.
            depth: Number of hits without ``top_k``: more in a larger corpus, up to a cap of tokens.

        Raises:
            InputError: The question is blank, a name in the filters fits no document or several, or an argument is out
                of its range.
            NoIndexError: Nothing is indexed yet.
            ModelError: A model could not be used.
        """
        [answer] = self.search_many(
            [query], top_k=top_k, filters=filters, mode=mode, expand=expand, rerank=rerank, depth=depth
        )
        return answer

    def search_many(
        self,
        queries: list[str] | tuple[str, ...],
        *,
        top_k: int | None = None,
        filters: SearchFilters | Mapping[str, Any] = _NO_FILTERS,
        mode: Mode | None = None,
        expand: bool = False,
        rerank: bool = False,
        depth: Depth = DEPTH,
    ) -> list[SearchAnswer]:
        """Search the documents for several questions, all in one snapshot of the index.

        Args:
            queries: The questions.
            top_k: As for :meth:`search`, for each question.
            filters: As for :meth:`search`.
            mode: As for :meth:`search`.
            expand: As for :meth:`search`.
            rerank: As for :meth:`search`.
            depth: As for :meth:`search`, for each question.

        Returns:
            One answer per question, in their order.

        Raises:
            InputError: As for :meth:`search`, for any of the questions.
            NoIndexError: Nothing is indexed yet.
            ModelError: A model could not be used.
        """
        plan = SearchPlan(
            top_k=top_k,
            filters=SearchFilters.take(filters),
            mode=mode,
            expand=expand,
            rerank=rerank,
            depth=depth,
        )
        with self._snapshots.reading() as snapshot:
            return search(snapshot, queries, plan, self._tell_stale(snapshot))

    def find_terms(self, keys: Sequence[str], text: str) -> list[tuple[int, int]]:
        """Find the content words of search keys in a text, to highlight them.

        Args:
            keys: Search keys, such as those of an answer.
            text: Any text, such as that of a hit.

        Returns:
            Spans of characters, in order and without overlap.
        """
        with self._snapshots.reading() as snapshot:
            return mark_words(keys, text, main_stemmer(snapshot.index))

    def context(
        self,
        query: str | Sequence[Message],
        *,
        max_tokens: int | None = None,
        format: ContextFormat = "markdown",  # noqa: A002 - the word that everybody looks for
        top_k: int | None = None,
        as_of: datetime | None = None,
        filters: SearchFilters | Mapping[str, Any] = _NO_FILTERS,
    ) -> ContextAnswer:
        """Build a context for a prompt: the documents that serve a question, a text or a conversation.

        A longer text is divided into parts, and every part is a query. The answer names the documents that serve each
        part, and the parts that no document serves. The parts of a conversation are of whole messages, in whichever
        way it is written; see :func:`backstory.interfaces.library.messages.read_messages`.

        Args:
            query: The question or the text; or a list of messages, each a text or an object with ``author``, ``time``
                and ``text``.
            max_tokens: Token budget of the context; None for the setting ``context.max_tokens``.
            format: ``markdown``, ``json``, ``messages``, ``xml`` or ``blocks``; see
                :func:`backstory.text.prompts.formats.format_context`.
            top_k: Maximum number of chunks; None for the setting ``rag.top_k``.
            as_of: Documents that were published after this time are hidden; None hides none.
            filters: Which documents may be in it, without pages and time.

        Raises:
            InputError: The text is blank, a list holds something that is no message, a name in the filters fits no
                document or several, or an argument is out of its range.
            NoIndexError: Nothing is indexed yet.
            ModelError: A model could not be used.
        """
        from backstory.interfaces.library.contexts import ContextPlan, make_context

        plan = ContextPlan(
            max_tokens=max_tokens, form=format, top_k=top_k, as_of=as_of, filters=SearchFilters.take(filters)
        )
        with self._snapshots.reading() as snapshot:
            return make_context(snapshot, query, plan, self._tell_stale(snapshot))

    def window_context(
        self,
        window: str,
        *,
        max_tokens: int | None = None,
        format: ContextFormat = "markdown",  # noqa: A002 - the word that everybody looks for
        top_k: int | None = None,
        as_of: datetime | None = None,
        filters: SearchFilters | Mapping[str, Any] = _NO_FILTERS,
    ) -> ContextAnswer:
        """Build the context of a window of a chat, by the steps and settings of a run.

        Without the last three arguments, the documents are those that a run chooses for the window.

        Args:
            window: Names the window; see :func:`backstory.operations.inspection.windows.find_window`.
            max_tokens: As for :meth:`context`.
            format: As for :meth:`context`.
            top_k: As for :meth:`context`.
            as_of: Documents that were published after this time are hidden; None for the beginning of the window, if
                the setting ``rag.as_of`` is on.
            filters: As for :meth:`context`.

        Raises:
            InputError: There is no such window, or an argument is wrong.
            NoIndexError: Nothing is indexed yet.
            ModelError: A model could not be used.
        """
        from backstory.interfaces.library.contexts import ContextPlan, make_window_context

        plan = ContextPlan(
            max_tokens=max_tokens, form=format, top_k=top_k, as_of=as_of, filters=SearchFilters.take(filters)
        )
        with self._snapshots.reading() as snapshot:
            return make_window_context(snapshot, window, plan, self._tell_stale(snapshot))

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
            InputError: There is no such window or document, or several, or the window has no context yet; or there is
                an answer without a document, or about one that can be no label.
            WorkspaceError: The file of the answers is damaged.
        """
        from backstory.interfaces.library.explain import explain_window

        return explain_window(self._read_corpus(), window, document, should_be)

    def evaluate(self, question: str, retrieved: str | Sequence[str] | SearchAnswer) -> Evaluation:
        """Judge whether retrieved text answers a question, without a language model.

        Args:
            question: The question.
            retrieved: A text, several, or the answer of :meth:`search`.

        Raises:
            InputError: The question is blank.
            NoIndexError: Nothing is indexed yet.
            ModelError: The model could not be used.
        """
        from backstory.interfaces.library.answerability import evaluate

        with self._snapshots.reading() as snapshot:
            return evaluate(snapshot.workspace, question, retrieved, stemmer=main_stemmer(snapshot.index))

    def answer(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        filters: SearchFilters | Mapping[str, Any] = _NO_FILTERS,
    ) -> Answer:
        """Answer a question from the documents alone, each statement with the places that say it.

        Talk searches nothing, and a list of documents comes from the catalog. Without a model in the settings, the
        answer consists of sentences of the documents.

        Args:
            question: The question; a follow-up is completed by the last question of the history.
            history: The conversation so far, the last turn last.
            filters: Which documents may be read.

        Returns:
            The answer. It is refused, with a reason, where the documents do not say, or nothing is indexed.

        Raises:
            InputError: The question is blank, a name in the filters fits no document or several, or the settings
                withhold the question from the model.
            ModelError: The model gave no answer, or none that can be read; the error has the hits of the search.
            ModelError: A model could not be used.
            BudgetExhaustedError: A call would exceed a budget.
        """
        from backstory.interfaces.library.answering import (
            answer_from,
            answer_without_index,
            require_question,
        )

        require_question(question)
        try:
            with self._snapshots.reading() as snapshot:
                notes = self._tell_stale(snapshot)
                return answer_from(
                    snapshot, self._read_corpus, question, history, SearchFilters.take(filters), notes
                )
        except NoIndexError as error:
            return answer_without_index(question, str(error))

    def grep(
        self,
        pattern: str,
        regex: bool = False,
        limit: int = 100,
        offset: int = 0,
        *,
        ignore_case: bool = True,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> GrepAnswer:
        """Find every match of a pattern in the texts of the documents.

        Args:
            pattern: A text, or a regular expression.
            regex: Whether the pattern is a regular expression.
            limit: Maximum number of returned matches; all of them are counted.
            offset: Number of matches to skip, for the next page.
            ignore_case: Whether upper and lower case are the same.
            limit_seconds: Processor time that a search by an expression may take, rounded up.

        Raises:
            InputError: The pattern is no regular expression, or takes too much time or memory, or an argument is out of
                its range.
            NoIndexError: Nothing is indexed yet.
        """
        from backstory.interfaces.library.grep import grep

        corpus = self._read_corpus()
        return grep(
            corpus,
            pattern,
            is_regex=regex,
            ignore_case=ignore_case,
            limit=limit,
            offset=offset,
            limit_seconds=limit_seconds,
            notes=self._tell_old(corpus),
        )

    def documents(self) -> DocumentList:
        """List the searched documents, and the files that were not read, with the reasons.

        Raises:
            NoIndexError: Nothing is indexed yet.
        """
        return self._read_corpus().list_all()

    def files(self) -> list[FileState]:
        """List every file of the documents with its state: searched, waiting for the next indexing, or not read.

        Returns:
            The states, by path; also where nothing is indexed yet.
        """
        from backstory.interfaces.library.status import list_file_states

        self._workspace.follower.follow()
        corpus = self._corpus.read_mine() if is_made(self._workspace) else None
        searched: Mapping[str, str] = {}
        with suppress(NoIndexError), self._snapshots.reading() as snapshot:
            searched = snapshot.revisions
        return list_file_states(self._workspace, corpus, searched, self._file_hashes)

    def document(self, name: str) -> DocumentEntry:
        """Describe one document.

        Args:
            name: Its id, its path, the end of its path from a whole folder or file name on, its slug, its title, or the
                first six or more characters of its id.

        Raises:
            InputError: No document has this name, or several have it; the message lists them.
            NoIndexError: Nothing is indexed yet.
        """
        corpus = self._read_corpus()
        return corpus.describe(corpus.find(name))

    def text(self, document: str, pages: int | tuple[int, int] | None = None) -> DocumentText:
        """Read the text of a document.

        Args:
            document: Its name, as :meth:`document` takes it.
            pages: A page, or the first and last of several; None for the whole text.

        Raises:
            InputError: No document has this name, several have it, or it does not have these pages.
            NoIndexError: Nothing is indexed yet.
        """
        span = (pages, pages) if isinstance(pages, int) else pages
        return self._read_corpus().read(document, span)

    def page_picture(self, document: str, page: int) -> bytes:
        """Draw a page of a PDF for a screen.

        Args:
            document: Its name, as :meth:`document` takes it.
            page: The page, from 1.

        Returns:
            A PNG file.

        Raises:
            InputError: No document has this name or several have it, it has no picture of this page, or its file has
                changed since it was indexed.
            ReadError: The page cannot be drawn.
            NoIndexError: Nothing is indexed yet.
        """
        from backstory.interfaces.library.page_pictures import draw_document_page

        return draw_document_page(self._read_corpus(), document, page)

    def chunk(self, name: str) -> Chunk:
        """Read one chunk of a document.

        Args:
            name: Id of the chunk, as hits and tools give it.

        Raises:
            InputError: No document has this name, several have it, or it has no such chunk.
            NoIndexError: Nothing is indexed yet.
        """
        return self._read_corpus().find_chunk(name)

    def chunks(self, places: Iterable[tuple[str, int]]) -> list[Chunk | None]:
        """Read the chunks that hold characters of documents, all of one state of the tables.

        Args:
            places: The name of a document and a character of its text, from 0, for each chunk.

        Returns:
            The chunks in their order; None for a character that no chunk holds.

        Raises:
            InputError: No document has one of the names, or several have it.
            NoIndexError: Nothing is indexed yet.
        """
        corpus = self._read_corpus()
        return [corpus.find_chunk_at(name, character) for name, character in places]

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

        Raises:
            InputError: No document has this name or several have it, an argument is out of its range, or the settings
                withhold the document from the model.
            NoIndexError: Nothing is indexed yet.
            ModelError: The model could not be used at all.
            BudgetExhaustedError: A budget is used up, and no section was summarized.
        """
        from backstory.interfaces.library.summaries import summarize_document

        return summarize_document(self._read_corpus(), document, style, max_words_per_section)

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

        Raises:
            InputError: No document has this name or several have it, or the file cannot be written there.
            NoIndexError: Nothing is indexed yet.
        """
        from backstory.interfaces.library.corpus import dump_text
        from backstory.pipeline.chats.copies import record_copy

        text = self.text(document, pages)
        dumped = dump_text(text, Path(path), roots=roots, replace=replace)
        # A written post escapes its quotations of messages.
        record_copy(self._workspace, Path(path), is_text=not is_written(text.document.uri))
        return dumped

    @naming_faults_of_system()
    def index(
        self,
        paths: str | Path | Sequence[str | Path] | None = None,
        recursive: bool = True,
        *,
        accept_removals: bool = False,
        chats: bool = False,
    ) -> IndexReport:
        """Read files, and update the index of all files of the library.

        Files and folders outside of the folder of documents become further sources, which are read where they lie.
        Only changes are read and embedded.

        Args:
            paths: A file or folder, or several; None for those that the library already knows.
            recursive: Whether subfolders are read as well.
            accept_removals: Whether the index may lose its last documents. Otherwise the indexing fails where all files
                are gone, since their disk may only not be mounted.
            chats: Whether the chats are read after them, and every table is built, as ``backstory run`` does. Their
                failures are among those of the report; messages that are gone from their files stay.

        Returns:
            The outcome of each file. A file that cannot be read fails alone.

        Raises:
            InputError: A path is no place for documents.
        """
        given = [] if paths is None else [paths] if isinstance(paths, str | Path) else list(paths)
        with self._changing:
            change = self._change()
            return self._keep(
                change.index(given, recursive=recursive, accept_removals=accept_removals, chats=chats)
            )

    @naming_faults_of_system()
    def add(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> IndexReport:
        """Add texts as documents: Markdown files in the folder ``added`` of the folder of documents.

        Args:
            texts: The texts.
            ids: One id per text. A text replaces an earlier one with its id. None names each by its content.
            metadata: For each text a mapping with any of ``title``, ``slug``, ``date``, ``tags``, ``kind`` and
                ``tenant``, by default that of the setting ``rag.tenant``. Other keys are stored in the file, but not
                searched.

        Raises:
            InputError: A text, an id or metadata is invalid, or a person's file or a text of another tenant is in the
                place of a text. Nothing is added then.
        """
        with self._changing:
            return self._keep(self._change().add(texts, ids, metadata))

    @naming_faults_of_system()
    def remove(self, names: str | Path | Sequence[str | Path]) -> IndexReport:
        """Remove texts, sources or documents from the index. A file of a person is never deleted.

        Args:
            names: The id of an added text, whose file is deleted; the name or path of an added source, which is no
                longer read; or the name of a document, whose file is excluded from reading and stays.

        Returns:
            The outcome of each name, and how to revert an exclusion.

        Raises:
            InputError: Nothing has this name, or several documents have it.
        """
        given = [names] if isinstance(names, str | Path) else list(names)
        with self._changing:
            corpus = self._read_corpus() if is_made(self._workspace) else None
            return self._keep(self._change().remove([str(name) for name in given], corpus))

    def watch(self, *, poll_seconds: float = POLL_SECONDS, settle_seconds: float = SETTLE_SECONDS) -> Watcher:
        """Watch the files and index their changes, in a thread of this process, until :meth:`close`.

        Args:
            poll_seconds: Seconds between two checks of the names, sizes and times of the files.
            settle_seconds: Seconds without a change before indexing, so that a burst of changes is indexed once.

        Returns:
            The watcher; the running one if there is one.
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
        """Return the status of the library and the files that changed since they were indexed; hashes every file."""
        from backstory.interfaces.library.status import read_status

        return read_status(self._workspace, self._corpus, self._last_failures, self._watcher)

    @cached_property
    def _corpus(self) -> CorpusReader:
        from backstory.interfaces.library.corpus import CorpusReader

        return CorpusReader(self._workspace)

    @cached_property
    def _file_hashes(self) -> FileHashes:
        from backstory.ingest.documents.file_hashes import FileHashes

        return FileHashes(self._workspace.catalog)

    def _read_corpus(self) -> Corpus:
        self._workspace.follower.follow()
        if not is_made(self._workspace):
            raise explain_absence(self._workspace)
        return self._corpus.read_mine()

    def _tell_old(self, corpus: Corpus) -> list[str]:
        """Describe the files that have changed since the tables were written, which may be ahead of the snapshot."""
        old = self._old.describe(corpus.version, corpus.revisions, corpus.hidden)
        return self._list_notes(old)

    def _change(self) -> Change:
        from backstory.interfaces.library.indexing import make_tables
        from backstory.interfaces.library.mutations import Change

        return Change(self._workspace, self._corpus, perf_counter(), self._make or make_tables)

    def _keep(self, report: IndexReport) -> IndexReport:
        self._last_failures = report.failures
        return report

    def _tell_stale(self, snapshot: OpenSnapshot) -> list[str]:
        stale = self._stale.describe(snapshot.index.version, snapshot.revisions, snapshot.hidden)
        return [
            *self._list_notes(stale),
            *describe_unknown_settings(snapshot.index.documents, snapshot.workspace.settings.rag),
        ]

    def _list_notes(self, age: str | None) -> list[str]:
        indexing = describe_indexing(self._workspace)  # which asks the database
        return list(filter(None, [indexing, age, *self._workspace.problems]))
