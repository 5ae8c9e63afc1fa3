"""The library: one interface to the documents of a workspace, for Python, the shell and agents."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from backstory.base.errors import InputError, NoIndexError, naming_faults_of_system
from backstory.index.request import describe_unknown_settings
from backstory.interfaces.library.freshness import POLL_SECONDS, Watcher, name_state
from backstory.interfaces.library.reading import DocumentReader
from backstory.interfaces.library.results import ContextAnswer, Evaluation, IndexReport, SearchAnswer
from backstory.interfaces.library.search import SearchFilters, SearchOptions, main_stemmer, search
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.found import Result
from backstory.text.words import mark_words

# Reading the tables, and the stages with their contracts, take longer to load than a search takes.
if TYPE_CHECKING:
    from backstory.interfaces.library.contexts import ContextOptions
    from backstory.interfaces.library.indexing import Change, MakeTables
    from backstory.interfaces.library.messages import Message
    from backstory.interfaces.library.results import Answer
    from backstory.pipeline.chats.named_documents import NameView
    from backstory.writing.answers.answer import Turn

_R = TypeVar("_R", bound=Result)


class Library(DocumentReader):
    """The documents of a workspace: search them, read them, and keep the index in sync with the files.

    One object serves any number of threads, and any number of processes may open the same library. What reads documents
    raises :class:`NoIndexError` where nothing is indexed yet, :class:`InputError` for a wrong argument,
    :class:`ModelError` where a model cannot be used, and :class:`BudgetExhaustedError` where a call would exceed a
    budget.
    """

    def __init__(self, workspace: Workspace, make: MakeTables | None = None) -> None:
        """Wrap an open workspace, with chats or without; ``make`` builds its tables, by default in this process."""
        super().__init__(workspace)
        self._make = make
        self._changing = threading.Lock()
        self._starting = threading.Lock()
        self._shown: NameView | None = None

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

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchAnswer:
        """Search the documents for one question. One that is longer than the model's input is searched in parts.

        Args:
            query: The question.
            **options: How to search; see :class:`~backstory.interfaces.library.search.SearchOptions`.
        """
        [answer] = self.search_many([query], **options)
        return answer

    def search_many(
        self, queries: list[str] | tuple[str, ...], **options: Unpack[SearchOptions]
    ) -> list[SearchAnswer]:
        """Search for several questions, all in one snapshot of the index, with one answer for each in their order."""
        with self._snapshots.reading() as snapshot:
            answers = search(snapshot, queries, self._tell_stale(snapshot), **options)
        return [self._give(answer) for answer in answers]

    def find_terms(self, keys: Sequence[str], text: str) -> list[tuple[int, int]]:
        """Find the content words of search keys in a text, to highlight them: spans in order, without overlap."""
        with self._snapshots.reading() as snapshot:
            return mark_words(keys, text, main_stemmer(snapshot.index))

    def context(self, query: str | Sequence[Message], **options: Unpack[ContextOptions]) -> ContextAnswer:
        """Build a context for a prompt: the documents that serve a question, a text or a conversation.

        A longer text is divided into parts, and every part is a query. The answer names the documents that serve each
        part, and the parts that no document serves. The parts of a conversation are of whole messages; see
        :func:`backstory.interfaces.library.messages.read_messages`.

        Args:
            query: The question or the text; or a list of messages, each a text or an object with ``author``, ``time``
                and ``text``.
            **options: What it may hold, and how it is written; see
                :class:`~backstory.interfaces.library.contexts.ContextOptions`.
        """
        from backstory.interfaces.library.contexts import make_context

        with self._snapshots.reading() as snapshot:
            return make_context(snapshot, query, self._tell_stale(snapshot), **options)

    def window_context(self, window: str, **options: Unpack[ContextOptions]) -> ContextAnswer:
        """Build the context of a window of a chat, by the steps and settings of a run.

        Without ``top_k``, ``as_of`` and ``filters``, the documents are those that a run chooses for the window.

        Args:
            window: Names the window; see :func:`backstory.operations.inspection.windows.find_window`.
            **options: As for :meth:`context`.
        """
        from backstory.interfaces.library.contexts import make_window_context

        with self._snapshots.reading() as snapshot:
            return make_window_context(snapshot, window, self._tell_stale(snapshot), **options)

    def evaluate(self, question: str, retrieved: str | Sequence[str] | SearchAnswer) -> Evaluation:
        """Judge whether retrieved text, several texts, or the answer of :meth:`search` answer a question.

        No language model is asked.
        """
        from backstory.interfaces.library.answerability import evaluate

        with self._snapshots.reading() as snapshot:
            return evaluate(snapshot.workspace, question, retrieved, stemmer=main_stemmer(snapshot.index))

    def answer(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        filters: SearchFilters | Mapping[str, Any] | None = None,
    ) -> Answer:
        """Answer a question from the documents alone, each statement with the places that say it.

        Talk searches nothing, and a list of documents comes from the catalog. Without a model in the settings, the
        answer consists of sentences of the documents. It is refused, with a reason, where the documents do not say. A
        :class:`ModelError`, where the model gave no answer, has the hits of the search.

        Args:
            question: The question; a follow-up is completed by the last question of the history.
            history: The conversation so far, the last turn last.
            filters: Which documents may be read.
        """
        from backstory.interfaces.library.answering import answer_from, answer_without_index

        if not question.strip():
            raise InputError("the question is blank; ask in words", code="blank_text")
        wanted = SearchFilters.take(filters)
        try:
            with self._snapshots.reading() as snapshot:
                notes = self._tell_stale(snapshot)
                return self._give(answer_from(snapshot, self._read_corpus, question, history, wanted, notes))
        except NoIndexError as error:
            return self._give(answer_without_index(question, str(error)))

    @naming_faults_of_system()
    def index(
        self,
        paths: str | Path | Sequence[str | Path] | None = None,
        recursive: bool = True,
        *,
        accept_removals: bool = False,
        chats: bool = False,
    ) -> IndexReport:
        """Read files, and update the index of all files of the library. A file that cannot be read fails alone.

        Files and folders outside of the folder of documents become further sources, which are read where they lie.
        Only changes are read and embedded.

        Args:
            paths: A file or folder, or several; None for those that the library already knows.
            recursive: Whether subfolders are read as well.
            accept_removals: Whether the index may lose its last documents. Otherwise the indexing fails where all files
                are gone, since their disk may only not be mounted.
            chats: Whether the chats are read after them, and every table is built, as ``backstory run`` does. Their
                failures are among those of the report; messages that are gone from their files stay.
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
        """
        given = [names] if isinstance(names, str | Path) else list(names)
        with self._changing:
            self.workspace.follower.follow()
            mine = self._corpus.read().mine
            return self._keep(self._change().remove([str(name) for name in given], mine))

    def watch(self, *, poll_seconds: float = POLL_SECONDS) -> Watcher:
        """Watch the files and index their changes, in one thread of this process, until :meth:`close`.

        Args:
            poll_seconds: Seconds between two looks at the names, sizes and times of the files. A burst of changes is
                indexed once, when two looks find the same.
        """
        with self._starting:
            if self._watcher is None or not self._watcher.is_alive:
                self._watcher = Watcher(lambda: name_state(self.workspace), self.index, poll_seconds)
            return self._watcher

    def _change(self) -> Change:
        from backstory.interfaces.library.indexing import Change, make_tables

        return Change(self.workspace, self._corpus, perf_counter(), self._make or make_tables)

    def _keep(self, report: IndexReport) -> IndexReport:
        self._last_failures = report.failures
        return report

    def _tell_stale(self, snapshot: OpenSnapshot) -> list[str]:
        index, rag = snapshot.index, snapshot.workspace.settings.rag
        stale = self._changes.describe(index.manifest.version, snapshot.revisions, snapshot.hidden)
        return [*self._list_notes(stale), *describe_unknown_settings(index.documents, rag)]


class ModelLibrary(Library):
    """Answers as the library does, by the rule ``privacy.documents``; paths and ids stay.

    Whatever is withheld or written with other names is said in the notes of the answer or of the document. Contexts
    and summaries by a model follow the rule in every library.
    """

    def __init__(self, library: Library) -> None:
        """Wrap a library. Both share one state: what one of them opens, watches or closes, the other does, too."""
        self.__dict__ = library.__dict__

    def _give(self, result: _R) -> _R:
        from backstory.interfaces.library.shown_results import show_result
        from backstory.pipeline.chats.named_documents import NameView

        # What the last view has read of names is used again while it holds.
        last = self._shown
        self._shown = view = NameView(self.workspace, "agent") if last is None else last.renew()
        return show_result(result, view, lambda name: str(self._read_corpus().find(name)["text"]))
