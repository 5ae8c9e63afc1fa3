"""A question or a longer text -> a context for a prompt, by the same steps that make the contexts of windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import polars as pl

from backstory.assessment import evaluate_retrieval
from backstory.calibration import find_threshold
from backstory.chunking.tokens import estimate_tokens
from backstory.chunking.units import split_sentences
from backstory.embeddings import embed_texts
from backstory.errors import InputError
from backstory.ids import digest
from backstory.library.results import ContextAnswer, ContextDocument, ContextPart
from backstory.library.snapshots import OpenSnapshot
from backstory.prompt_formats import FORMATS, ContextFormat, format_context
from backstory.retrieval import Retrieval, Retrieved
from backstory.window_chunks import cut_window_chunks

_LONGEST_QUESTION: Final = 300
"""Characters up to which a text is one question, and is not divided into parts."""


def make_context(
    snapshot: OpenSnapshot,
    text: str,
    *,
    max_tokens: int | None = None,
    form: ContextFormat = "blocks",
    top_k: int | None = None,
    as_of: datetime | None = None,
    notes: Sequence[str] = (),
) -> ContextAnswer:
    """Find the documents that serve a text, part by part, and write them as a context.

    A text of more than 300 characters, or of several paragraphs, is divided into its sentences, which are joined into
    query chunks as the messages of a window are.

    Args:
        snapshot: The open snapshot.
        text: The question or the text, not blank.
        max_tokens: Most tokens of the context; None for the setting ``context.max_tokens``.
        form: Format of the context.
        top_k: Most chunks in it; None for the setting ``rag.top_k``.
        as_of: Documents that were published after this time are hidden; None hides none.
        notes: What the answer says beside its own notes.

    Raises:
        InputError: The text is blank, or an argument is out of its range.
        ModelError: The reranker could not be used.
    """
    if not text.strip():
        raise InputError("the text is blank; give a question, or a text whose parts are to be covered")
    if form not in FORMATS:
        raise InputError(f"format {form!r} is not known; use one of {', '.join(FORMATS)}")
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"max_tokens {max_tokens} must be at least 1")
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k {top_k} must be at least 1")
    if as_of is not None and as_of.tzinfo is None:
        raise InputError(f"as_of {as_of} has no time zone; pass an aware time, such as UTC")
    workspace, index = snapshot.workspace, snapshot.index
    settings = workspace.located_settings
    rag = settings.rag.model_copy(
        update={"as_of": as_of is not None, "plan": "chunked", **({"top_k": top_k} if top_k else {})}
    )
    context = settings.context.model_copy(update={"max_tokens": max_tokens} if max_tokens else {})
    windows, chunks = _divide(snapshot, text, as_of)
    embedded = embed_texts(
        workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
    )
    retrieval = Retrieval(
        index=index,
        rag=rag,
        context=context,
        min_similarity=find_threshold(rag, workspace.embedder, index.calibration),
        reranker=workspace.reranker,
        rerank=settings.rerank,
        judgements=workspace.judgements,
    )
    retrieved = retrieval.run(windows, chunks, embedded.vectors)
    assessed = evaluate_retrieval(
        windows,
        chunks,
        retrieved.decisions,
        retrieved.contexts,
        terms_of=index.terms_of,
        min_similarity=retrieval.min_similarity,
        settings=rag,
        searchable=bool(index.rows),
        embedder_id=workspace.embedder.id,
        known_languages=workspace.embedder.languages,
    ).row(0, named=True)
    rows = retrieved.contexts.to_dicts()
    written = format_context(rows, context, form)
    documents = _list_documents(retrieved, chunks)
    return ContextAnswer(
        query=text,
        text=written,
        format=form,
        tokens=int(estimate_tokens([written])[0]) if written else 0,
        max_tokens=context.max_tokens,
        parts=tuple(
            ContextPart(
                part=number,
                text=part,
                citations=tuple(each.citation for each in documents if number in each.serves),
            )
            for number, part in enumerate(chunks["text"], start=1)
        ),
        documents=documents,
        verdict=assessed["verdict"],
        confidence=assessed["confidence"],
        recommendation=assessed["recommendation"],
        index_version=index.version,
        notes=(*notes, *filter(None, [snapshot.served.degraded])),
    )


def _divide(snapshot: OpenSnapshot, text: str, as_of: datetime | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the tables ``windows`` and ``window_chunks`` of one text, whose sentences are its messages."""
    workspace = snapshot.workspace
    is_question = len(text) <= _LONGEST_QUESTION and "\n\n" not in text.strip()
    parts = [text] if is_question else _split(text)
    window_id = digest([text], length=16)
    ids = [f"{window_id}-{number}" for number in range(len(parts))]
    moment = as_of or datetime.now(UTC)
    windows = pl.DataFrame(
        {
            "window_id": [window_id],
            "conversation_id": ["question"],
            "started_at": [moment],
            "ended_at": [moment],
            "message_count": [len(parts)],
            "message_ids": [ids],
        }
    )
    messages = pl.DataFrame({"message_id": ids, "text": parts, "kind": ["message"] * len(parts)})
    chunks = cut_window_chunks(
        windows,
        messages,
        workspace.settings.queries.model_copy(update={"granularities": (1,)}),
        max_tokens=workspace.embedder.max_input_tokens,
        count_tokens=workspace.embedder.count_tokens,
        default_min_tokens=workspace.embedder.default_query_tokens,
    )
    if chunks.is_empty():
        raise InputError("the text holds no visible character; give a question in words")
    return windows, chunks


def _split(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, 0, len(text)) if text[start:end].strip()]


def _list_documents(retrieved: Retrieved, chunks: pl.DataFrame) -> tuple[ContextDocument, ...]:
    """List the cited documents with the numbers of the parts that each serves."""
    numbers = {chunk_id: number for number, chunk_id in enumerate(chunks["chunk_id"], start=1)}
    found: dict[int, ContextDocument] = {}
    for row in retrieved.contexts.iter_rows(named=True):
        parts = {numbers[asked] for asked in row["matched_query_chunks"] if asked in numbers}
        known = found.get(row["citation"])
        found[row["citation"]] = ContextDocument(
            citation=row["citation"],
            document_id=row["document_id"],
            uri=row["uri"],
            title=row["title"],
            date=row["published_at"],
            similarity=max(row["similarity"], known.similarity if known else -1.0),
            serves=tuple(sorted(parts | set(known.serves if known else ()))),
        )
    return tuple(found[citation] for citation in sorted(found))
