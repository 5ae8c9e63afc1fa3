"""The documents of the tables: the searched ones with their texts, and the files that were not read."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.base.ids import document_id_of
from backstory.base.sandbox import ReadingLimits
from backstory.ingest.documents.files import list_foreign
from backstory.ingest.documents.written import is_of_source, name_source
from backstory.interfaces.library.freshness import Found
from backstory.interfaces.library.names import (
    ADDED_FOLDER,
    DocumentNames,
    PlacedText,
    find_document,
    make_locator,
    name_documents,
    resolve_path,
)
from backstory.interfaces.library.results import (
    Chunk,
    DocumentEntry,
    DocumentList,
    DocumentText,
    Dump,
    FileOutcome,
    FileState,
)
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE, Tables

_OF_FILES: Final = ("title", "kind", "format", "date_origin", "size", "revision")
_TABLES: Final = ("documents", "document_chunks", "sources")


@dataclass(frozen=True)
class Corpus:
    """The tables of the documents at one moment.

    ``documents`` are the rows that are searched, by uri; ``chunk_spans`` are the first character of each chunk and the
    one after its last, by document id. ``sources`` are the files of the documents.
    ``hidden`` are the files of other tenants, as the table ``sources`` names them; no answer mentions them.
    """

    workspace: Workspace
    version: str
    documents: pl.DataFrame
    sources: pl.DataFrame
    chunk_spans: dict[str, list[tuple[int, int]]]
    hidden: frozenset[str] = frozenset()

    @cached_property
    def revisions(self) -> dict[str, str]:
        """The revision of each document by its uri."""
        return dict(self.documents.select("uri", "revision").iter_rows())

    @cached_property
    def chunk_counts(self) -> dict[str, int]:
        """The number of chunks of each document, by document id."""
        return {each: len(self.chunk_spans.get(each, ())) for each in self.documents["document_id"]}

    @cached_property
    def named(self) -> list[DocumentNames]:
        """The documents by all their names."""
        return name_documents(self.workspace, self.documents)

    @cached_property
    def paths(self) -> dict[str, Path]:
        """The file of each document, by document id."""
        return {document.document_id: document.path for document in self.named}

    def find(self, name: str) -> dict[str, Any]:
        """Return the row of the one document of a name."""
        try:
            found = find_document(self.named, name)
        except InputError as error:
            if error.code == "unknown_document":
                self._require_read(name)
            raise
        return self.documents.row(by_predicate=pl.col("document_id") == found.document_id, named=True)

    def _require_read(self, name: str) -> None:
        """Raise if a name is that of a file that was not read."""
        root, locate_file = self.workspace.root, make_locator(self.workspace)
        unread = self.sources.filter(pl.col("status") != "read").select("source", "status", "reason")
        told = {source: f"({status}): {reason}" for source, status, reason in unread.iter_rows()}
        paths = {source: locate_file(source) if is_of_source(source) else root / source for source in told}
        try:
            source = find_document(
                [DocumentNames("", source, "", "", path) for source, path in paths.items()], name
            ).uri
        except InputError as error:
            if error.code == "unknown_document":
                return
            raise
        raise InputError(
            f"{source} is no document, since the last run did not read it {told[source]}. Once that is settled, "
            "run `backstory run`, or `backstory add` without chats",
            code="unread_document",
        )

    def describe(self, row: dict[str, Any]) -> DocumentEntry:
        """Describe the document of a row."""
        path = self.paths[row["document_id"]]
        try:
            size: int | None = path.stat().st_size
        except OSError:
            size = None
        return DocumentEntry(
            path=str(path),
            date=row["published_at"],
            tags=tuple(row["tags"]),
            characters=len(row["text"]),
            words=len(row["text"].split()),
            pages=place_text(row).pages,
            recognised_pages=sum(each is not None for each in row.get("confidences") or ()),
            chunks=self.chunk_counts.get(row["document_id"], 0),
            size=size,
            added=row["uri"].startswith(f"{ADDED_FOLDER}/"),
            note=self._notes.get(name_source(self.workspace.settings.documents.folder, row["uri"])),
            **{
                name: row[name]
                for name in ("document_id", "uri", "title", "slug", "kind", "tenant", "revision")
            },
        )

    def list_all(self) -> DocumentList:
        """List every document that is searched, and every file that was not read."""
        entries = tuple(self.describe(row) for row in self.documents.iter_rows(named=True))
        return DocumentList(
            documents=entries,
            count=len(entries),
            chunks=sum(entry.chunks for entry in entries),
            unread=tuple(self.list_unread()),
        )

    def list_unread(self) -> list[FileOutcome]:
        """List the files that were not read, with the reasons."""
        unread = self.sources.filter(pl.col("status") != "read").select("source", "status", "reason")
        return [
            FileOutcome(path=source, status="skipped" if status != "failed" else "failed", reason=reason)
            for source, status, reason in unread.iter_rows()
        ]

    def list_files(self, found: Mapping[str, Found]) -> list[FileState]:
        """List files of which the state was found, by uri, but those of other tenants; also where none was read yet."""
        rows = {row["uri"]: row for row in self.documents.iter_rows(named=True)}
        folder = self.workspace.settings.documents.folder
        states = []
        for uri, (state, reason) in sorted(found.items()):
            row, name = rows.get(uri), name_source(folder, uri)
            if name in self.hidden or (row is None and state == "removed"):
                continue
            known: dict[str, Any] = {}
            if row is not None:
                known = {field: row[field] for field in _OF_FILES}
                known["date"] = row["published_at"]
                known["chunks"] = self.chunk_counts[row["document_id"]]
                known["pages"] = place_text(row).pages
            known |= {"document_id": document_id_of(uri), "uri": uri, "name": name}
            states.append(FileState(state=state, reason=reason, **known))
        return states

    def read(self, name: str, pages: tuple[int, int] | None) -> DocumentText:
        """Read a document, or some of its pages."""
        row = self.find(name)
        placed = place_text(row)
        start, end = (0, len(placed.text)) if pages is None else placed.bounds_of_pages(*pages)
        whole = None if placed.pages is None else (1, placed.pages)
        shown = pages or whole
        return DocumentText(
            document=self.describe(row),
            text=placed.text[start:end],
            page_start=shown[0] if shown else None,
            page_end=shown[1] if shown else None,
            char_start=start,
            char_end=end,
        )

    def find_chunk(self, name: str) -> Chunk:
        """Return a chunk."""
        row = self.find(name)
        stated = re.split(r"[#:]", name)[-1]
        count = self.chunk_counts[row["document_id"]]
        if not stated.isdecimal() or int(stated) >= count:
            raise InputError(
                f"{name!r} is no chunk of {row['uri']}, which has {count}, counted from 0",
                code="unknown_chunk",
            )
        return self._cut_chunk(row, int(stated))

    def find_chunk_at(self, name: str, character: int) -> Chunk | None:
        """Return the first chunk that holds a character of a document; None if no chunk does."""
        row = self.find(name)
        for index, (start, end) in enumerate(self.chunk_spans.get(row["document_id"], ())):
            if start <= character < end:
                return self._cut_chunk(row, index)
        return None

    def _cut_chunk(self, row: Mapping[str, Any], index: int) -> Chunk:
        document_id = row["document_id"]
        start, end = self.chunk_spans[document_id][index]
        text = row["text"][start:end]
        return Chunk(document_id=document_id, index=index, char_start=start, char_end=end, text=text)

    @cached_property
    def mine(self) -> Corpus:
        """The documents of the tenant that the setting ``rag.tenant`` names; without one, all of them."""
        settings = self.workspace.settings
        tenant = settings.rag.tenant
        if tenant is None:
            return self
        foreign = list_foreign(self.documents, tenant)
        hidden = frozenset(name_source(settings.documents.folder, uri) for uri in foreign)
        sources = self.sources.filter(~pl.col("source").is_in(list(hidden)))
        return replace(self, documents=self.documents.filter(tenant=tenant), sources=sources, hidden=hidden)

    def draw_page(self, name: str, page: int) -> bytes:
        """Draw a page of a document; see :meth:`backstory.interfaces.library.library.Library.page_picture`."""
        from backstory.ingest.documents.pages import PDF, draw_page

        row = self.find(name)
        uri, pages = row["uri"], len(row["page_starts"] or ())
        if row["format"] != PDF.name or not 1 <= page <= pages:
            raise InputError(
                f"{uri} has no picture of a page {page}; only pages of PDF files are drawn, and it has {pages}",
                code="unknown_page",
            )
        settings = self.workspace.settings.documents
        file = next((each for each in self.workspace.list_documents().files if each.uri == uri), None)
        limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
        content = b"" if file is None else file.read(most_bytes=limits.most_bytes)
        if hashlib.sha256(content).hexdigest() != row["content_hash"]:
            raise InputError(
                f"{uri} has changed since it was indexed, so its pages may be others; index again",
                code="changed_document",
            )
        return draw_page(content, page, settings)

    @cached_property
    def _notes(self) -> dict[str, str]:
        explained = self.sources.filter(pl.col("reason").is_not_null()).select("source", "reason")
        return dict(explained.iter_rows())


class CorpusReader:
    """Reads the tables of the documents, and rereads them after a run has written them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._state: Sequence[object] = ()
        self._corpus: Corpus | None = None

    def read(self) -> Corpus:
        """Return the documents as the tables have them now; none where the tables were never made."""
        with self._lock:
            tables = self._workspace.tables.pin()
            state = [tables.entries(table) for table in _TABLES]
            if self._corpus is None or state != self._state:
                self._corpus, self._state = _read_corpus(self._workspace, tables), state
            return self._corpus


def place_text(row: dict[str, Any]) -> PlacedText:
    """Return the text of a row of the table ``documents`` with its pages."""
    return PlacedText(row["text"], tuple(row.get("page_starts") or ()))


def _read_corpus(workspace: Workspace, tables: Tables) -> Corpus:
    documents = workspace.date_locally(tables.read("documents").filter(status="ok").sort("uri"))
    chunks = tables.read("document_chunks").sort("document_id", "chunk_index")
    spans: dict[str, list[tuple[int, int]]] = {}
    for document_id, start, end in chunks.select("document_id", "char_start", "char_end").iter_rows():
        spans.setdefault(document_id, []).append((start, end))
    sources = tables.read("sources").filter(folder="documents").sort("source")
    entry = tables.entries("documents").get(WHOLE)
    return Corpus(workspace, "" if entry is None else entry.content, documents, sources, spans)


def dump_text(
    document: DocumentText, path: Path, *, roots: Sequence[Path] = (), replace: bool = False
) -> Dump:
    """Write the text of a document into a file, and return what was written."""
    target = resolve_path(path)
    if roots and not any(target.is_relative_to(root.resolve()) for root in roots):
        raise InputError(
            f"{target} lies outside of {', '.join(str(root.resolve()) for root in roots)}; name a file inside of it"
        )
    if target == Path(document.document.path).resolve():
        raise InputError(f"{target} is the document itself; name another file")
    if target.exists() and (not replace or not target.is_file()):
        raise InputError(f"{target} already exists; name another file, or allow it to be replaced")
    try:
        write_file(target, document.text.encode())
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror}); name another file") from error
    return Dump(
        document=document.document,
        output_path=str(target),
        characters=len(document.text),
        pages=document.document.pages,
    )
