"""The entry point of the original design: from one conversation to one context, or to the reason why there is none."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from returns.result import Failure, Result, Success, safe

from backstory.base.telemetry import log_event
from backstory.interfaces.original.chunking import chunk_markdown
from backstory.interfaces.original.consolidation import consolidate_messages_to_markdown
from backstory.interfaces.original.deduplication import deduplicate_by_document
from backstory.interfaces.original.embedders import resolve_embedder
from backstory.interfaces.original.per_chunk import query_rag_per_chunk
from backstory.interfaces.original.vector_store import VectorStore
from backstory.models.embeddings.protocol import Embedder
from backstory.settings.models import ContextSettings, RAGSettings
from backstory.text.prompts.entries import format_markdown

if TYPE_CHECKING:
    from google import genai

logger = logging.getLogger(__name__)

CHUNKS_FILE = "chunks.parquet"
_ORIGINAL = RAGSettings()
_ORIGINAL_MAX_TOKENS = 1800
_ORIGINAL_OVERLAP_TOKENS = 150


@dataclass(frozen=True)
class RagContext:
    """The context of one conversation.

    Attributes:
        text: The block for the prompt.
        records: The chosen results, best first.
    """

    text: str
    records: list[dict[str, Any]]


@dataclass(frozen=True)
class RagErrorReason:
    """Why there is no context.

    Two reasons are equal if their codes are equal, whatever their causes: compare with
    ``RagErrorReason.NO_HITS`` and ``RagErrorReason.SYSTEM_ERROR``.

    Attributes:
        code: ``no_hits`` or ``system_error``.
        cause: The exception behind a system error.
    """

    code: Literal["no_hits", "system_error"]
    cause: Exception | None = field(default=None, compare=False)

    NO_HITS: ClassVar[RagErrorReason]
    SYSTEM_ERROR: ClassVar[RagErrorReason]


RagErrorReason.NO_HITS = RagErrorReason("no_hits")
RagErrorReason.SYSTEM_ERROR = RagErrorReason("system_error")


@overload
def query_rag_for_context(
    table: Any,
    client: genai.Client | None,
    rag_dir: Path,
    *,
    embedding_model: str | Embedder,
    retrieval_mode: Literal["ann", "exact"] = ...,
    retrieval_nprobe: int | None = ...,
    retrieval_overfetch: int | None = ...,
    return_records: Literal[False] = ...,
) -> Result[RagContext, RagErrorReason]: ...


@overload
def query_rag_for_context(
    table: Any,
    client: genai.Client | None,
    rag_dir: Path,
    *,
    embedding_model: str | Embedder,
    retrieval_mode: Literal["ann", "exact"] = ...,
    retrieval_nprobe: int | None = ...,
    retrieval_overfetch: int | None = ...,
    return_records: Literal[True],
) -> tuple[str, list[dict[str, Any]]]: ...


def query_rag_for_context(
    table: Any,
    client: genai.Client | None,
    rag_dir: Path,
    *,
    embedding_model: str | Embedder,
    retrieval_mode: Literal["ann", "exact"] = "ann",
    retrieval_nprobe: int | None = None,
    retrieval_overfetch: int | None = None,
    return_records: bool = False,
) -> Result[RagContext, RagErrorReason] | tuple[str, list[dict[str, Any]]]:
    """Find the context of one conversation by the original design, with its defaults.

    Messages become Markdown, Markdown becomes chunks of at most 1,800 tokens (less where the model takes less),
    each chunk finds 5 results above a similarity of 0.7 (for models other than Gemini, above the embedder's own
    threshold), one result per document counts, and the best 5 make the context.

    Args:
        table: Messages as Arrow, Polars, Ibis or mappings, with ``timestamp``, ``author`` and ``message``.
        client: A google-genai client for Gemini models; None makes one from the environment's key.
        rag_dir: Folder with a ``chunks.parquet`` of the original design, or with published snapshots of Backstory.
        embedding_model: Name of the model, such as ``google-gla:gemini-embedding-001`` or ``local``, or an
            embedder.
        retrieval_mode: ``ann`` allows approximation, ``exact`` does not.
        retrieval_nprobe: Accepted for compatibility; mapped to the HNSW index's ``ef_search``.
        retrieval_overfetch: Factor by which an approximate search takes more candidates than the results.
        return_records: Return the text and the records instead of a result.

    Returns:
        ``Success(RagContext)``; ``Failure(RagErrorReason.NO_HITS)`` if nothing is found;
        ``Failure(RagErrorReason.SYSTEM_ERROR)`` with its ``cause`` if an error occurs. With
        ``return_records``, the text and the records, both empty if nothing is found.

    Raises:
        Exception: With ``return_records``, any error: an error is never returned as an empty answer.
    """

    def answer() -> RagContext | None:
        return _find_context(
            table, client, rag_dir, embedding_model, retrieval_mode, retrieval_nprobe, retrieval_overfetch
        )

    if return_records:
        context = answer()
        return (context.text, context.records) if context else ("", [])
    outcome = safe(answer)()
    if isinstance(outcome, Failure):
        cause = outcome.failure()
        log_event(logger, "rag query failed", level=logging.ERROR, error=type(cause).__name__, exc_info=cause)
        return Failure(RagErrorReason("system_error", cause))
    found = outcome.unwrap()
    return Success(found) if found else Failure(RagErrorReason.NO_HITS)


def _find_context(
    table: Any,
    client: genai.Client | None,
    rag_dir: Path,
    embedding_model: str | Embedder,
    mode: Literal["ann", "exact"],
    nprobe: int | None,
    overfetch: int | None,
) -> RagContext | None:
    embedder = resolve_embedder(embedding_model, client=client)
    original = rag_dir / CHUNKS_FILE
    store = VectorStore(original if original.is_file() else rag_dir)
    markdown = consolidate_messages_to_markdown(table)
    chunks = chunk_markdown(
        markdown,
        max_tokens=min(_ORIGINAL_MAX_TOKENS, embedder.max_input_tokens),
        overlap_tokens=min(_ORIGINAL_OVERLAP_TOKENS, embedder.max_input_tokens // 4),
        counter=embedder,
    )
    results = query_rag_per_chunk(
        chunks,
        store,
        embedder,
        top_k=_ORIGINAL.chunks_per_query,
        min_similarity_threshold=embedder.default_min_similarity,
        retrieval_mode=mode,
        retrieval_nprobe=nprobe,
        retrieval_overfetch=overfetch,
    )
    deduplicated = deduplicate_by_document(results, n=_ORIGINAL.dedup_max_per_doc)
    final = sorted(deduplicated, key=lambda row: -float(row["similarity"]))[: _ORIGINAL.top_k]
    log_event(
        logger,
        "rag query done",
        chunks=len(chunks),
        results=len(results),
        deduplicated=len(deduplicated),
        final=len(final),
    )
    return RagContext(format_markdown(final, ContextSettings(excerpt="head")), final) if final else None
