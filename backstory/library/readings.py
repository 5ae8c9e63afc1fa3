"""The documents of a library as they were read: listed, searched for a pattern, summarized and written into files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backstory.errors import NoIndexError
from backstory.library.dumping import dump_text
from backstory.library.results import (
    DocumentEntry,
    DocumentList,
    DocumentText,
    Dump,
    GrepAnswer,
    Style,
    Summary,
)
from backstory.settings.summaries import MAX_WORDS
from backstory.workspace import Workspace

# Reading the tables loads what a search does not need.
if TYPE_CHECKING:
    from backstory.library.corpus import Corpus, CorpusReader

LIMIT_SECONDS: Final = 10.0
"""Time that a regular expression may take over all documents."""


class Readings:
    """What is read from the tables of the documents: of those of one tenant only, if the settings name it."""

    def __init__(self, workspace: Workspace) -> None:
        """Take an open workspace; nothing is read or made yet.

        Args:
            workspace: An open workspace, with chats or without.
        """
        self._workspace = workspace

    @property
    def workspace(self) -> Workspace:
        """The workspace."""
        return self._workspace

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
        """Find every place in the texts of the documents that a pattern matches.

        Args:
            pattern: A text, or a regular expression.
            regex: Whether the pattern is a regular expression.
            limit: Most matches that are given; all of them are counted.
            offset: Number of matches to pass over, for the next page.
            ignore_case: Whether upper and lower case are the same.
            limit_seconds: Processor time that the search may take.

        Raises:
            InputError: The pattern is no regular expression, or takes too much time or memory, or an argument is out of
                its range.
            NoIndexError: Nothing is indexed yet.
        """
        from backstory.library.grepping import grep

        return grep(
            self._read_corpus(),
            pattern,
            is_regex=regex,
            ignore_case=ignore_case,
            limit=limit,
            offset=offset,
            limit_seconds=limit_seconds,
        )

    def documents(self) -> DocumentList:
        """List the documents that are searched, and the files that were not read, with the reasons.

        Raises:
            NoIndexError: Nothing is indexed yet.
        """
        return self._read_corpus().list_all()

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

    def summarize(
        self, document: str, style: Style = "detailed", max_words_per_section: int = MAX_WORDS
    ) -> Summary:
        """Summarize a document, section by section, by the summarizer of the settings.

        Without a model, the summary consists of sentences of the document. What a model writes is kept, so that the
        same section is never paid for twice.

        Args:
            document: Its name, as :meth:`document` takes it.
            style: ``brief``: a paragraph; ``detailed``: every main point; ``bullets``: a list.
            max_words_per_section: Most words that are summarized at once, at least 1.

        Returns:
            The summary. Its status is ``partial`` if a section failed, and it names each of those with the reason.

        Raises:
            InputError: No document has this name or several have it, or an argument is out of its range.
            NoIndexError: Nothing is indexed yet.
            ModelError: The model could not be used at all.
            BudgetExhaustedError: A budget is used up, and no section was summarized.
        """
        from backstory.library.summarizing import summarize_document

        return summarize_document(self._read_corpus(), document, style, max_words_per_section)

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
        from backstory.pipeline.copies import record_copy

        dumped = dump_text(self.text(document, pages), Path(path), roots=roots, replace=replace)
        record_copy(self._workspace, Path(path))
        return dumped

    @cached_property
    def _corpus(self) -> CorpusReader:
        from backstory.library.corpus import CorpusReader

        return CorpusReader(self._workspace)

    def _read_corpus(self) -> Corpus:
        from backstory.library.corpus import is_made

        if not is_made(self._workspace):
            raise NoIndexError(
                f"nothing is indexed in {self._workspace.root} yet; put files into "
                f"{self._workspace.posts} and run `backstory add`, or with chats `backstory run`"
            )
        return self._corpus.read_mine()
