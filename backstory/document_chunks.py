"""Cutting documents into the chunks that are stored, embedded and searched."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from backstory.chunking.cut import Span, cut_chunks
from backstory.chunking.outline import outline_markdown
from backstory.chunking.tokens import CountTokens
from backstory.errors import InputError
from backstory.ids import digest, document_chunk_id
from backstory.settings import ChunkSettings
from backstory.tables import schemas
from backstory.tables.contracts import conform, empty, polars_schema

logger = logging.getLogger(__name__)

_CHUNKER = "paragraph"
_REVISION_OF_CHUNKER = "2"
_TITLE_BYTES = 96
_HEADING_BYTES = 160
_LEAST_TEXT_TOKENS = 8


def cut_document_chunks(
    documents: pl.DataFrame,
    settings: ChunkSettings,
    *,
    max_tokens: int,
    count_tokens: CountTokens,
    counter_id: str,
    previous: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Cut documents so that each chunk, with its title and headings, fits into the embedder.

    Args:
        documents: Table :class:`~backstory.tables.schemas.Documents`; only rows of status ``ok`` are cut.
        settings: Ceiling and overlap, in tokens.
        max_tokens: The embedder's maximum input; the smaller of it and the setting is the ceiling.
        count_tokens: Counts many texts at once, special tokens included.
        counter_id: Id of the tokenizer; if it changed, all documents are cut again.
        previous: The table of the last run; chunks of revisions that were cut in the same way are reused.

    Returns:
        Table :class:`~backstory.tables.schemas.DocumentChunks`, in the order of the documents. ``token_count`` counts
        ``text`` alone. The text that :func:`embedding_texts` builds for a row never exceeds the ceiling.
        ``heading`` is empty for a document whose title and headings would take half of the ceiling.

    Raises:
        InputError: The title of a document leaves no room for text below the ceiling.
    """
    started = time.perf_counter()
    ceiling = min(settings.max_tokens, max_tokens)
    overlap = min(settings.overlap_tokens, ceiling - 1)
    method = _name_method(ceiling, overlap, counter_id)
    current = documents.filter(pl.col("status") == "ok").select("document_id", "revision", "title", "text")
    kept = _take_over(previous, current, method)
    cut = current.join(kept, on=["document_id", "revision"], how="anti", maintain_order="left")
    sources = [_Source(*row) for row in cut.iter_rows()]
    spans = _cut_sources(sources, ceiling, overlap, count_tokens) if sources else []
    chunks = pl.concat([kept, _make_rows(sources, spans, method)])
    order = current.select("document_id", "revision").with_row_index("document")
    table = (
        chunks.join(order, on=["document_id", "revision"], how="left", maintain_order="left")
        .sort("document", "chunk_index")
        .drop("document")
    )
    logger.info(
        "documents cut into chunks",
        extra={
            "documents": current.height,
            "documents_cut": len(sources),
            "chunks": table.height,
            "seconds": round(time.perf_counter() - started, 3),
        },
    )
    return table


def embedding_texts(chunks: pl.DataFrame, documents: pl.DataFrame) -> list[str]:
    """Build the texts to embed for chunks: title, headings, an empty line, text.

    A heading that repeats the title is omitted. The last heading is omitted if the text begins with it.

    Args:
        chunks: Table :class:`~backstory.tables.schemas.DocumentChunks`.
        documents: Table :class:`~backstory.tables.schemas.Documents` with the revisions of the chunks.

    Returns:
        One text per chunk, in their order.

    Raises:
        InputError: A chunk's document is not in the table.
    """
    titled = chunks.select("document_id", "revision", "heading", "text").join(
        documents.select("document_id", "revision", "title"),
        on=["document_id", "revision"],
        how="left",
        maintain_order="left",
    )
    absent = titled.filter(pl.col("title").is_null())
    if absent.height:
        raise InputError(
            f"{absent.height} chunks belong to no row of documents, for example of document "
            f"{absent['document_id'][0]}; materialize document_chunks again"
        )
    rows = titled.select("title", "heading", "text").iter_rows()
    return [_introduce(title, heading, text) + text for title, heading, text in rows]


@dataclass(frozen=True)
class _Source:
    document_id: str
    revision: str
    title: str
    text: str


def _name_method(ceiling: int, overlap: int, counter_id: str) -> str:
    parts = [
        _REVISION_OF_CHUNKER,
        str(ceiling),
        str(overlap),
        str(_TITLE_BYTES),
        str(_HEADING_BYTES),
        counter_id,
    ]
    return f"{_CHUNKER}-{digest(parts, length=8)}"


def _take_over(previous: pl.DataFrame | None, current: pl.DataFrame, method: str) -> pl.DataFrame:
    if previous is None:
        return empty(schemas.DocumentChunks)
    return (
        conform(previous, schemas.DocumentChunks)
        .filter(pl.col("chunk_id").str.contains(f"#m:{method}#c:", literal=True))
        .join(current, on=["document_id", "revision"], how="semi", maintain_order="left")
    )


def _cut_sources(
    sources: Sequence[_Source], ceiling: int, overlap: int, count_tokens: CountTokens
) -> list[list[Span]]:
    """Cut every text with room for its longest title and headings; retry with smaller chunks where it is too little."""
    with_headings, rooms = _measure_rooms(sources, ceiling, count_tokens)
    spans: list[list[Span]] = [[] for _ in sources]
    pending = list(range(len(sources)))
    while pending:
        for number in pending:
            _check_room(sources[number], rooms[number], ceiling)
        found = cut_chunks(
            [sources[number].text for number in pending],
            max_tokens=[rooms[number] for number in pending],
            overlap_tokens=overlap,
            count_tokens=count_tokens,
        )
        for number, cut in zip(pending, found, strict=True):
            spans[number] = [
                Span(
                    s.start,
                    s.end,
                    s.token_count,
                    _shorten(s.heading, _HEADING_BYTES, " > ") if number in with_headings else "",
                )
                for s in cut
            ]
        owners = [number for number in pending for _ in spans[number]]
        embedded = [
            _introduce(sources[number].title, span.heading, text) + text
            for number in pending
            for span in spans[number]
            for text in (sources[number].text[span.start : span.end],)
        ]
        excess = np.zeros(len(sources), np.int64)
        if embedded:
            np.maximum.at(excess, owners, count_tokens(embedded) - ceiling)
        pending = np.flatnonzero(excess > 0).tolist()
        for number in pending:
            rooms[number] -= int(excess[number])
    return spans


def _measure_rooms(
    sources: Sequence[_Source], ceiling: int, count_tokens: CountTokens
) -> tuple[set[int], list[int]]:
    """Compute which documents have room for headings, and the maximum tokens per slice of each."""
    titles = [_introduce(source.title, "", "") for source in sources]
    owners, introductions = [], []
    for number, source in enumerate(sources):
        headings = {
            _shorten(path, _HEADING_BYTES, " > ") for path in outline_markdown(source.text).heading_paths()
        }
        owners += [number] * len(headings)
        introductions += [_introduce(source.title, heading, "") for heading in sorted(headings)]
    counts = count_tokens([*titles, *introductions, ""])
    specials = int(counts[-1])
    plain = counts[: len(titles)]
    longest = plain.copy()
    np.maximum.at(longest, owners, counts[len(titles) : -1])
    with_headings = longest <= ceiling // 2
    needed = np.where(with_headings, longest, plain) - specials
    return set(np.flatnonzero(with_headings).tolist()), (ceiling - needed).tolist()


def _check_room(source: _Source, room: int, ceiling: int) -> None:
    if room < _LEAST_TEXT_TOKENS:
        title = _shorten(source.title, _TITLE_BYTES, " ")
        raise InputError(
            f"document {source.document_id} ({title!r}): beside its title a chunk of {ceiling} tokens has room "
            f"for {max(room, 0)} of text; raise chunks.max_tokens or shorten the title"
        )


def _make_rows(sources: Sequence[_Source], spans: Sequence[list[Span]], method: str) -> pl.DataFrame:
    rows = [
        (
            document_chunk_id(source.document_id, source.revision, None, method, index),
            source.document_id,
            source.revision,
            index,
            None,
            None,
            span.start,
            span.end,
            span.heading,
            source.text[span.start : span.end],
            span.token_count,
        )
        for source, cut in zip(sources, spans, strict=True)
        for index, span in enumerate(cut)
    ]
    return pl.DataFrame(rows, schema=polars_schema(schemas.DocumentChunks), orient="row")


def _introduce(title: str, heading: str, text: str) -> str:
    name = _shorten(" ".join(title.split()), _TITLE_BYTES, " ")
    headings = heading.split(" > ") if heading else []
    if headings and headings[0] == " ".join(title.split()):
        headings = headings[1:]
    first_line = text.lstrip("# ").split("\n", 1)[0].rstrip("# \r") if text.lstrip().startswith("#") else ""
    if headings and headings[-1] == first_line:
        headings = headings[:-1]
    lines = [line for line in (name, " > ".join(headings)) if line]
    return "\n".join(lines) + "\n\n" if lines else ""


def _shorten(text: str, limit: int, separator: str) -> str:
    """Truncate a text to a number of UTF-8 bytes, after the last separator that fits if there is one.

    The limit is in bytes, since no tokenizer with an ordinary vocabulary produces more tokens than bytes.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= limit:
        return text
    fitting = encoded[:limit].decode("utf-8", "ignore")
    return fitting.rpartition(separator)[0] or fitting
