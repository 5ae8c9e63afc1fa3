"""Cutting documents into the chunks that are stored, embedded and searched."""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest, document_chunk_id
from backstory.settings.inputs import ChunkSettings
from backstory.storage.tables.contracts import conform, empty
from backstory.storage.tables.schemas import DocumentChunks
from backstory.text.chunking.cut import Chunker, Span, TitledText, choose_chunker, cut_titled_texts, introduce
from backstory.text.chunking.units import Pages, TokenCounter

logger = logging.getLogger(__name__)

_REVISION_OF_CUTTING = "5"
"""Increase this when documents are cut in another way."""
_RECOGNISED: Final = "ocr"
"""Method in the id of a chunk with text that was recognised in an image."""
_KEY: Final = ("document_id", "revision")
_READ: Final = ("title", "text", "format", "page_starts", "confidences", "chunker")


@dataclass(frozen=True)
class _Source:
    """A revision to cut, with a hash of all that decides its chunks."""

    document_id: str
    revision: str
    titled: TitledText
    fingerprint: str


def cut_document_chunks(
    documents: pl.DataFrame,
    settings: ChunkSettings,
    *,
    max_tokens: int,
    counter: TokenCounter,
    counter_id: str,
    previous: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Cut the documents of status ``ok`` into table ``document_chunks``, in the order of the documents.

    What :func:`embedding_texts` makes of a chunk never exceeds ``max_tokens``, as the tokenizer ``counter_id`` counts.
    ``heading`` is empty for a document whose title and headings would take half of that. Chunks of ``previous`` are
    reused where the revision was cut in the same way.
    """
    current = documents.filter(pl.col("status") == "ok").select(*_KEY, *_READ)
    names = [
        settings.chunkers.get(file_format, stated)
        for file_format, stated in current.select("format", "chunker").iter_rows()
    ]
    chunkers = {name: choose_chunker(name, settings, max_tokens=max_tokens) for name in set(names)}
    sources = [
        _name_source(row, chunkers[name], counter_id)
        for name, row in zip(names, current.iter_rows(named=True), strict=True)
    ]
    reused = _take_over(previous, sources)
    known = set(reused.select(_KEY).unique().iter_rows())
    pending = [source for source in sources if (source.document_id, source.revision) not in known]
    spans = cut_titled_texts([source.titled for source in pending], counter) if pending else []
    rows = [row for source, cut in zip(pending, spans, strict=True) for row in _describe_chunks(source, cut)]
    chunks = pl.concat([reused, pl.DataFrame(rows, schema=DocumentChunks.schema, orient="row")])
    order = current.select(_KEY).with_row_index("document")
    table = (
        chunks.join(order, on=_KEY, how="left", maintain_order="left")
        .sort("document", "chunk_index")
        .drop("document")
    )
    figures = {"documents": current.height, "documents_cut": len(pending), "chunks": table.height}
    logger.info("documents cut into chunks", extra=figures)
    return table


def embedding_texts(chunks: pl.DataFrame, documents: pl.DataFrame) -> list[str]:
    """Build the texts to embed for chunks: title, headings, an empty line, text.

    A heading that repeats the title is omitted. The last heading is omitted if the text begins with it.
    """
    titled = chunks.select("document_id", "revision", "heading", "text").join(
        documents.select("document_id", "revision", "title"),
        on=["document_id", "revision"],
        how="left",
        maintain_order="left",
    )
    absent = titled.filter(pl.col("title").is_null())["document_id"]
    if len(absent):
        message = (
            f"{len(absent)} chunks belong to no row of documents, for example of document {absent[0]}; "
            "materialize document_chunks again"
        )
        raise InputError(message, code="unknown_document")
    rows = titled.select("title", "heading", "text").iter_rows()
    return [introduce(title, heading, text) + text for title, heading, text in rows]


def _name_source(row: Mapping[str, Any], chunker: Chunker, counter_id: str) -> _Source:
    """Gather what the chunks of a document depend on, and name it by a hash.

    A revision is named after the bytes of its file, of which another version of a reader may make another text.
    """
    document_id, title, text, pages = (row[name] for name in ("document_id", "title", "text", "page_starts"))
    parts = [
        *(_REVISION_OF_CUTTING, chunker.fingerprint, counter_id),
        *(title, text, json.dumps([pages, row["confidences"]])),
    ]
    titled = TitledText(document_id, title, text, Pages(pages, row["confidences"]), chunker)
    return _Source(document_id, row["revision"], titled, digest(parts, length=8))


def _take_over(previous: pl.DataFrame | None, sources: Sequence[_Source]) -> pl.DataFrame:
    if previous is None:
        return empty(DocumentChunks)
    wanted = pl.DataFrame(
        [(source.document_id, source.revision, source.fingerprint) for source in sources],
        schema=dict.fromkeys([*_KEY, "fingerprint"], pl.String),
        orient="row",
    )
    return (
        conform(previous, DocumentChunks)
        .with_columns(fingerprint=pl.col("chunk_id").str.extract("#m:[a-z]+-([0-9a-f]+)#c:[0-9]+$"))
        .join(wanted, on=[*_KEY, "fingerprint"], how="semi", maintain_order="left")
        .drop("fingerprint")
    )


def _describe_chunks(source: _Source, spans: Sequence[Span]) -> Iterator[tuple[object, ...]]:
    text, pages = source.titled.text, source.titled.pages
    line_ends = [match.start() for match in re.finditer("\n", text)]
    for index, span in enumerate(spans):
        first, last = pages.find(span.start, span.end) or (None, None)
        confidence = None if first is None or last is None else pages.find_confidence(first, last)
        method = source.titled.chunker.name if confidence is None else _RECOGNISED
        named = f"{method}-{source.fingerprint}"
        yield (
            document_chunk_id(source.document_id, source.revision, first, named, index),
            source.document_id,
            source.revision,
            index,
            first,
            last,
            1 + bisect_left(line_ends, span.start),
            1 + bisect_left(line_ends, span.end - 1),
            span.start,
            span.end,
            span.heading,
            confidence,
            text[span.start : span.end],
            span.token_count,
        )
