"""The library: one face over the documents of a workspace, for Python, the shell and agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, overload

from backstory.library.depth import Depth
from backstory.library.filters import SearchFilters
from backstory.library.freshness import StaleNote
from backstory.library.results import ContextAnswer, Evaluation, Explanation, Mode, SearchAnswer
from backstory.library.searching import SearchPlan, search
from backstory.library.snapshots import OpenSnapshot, Snapshots
from backstory.library.upkeep import Upkeep
from backstory.library.words import main_stemmer, mark_words
from backstory.prompt_formats import ContextFormat
from backstory.workspace import Workspace, open_workspace

_NO_FILTERS = SearchFilters()
_DEPTH = Depth()


class Library(Upkeep):
    """The documents of a workspace: searched, read, and kept in step with their files.

    One object serves any number of threads. What it knows lies in the workspace, so that any number of processes may
    have a library open, and one may index while others search.
    """

    def __init__(self, workspace: Workspace) -> None:
        """Take an open workspace; nothing is read or made yet.

        Args:
            workspace: An open workspace, with chats or without.
        """
        super().__init__(workspace)
        self._snapshots = Snapshots(workspace)
        self._stale = StaleNote(workspace)

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
        super().close()
        self._snapshots.close()

    @overload
    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        filters: SearchFilters = _NO_FILTERS,
        mode: Mode | None = None,
        expand: bool = False,
        rerank: bool = False,
        depth: Depth = _DEPTH,
    ) -> SearchAnswer: ...

    @overload
    def search(
        self,
        query: list[str] | tuple[str, ...],
        *,
        top_k: int | None = None,
        filters: SearchFilters = _NO_FILTERS,
        mode: Mode | None = None,
        expand: bool = False,
        rerank: bool = False,
        depth: Depth = _DEPTH,
    ) -> list[SearchAnswer]: ...

    def search(
        self,
        query: str | list[str] | tuple[str, ...],
        *,
        top_k: int | None = None,
        filters: SearchFilters = _NO_FILTERS,
        mode: Mode | None = None,
        expand: bool = False,
        rerank: bool = False,
        depth: Depth = _DEPTH,
    ) -> SearchAnswer | list[SearchAnswer]:
        """Search the documents for one question or for several at once.

        Args:
            query: A question, or a list of questions.
            top_k: Most hits of a question; None leaves it to ``depth``.
            filters: Which documents and pages may be found.
            mode: ``hybrid`` orders by vectors and keywords, ``dense`` by vectors, ``keyword`` by words; None for the
                setting ``rag.ranking``.
            expand: Whether further search keys are made of a question: its content words, and what templates such as
                "what is X" -> "X definition" give. A chunk has the best score that any key has for it.
            rerank: Whether the reranker of the settings orders the hits.
            depth: How many hits there are without ``top_k``: more of a larger corpus, within a cap of tokens.

        Returns:
            An answer, or a list of answers in the order of the questions. All of them are of one snapshot, whatever is
            published meanwhile.

        Raises:
            InputError: A question is blank, a name in the filters fits no document or several, or an argument is out of
                its range.
            NoIndexError: Nothing is indexed yet.
            EmbeddingInputError: A question is longer than the model's input.
            ModelError: A model could not be used.
        """
        plan = SearchPlan(top_k=top_k, filters=filters, mode=mode, expand=expand, rerank=rerank, depth=depth)
        with self._snapshots.reading() as snapshot:
            questions = [query] if isinstance(query, str) else list(query)
            answers = search(snapshot, questions, plan, self._tell_stale(snapshot))
        return answers[0] if isinstance(query, str) else answers

    def find_terms(self, keys: Sequence[str], text: str) -> list[tuple[int, int]]:
        """Find where a text holds the content words of search keys, to mark them.

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
        query: str,
        *,
        max_tokens: int | None = None,
        format: ContextFormat = "markdown",  # noqa: A002 - the word that everybody looks for
        top_k: int | None = None,
        as_of: datetime | None = None,
        filters: SearchFilters = _NO_FILTERS,
    ) -> ContextAnswer:
        """Write what the documents hold on a question or a text as a context for a prompt.

        A longer text is divided into parts, each of which is searched for; the answer says which documents serve which
        part, and which parts nothing serves.

        Args:
            query: The question or the text.
            max_tokens: Most tokens of the context; None for the setting ``context.max_tokens``.
            format: ``markdown``, ``json``, ``messages``, ``xml`` or ``blocks``; see
                :func:`backstory.prompt_formats.format_context`.
            top_k: Most chunks in it; None for the setting ``rag.top_k``.
            as_of: Documents that were published after this time are hidden; None hides none.
            filters: Which documents may be in it, without pages and time.

        Raises:
            InputError: The text is blank, a name in the filters fits no document or several, or an argument is out of
                its range.
            NoIndexError: Nothing is indexed yet.
            ModelError: A model could not be used.
        """
        from backstory.library.contexts import ContextPlan, make_context

        plan = ContextPlan(max_tokens=max_tokens, form=format, top_k=top_k, as_of=as_of, filters=filters)
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
        filters: SearchFilters = _NO_FILTERS,
    ) -> ContextAnswer:
        """Write what the documents hold on a window of a chat, by the steps and settings of a run.

        Without the last three arguments the documents are those that a run keeps for the window.

        Args:
            window: Names the window; see :func:`backstory.inspection.windows.find_window`.
            max_tokens: As for :meth:`context`.
            format: As for :meth:`context`.
            top_k: As for :meth:`context`.
            as_of: Documents that were published after this time are hidden; None for the beginning of the window, if
                the setting ``rag.as_of`` says so.
            filters: As for :meth:`context`.

        Raises:
            InputError: There is no such window, or an argument is wrong.
            NoIndexError: Nothing is indexed yet.
            ModelError: A model could not be used.
        """
        from backstory.library.contexts import ContextPlan, make_window_context

        plan = ContextPlan(max_tokens=max_tokens, form=format, top_k=top_k, as_of=as_of, filters=filters)
        with self._snapshots.reading() as snapshot:
            return make_window_context(snapshot, window, plan, self._tell_stale(snapshot))

    def explain(self, window: str, document: str | None = None) -> Explanation:
        """Say why documents are, or are not, in the context that a run made for a window.

        Args:
            window: Names the window; see :func:`backstory.inspection.windows.find_window`.
            document: Name of one document, as :meth:`document` takes it; None for all that a part of the window found.

        Raises:
            InputError: There is no such window or document, or several, or the window has no context yet.
        """
        from backstory.library.explaining import explain_window

        return explain_window(self._read_corpus(), window, document)

    def evaluate(self, question: str, retrieved: str | Sequence[str] | SearchAnswer) -> Evaluation:
        """Judge without a language model whether retrieved text answers a question.

        Args:
            question: The question.
            retrieved: A text, several, or the answer of :meth:`search`.

        Raises:
            InputError: The question is blank.
            NoIndexError: Nothing is indexed yet.
            ModelError: The model could not be used.
        """
        from backstory.library.sufficiency import evaluate

        with self._snapshots.reading() as snapshot:
            return evaluate(snapshot.workspace, question, retrieved, stemmer=main_stemmer(snapshot.index))

    def _tell_stale(self, snapshot: OpenSnapshot) -> list[str]:
        note = self._stale.tell(snapshot.index.version, snapshot.revisions, snapshot.hidden)
        return [note] if note else []
