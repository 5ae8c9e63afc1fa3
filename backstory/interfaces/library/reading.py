"""The documents of a workspace, as the tables have them: their list, texts, pages and chunks."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from regex import escape

from backstory.base.errors import BackstoryError, InputError, NoIndexError, naming_faults_of_system
from backstory.base.files.atomic import write_file
from backstory.base.ids import document_id_of, is_written
from backstory.index.snapshot import current_version, find_moment
from backstory.ingest.documents.files import list_foreign, name_source
from backstory.interfaces.library.corpus import Corpus, CorpusReader, place_text
from backstory.interfaces.library.explain import explain_window
from backstory.interfaces.library.expressions import find_limited, find_places, fold
from backstory.interfaces.library.freshness import (
    FileChanges,
    Watcher,
    describe_indexing,
    explain_absence,
    is_made,
)
from backstory.interfaces.library.names import PlacedText, resolve_path
from backstory.interfaces.library.results import (
    Chunk,
    DocumentList,
    DocumentText,
    Dump,
    Explanation,
    FileState,
    GrepAnswer,
    LibraryStatus,
    Match,
    ShouldBe,
    Style,
    Summary,
)
from backstory.interfaces.library.snapshots import Snapshots
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import DocumentEntry, NamedDocument, Result, cite
from backstory.settings.writers import MAX_WORDS
from backstory.storage.turns import is_running

_SHORT_CHARACTERS: Final = 200
"""Length of the longest text that is searched in this process: the time grows only with the documents."""
_LINE_CHARACTERS: Final = 240
_MATCH_CHARACTERS: Final = 400
_OF_FILES: Final = ("title", "kind", "format", "date_origin", "size", "revision", "chunks")

_R = TypeVar("_R", bound=Result)


class DocumentReader:
    """Reads the documents of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Take an open workspace."""
        self.workspace = workspace
        self._corpus = CorpusReader(workspace)
        self._snapshots = Snapshots(workspace)
        self._changes = FileChanges(workspace)
        self._watcher: Watcher | None = None
        self._last_failures: tuple[str, ...] = ()

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
            pattern: A text, or an expression of the package ``regex``, in which ``^`` and ``$`` match at lines.
            regex: Whether the pattern is a regular expression.
            limit: Maximum number of returned matches; all of them are counted.
            offset: Number of matches to skip, for the next page.
            ignore_case: Whether upper and lower case are the same.
        """
        if not pattern:
            raise InputError("the pattern is empty; give a text to look for", code="blank_text")
        if limit < 0 or offset < 0:
            raise InputError(f"limit {limit} and offset {offset} must not be negative", code="out_of_range")
        documents = self._read_corpus().documents
        wanted = unicodedata.normalize("NFC", pattern) if regex else escape(fold(pattern)[0])
        find = find_limited if regex or len(pattern) > _SHORT_CHARACTERS else find_places
        found = find(wanted, documents["text"], ignore_case=ignore_case, limit=limit, offset=offset)
        rows = {number: documents.row(number, named=True) for number, _, _ in found.places}
        placed = {number: place_text(row) for number, row in rows.items()}
        shown = offset + len(found.places)
        answer = GrepAnswer(
            pattern=pattern,
            regex=regex,
            matches=tuple(_describe(rows[number], placed[number], *span) for number, *span in found.places),
            count=found.total,
            documents=found.texts,
            offset=offset,
            next_offset=shown if found.places and shown < found.total else None,
            notes=tuple(self._tell_old()),
        )
        return self._give(answer)

    def documents(self) -> DocumentList:
        """List the searched documents, and the files that were not read, with the reasons."""
        corpus = self._read_corpus()
        entries = tuple(corpus.describe(row) for row in corpus.documents.iter_rows(named=True))
        chunks, unread = sum(entry.chunks for entry in entries), tuple(corpus.list_unread())
        return self._give(DocumentList(documents=entries, count=len(entries), chunks=chunks, unread=unread))

    def files(self) -> list[FileState]:
        """List every file of the documents with its state: searched, waiting for the next indexing, or not read.

        The list is by path. It has an entry for each file also where nothing is indexed yet.
        """
        self.workspace.follower.follow()
        corpus = self._corpus.read().mine
        searched = dict.fromkeys(corpus.documents["uri"], "")
        with suppress(NoIndexError), self._snapshots.reading() as snapshot:
            searched |= snapshot.revisions
        rows = {row["uri"]: row for row in corpus.documents.iter_rows(named=True)}
        states = []
        for uri, (state, reason) in sorted(self._changes.compare(searched).items()):
            row, name = rows.get(uri), name_source(self.workspace.settings.documents.folder, uri)
            if name in corpus.hidden or (row is None and state == "removed"):
                continue
            known: dict[str, Any] = {"document_id": document_id_of(uri), "uri": uri, "name": name}
            if row is not None:
                known |= {field: row[field] for field in _OF_FILES}
                known |= {"date": row["published_at"], "pages": place_text(row).pages}
            states.append(FileState(state=state, reason=reason, **known))
        return states

    def status(self) -> LibraryStatus:
        """Return the status of the library, and the files that have changed since they were indexed."""
        workspace, watcher = self.workspace, self._watcher
        version = current_version(workspace.index) or None
        pending, counts = list[str](), {"documents": 0, "chunks": 0, "unread": 0}
        unsaid, hidden = None, frozenset[str]()
        reason = "; ".join(self._last_failures) or (watcher.error if watcher else None)
        try:
            corpus = self._corpus.read()
            mine, hidden = corpus.mine, corpus.mine.hidden
            chunks = int(mine.documents["chunks"].sum())
            counts = {"documents": mine.documents.height, "chunks": chunks, "unread": len(mine.list_unread())}
            if len(corpus.documents) > counts["documents"] == 0:
                tenant = workspace.settings.rag.tenant
                unsaid = f"no document states the tenant {tenant!r} of rag.tenant, so none is searched"
            pending = self._changes.list_pending(corpus.revisions)
        except BackstoryError as error:
            reason = str(error)
        if is_running(workspace.catalog.state):
            state, reason = "indexing", reason or describe_indexing(workspace) or "indexing is under way"
        elif reason is not None:
            state = "error"
        elif version is None:
            state, reason = "idle", "nothing is indexed yet"
        else:
            state = "ready"
            reason = f"changes pending for the next indexing: {len(pending)}" if pending else unsaid
        return LibraryStatus(
            state=state,
            reason=reason,
            root=str(workspace.root),
            folder=str(workspace.documents_dir),
            **counts,
            pending=tuple(name for name in pending if name not in hidden),
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
        corpus = self._read_corpus()
        row = corpus.find(document)
        placed, entry = place_text(row), corpus.describe(row)
        whole = None if entry.pages is None else (1, entry.pages)
        span = (pages, pages) if isinstance(pages, int) else pages or whole
        start, end = placed.bounds_of_pages(*span) if span else (0, len(placed.text))
        text, (first, last) = placed.text[start:end], span or (None, None)
        places = {"page_start": first, "page_end": last, "char_start": start, "char_end": end}
        return self._give(DocumentText(document=entry, text=text, **places))

    def page_picture(self, document: str, page: int) -> bytes:
        """Draw a page of a PDF for a screen, as a PNG file; pages count from 1.

        Raises:
            InputError: The document has no picture of this page, or its file has changed since it was indexed.
            ReadError: The page cannot be drawn.
        """
        from backstory.ingest.documents.pages import PDF, draw_page
        from backstory.ingest.limited_calls import find_limits

        row = self._read_corpus().find(document)
        uri, pages = row["uri"], len(row["page_starts"] or ())
        if row["format"] != PDF.name or not 1 <= page <= pages:
            what = f"{uri} has no picture of a page {page}; only pages of PDF files are drawn, and it has {pages}"
            raise InputError(what, code="unknown_page")
        settings = self.workspace.settings.documents
        file = next((each for each in self.workspace.list_documents().files if each.uri == uri), None)
        content = b"" if file is None else file.read(most_bytes=find_limits(settings).most_bytes)
        if hashlib.sha256(content).hexdigest() != row["content_hash"]:
            what = f"{uri} has changed since it was indexed, so its pages may be others; index again"
            raise InputError(what, code="changed_document")
        return draw_page(content, page, settings)

    def chunk(self, name: str) -> Chunk:
        """Read one chunk of a document by its id, as hits and tools give it."""
        row = self._read_corpus().find(name)
        stated = re.split(r"[#:]", name)[-1]
        if not stated.isdecimal() or int(stated) >= row["chunks"]:
            what = f"{name!r} is no chunk of {row['uri']}, which has {row['chunks']}, counted from 0"
            raise InputError(what, code="unknown_chunk")
        return self._give(_cut_chunk(row, int(stated)))

    def chunks(self, places: Iterable[tuple[str, int]]) -> list[Chunk | None]:
        """Read the chunks that hold characters of documents, all of one state of the tables; None where none does.

        Args:
            places: The name of a document and a character of its text, from 0, for each chunk.
        """
        corpus = self._read_corpus()
        found = list[Chunk | None]()
        for name, character in places:
            row = corpus.find(name)
            spans = enumerate(zip(row["chunk_starts"] or (), row["chunk_ends"] or (), strict=True))
            index = next((index for index, (start, end) in spans if start <= character < end), None)
            found.append(None if index is None else self._give(_cut_chunk(row, index)))
        return found

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
        from backstory.pipeline.chats.copies import record_copy

        text, target = self.text(document, pages), resolve_path(path)
        entry = text.document
        if roots and not any(target.is_relative_to(root.resolve()) for root in roots):
            listed = ", ".join(str(root.resolve()) for root in roots)
            raise InputError(f"{target} lies outside of {listed}; name a file inside of it")
        if target == Path(entry.path).resolve():
            raise InputError(f"{target} is the document itself; name another file")
        if target.exists() and (not replace or not target.is_file()):
            raise InputError(f"{target} already exists; name another file, or allow it to be replaced")
        try:
            write_file(target, text.text.encode())
        except OSError as error:
            raise InputError(f"{target} cannot be written ({error.strerror}); name another file") from error
        # A written post quotes messages and documents.
        record_copy(self.workspace, Path(path), "" if is_written(entry.uri) else entry.document_id)
        return Dump(document=entry, output_path=str(target), characters=len(text.text), pages=entry.pages)

    def _give(self, result: _R) -> _R:
        """Return a result as a caller of this library gets it."""
        return result

    def _read_corpus(self) -> Corpus:
        self.workspace.follower.follow()
        if not is_made(self.workspace):
            raise explain_absence(self.workspace)
        return self._corpus.read().mine

    def _tell_old(self) -> list[str]:
        """Describe the files that have changed since the tables were written, which may be ahead of the snapshot."""
        corpus = self._corpus.read()
        hidden = list_foreign(corpus.documents, self.workspace.settings.rag.tenant)
        version = f"tables {self.workspace.catalog.version}"
        return self._list_notes(self._changes.describe(version, corpus.revisions, hidden))

    def _list_notes(self, age: str | None) -> list[str]:
        notes = [describe_indexing(self.workspace), age]
        if error := self.workspace.follower.error:
            notes.append(
                f"this may be out of date, since no later snapshot can be had ({error.code}): {error}"
            )
        return list(filter(None, notes))


def _cut_chunk(row: Mapping[str, Any], index: int) -> Chunk:
    start, end = row["chunk_starts"][index], row["chunk_ends"][index]
    text = row["text"][start:end]
    return Chunk(document_id=row["document_id"], index=index, char_start=start, char_end=end, text=text)


def _describe(row: Mapping[str, Any], placed: PlacedText, start: int, end: int) -> Match:
    line, page = placed.line_of(start), placed.page_of(start)
    first, last = placed.bounds_of_line(line)
    before = max(first, min(start - _LINE_CHARACTERS // 3, last - _LINE_CHARACTERS))
    pages, lines = (page, placed.page_of(end - 1)), (line, placed.line_of(end - 1))
    return Match(
        **{name: row[name] for name in NamedDocument.model_fields},
        page=page,
        line=line,
        column=start - first + 1,
        char_start=start,
        char_end=end,
        match=placed.text[start : min(end, start + _MATCH_CHARACTERS)],
        text=placed.text[before : min(last, before + _LINE_CHARACTERS)],
        text_start=start - before,
        cite=cite(row["uri"], pages=pages, lines=lines, characters=(start, end)),
    )
