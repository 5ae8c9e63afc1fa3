"""The documents of the tables: the searched ones with their texts, and the files that were not read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.ingest.documents.files import is_of_source, list_foreign, name_source
from backstory.ingest.sources.listing import make_locator
from backstory.interfaces.library.names import (
    ADDED_FOLDER,
    DocumentNames,
    PlacedText,
    find_document,
    name_documents,
)
from backstory.interfaces.library.results import (
    FileOutcome,
)
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import DocumentEntry
from backstory.storage.tables.tables import Tables

_OF_ENTRIES: Final = ("document_id", "uri", "title", "slug", "kind", "tenant", "revision", "chunks")
_TABLES: Final = ("documents", "document_chunks", "sources")


@dataclass(frozen=True)
class Corpus:
    """The tables of the documents at one moment.

    ``documents`` are the rows that are searched, by uri, with the number of their ``chunks``, and of each chunk the
    first character and the one after its last. ``sources`` are the files of the documents. ``hidden`` are the files of
    other tenants, as the table ``sources`` names them; no answer mentions them.
    """

    workspace: Workspace
    documents: pl.DataFrame
    sources: pl.DataFrame
    hidden: frozenset[str] = frozenset()

    @cached_property
    def revisions(self) -> dict[str, str]:
        """The revision of each document by its uri."""
        return dict(self.documents.select("uri", "revision").iter_rows())

    @cached_property
    def named(self) -> dict[str, DocumentNames]:
        """The documents by all their names, by document id."""
        return {one.document_id: one for one in name_documents(self.workspace, self.documents)}

    def find(self, name: str) -> dict[str, Any]:
        """Return the row of the one document of a name."""
        try:
            found = find_document([*self.named.values()], name)
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
        paths = [locate_file(source) if is_of_source(source) else root / source for source in told]
        names = [DocumentNames("", source, "", "", path) for source, path in zip(told, paths, strict=True)]
        try:
            source = find_document(names, name).uri
        except InputError as error:
            if error.code == "unknown_document":
                return
            raise
        what = (
            f"{source} was not read by the last run {told[source]}. Once that is settled, run `backstory add`"
        )
        raise InputError(what, code="unread_document")

    def describe(self, row: dict[str, Any]) -> DocumentEntry:
        """Describe the document of a row."""
        path = self.named[row["document_id"]].path
        size = None
        with suppress(OSError):
            size = path.stat().st_size
        return DocumentEntry(
            path=str(path),
            date=row["published_at"],
            tags=tuple(row["tags"]),
            characters=len(row["text"]),
            words=len(row["text"].split()),
            pages=place_text(row).pages,
            recognised_pages=sum(each is not None for each in row.get("confidences") or ()),
            size=size,
            added=row["uri"].startswith(f"{ADDED_FOLDER}/"),
            note=self._notes.get(name_source(self.workspace.settings.documents.folder, row["uri"])),
            **{name: row[name] for name in _OF_ENTRIES},
        )

    def list_unread(self) -> list[FileOutcome]:
        """List the files that were not read, with the reasons."""
        unread = self.sources.filter(pl.col("status") != "read").select("source", "status", "reason")
        return [
            FileOutcome(path=source, status="skipped" if status != "failed" else "failed", reason=reason)
            for source, status, reason in unread.iter_rows()
        ]

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
    chunks = tables.read("document_chunks").sort("document_id", "chunk_index").group_by("document_id")
    cut = chunks.agg(chunks=pl.len(), chunk_starts="char_start", chunk_ends="char_end")
    read = tables.read("documents").filter(status="ok").join(cut, on="document_id", how="left").sort("uri")
    documents = workspace.date_locally(read.with_columns(pl.col("chunks").fill_null(0)))
    sources = tables.read("sources").filter(folder="documents").sort("source")
    return Corpus(workspace, documents, sources)
