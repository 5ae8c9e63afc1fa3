"""Estimate of a run: its tokens, time and price, before anything is sent or written."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.chunks import embedding_texts
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.models.embeddings.embed import embedding_key
from backstory.models.embeddings.protocol import Embedder, Task
from backstory.models.llm_reranker import MAX_OUTPUT_TOKENS
from backstory.models.reranker import QUERY_CHARACTERS, TEXT_CHARACTERS
from backstory.models.usage import Usage
from backstory.pipeline.history.spending import estimate_cost, find_price
from backstory.pipeline.incremental.partitions import content_of, read_previous
from backstory.pipeline.run.runner import find_wanted
from backstory.pipeline.stages.documents import read_documents
from backstory.pipeline.stages.messages import read_all_messages
from backstory.pipeline.stages.posts import PostsStage
from backstory.pipeline.stages.retrieval import DecisionsStage, HitsStage
from backstory.pipeline.stages.search_index import SearchIndexStage, cut_documents
from backstory.pipeline.stages.windows import cut_messages, cut_to_queries
from backstory.pipeline.workspace import Workspace
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.groups import SERVICES
from backstory.settings.models import Settings
from backstory.storage.tables.partitions import partition_keys
from backstory.storage.tables.tables import WHOLE, hash_rows

_CHARACTERS_OF_A_TOKEN: Final = 4
_SAMPLE_TOKENS: Final = 4000
_SAMPLE_TEXTS: Final = 32

Frames: TypeAlias = Mapping[str, pl.DataFrame]
"""Rows by table or partition."""


@dataclass(frozen=True)
class TextsToEmbed:
    """The distinct texts of one kind, how many vectors are in the cache, and the tokens of the others."""

    kind: str
    """``documents`` or ``query chunks``."""
    texts: int
    cached: int
    tokens: int

    @property
    def missing(self) -> int:
        """Distinct texts that would be embedded."""
        return self.texts - self.cached


@dataclass(frozen=True)
class CallsToMake:
    """Calls of the reranker or the writer at most: one for each window that may have changed, without retries."""

    purpose: str
    """``rerank`` or ``writing``."""
    model: str
    calls: int
    tokens_in: int
    tokens_out: int
    """0 if what the model may write is not limited."""
    cost: float | None
    """None without a price."""


@dataclass(frozen=True)
class Pace:
    """How long texts take: the seconds, and where the figure comes from, for a reader."""

    seconds: float
    basis: str


@dataclass(frozen=True)
class Estimate:
    """Estimated usage of a run over some partitions."""

    partitions: Sequence[str]
    embedder: str
    """Id of the embedding space."""
    embedding: Sequence[TextsToEmbed]
    pace: Pace
    is_paid: bool
    """Whether the embedder is a paid service."""
    cost: float | None
    """Price of the embedding; None if a paid service has no price in the settings."""
    calls: Sequence[CallsToMake]
    currency: str


def estimate_run(workspace: Workspace, first: date | None, last: date | None) -> Estimate:
    """Read the inputs as a run over a range of days does, up to the texts that it would embed. Nothing is written.

    Posts that a run writes and then serves to later windows are not in it. It fails where the run would, with the same
    error. The workspace was opened with ``writes`` unset.
    """
    wanted = find_wanted(workspace, first, last)
    windows, queries = _read_windows(workspace, wanted)
    documents, chunks = _read_chunks(workspace)
    documents_change = _are_changed(workspace, {"documents": documents, "document_chunks": chunks})
    changed = _find_changed(workspace, {"windows": windows, "window_chunks": queries})
    searched = _find_searched(workspace, wanted, changed, documents_change=documents_change)
    settings, shown = workspace.settings, pl.concat(queries[key] for key in searched) if searched else None
    found = [
        _find_missing(
            workspace, "document", "documents", embedding_texts(chunks, documents) if documents_change else []
        ),
        _find_missing(workspace, "query", "query chunks", [] if shown is None else shown["text"].to_list()),
    ]
    texts = [text for _, missing, _ in found for text in missing]
    counts = np.concatenate([tokens for _, _, tokens in found])
    return Estimate(
        partitions=wanted,
        embedder=workspace.embedder.id,
        embedding=[kind for kind, _, _ in found],
        pace=_predict_pace(workspace.embedder, settings.embedding, texts, counts),
        is_paid=settings.embedding.provider in SERVICES,
        cost=_price_embedding(settings, len(texts), int(counts.sum())),
        calls=_list_calls(workspace, wanted, searched, changed, windows, queries),
        currency=settings.costs.currency,
    )


def _read_windows(workspace: Workspace, wanted: Sequence[str]) -> tuple[Frames, Frames]:
    """Read the windows and the query chunks that the run would make, by partition."""
    messages = read_all_messages(workspace, wanted).messages
    messages = messages.with_columns(partition_keys(messages, workspace.settings.partitions.grain))
    windows = cut_messages(workspace, messages, wanted)
    return windows, cut_to_queries(workspace, pl.concat(windows.values()), messages, wanted)


def _read_chunks(workspace: Workspace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read the documents and the chunks that the run would make."""
    read, _ = read_documents(workspace, workspace.list_documents(), FileHashes(workspace.catalog))
    chunks = cut_documents(workspace, read.documents, read_previous(workspace, "document_chunks"))
    return read.documents, chunks


def _are_changed(workspace: Workspace, made: Frames) -> bool:
    """Return whether the index would be made again, of other rows or with other settings."""
    contents = {table: content_of(workspace, table, [WHOLE])[WHOLE] for table in made}
    is_stale = any(hash_rows(rows) != contents[table] for table, rows in made.items())
    return is_stale or bool(SearchIndexStage.find_stale(workspace, []))


def _predict_pace(
    embedder: Embedder, settings: EmbeddingSettings, texts: Sequence[str], counts: NDArray[np.int64]
) -> Pace:
    """Predict how long texts take, by the tokens of each, without a call of a service.

    A model on this machine embeds a sample of them, which takes a second or two.
    """
    if not texts:
        return Pace(0.0, "nothing to embed")
    if settings.provider in SERVICES:
        most_texts, most_tokens = settings.per_minute
        minutes = max(len(texts) / most_texts, float(counts.sum()) / most_tokens)
        # Gemini's defaults are its quota; those of other servers say nothing about their speed.
        limited = settings.texts_per_minute is not None or settings.tokens_per_minute is not None
        is_known = limited or settings.provider == "gemini"
        basis = (
            "from the limits per minute in the settings"
            if is_known
            else "at best: your server's speed is not known"
        )
        return Pace(minutes * 60, basis)
    order = np.argsort(counts, kind="stable")  # the sample has texts of all lengths
    wanted = min(_SAMPLE_TEXTS, len(order), max(1, int(_SAMPLE_TOKENS / counts.mean())))
    sample = order[(np.arange(wanted) * 2 + 1) * len(order) // (2 * wanted)]
    sampled = [texts[row] for row in sample]
    embedder.embed(sampled[:1], task="document")  # loads the model
    started = time.perf_counter()
    embedder.embed(sampled, task="document")
    elapsed = time.perf_counter() - started
    seconds = elapsed * float(counts.sum()) / float(counts[sample].sum())
    return Pace(seconds, f"measured now on {len(sampled)} of these texts, at this machine's present load")


def _find_changed(workspace: Workspace, made: Mapping[str, Frames]) -> set[str]:
    """List the partitions of which the run would make other rows of some table."""
    changed: set[str] = set()
    for table, frames in made.items():
        contents = content_of(workspace, table, [*frames])
        changed |= {key for key, rows in frames.items() if hash_rows(rows) != contents[key]}
    return changed


def _find_searched(
    workspace: Workspace, wanted: Sequence[str], changed: Collection[str], *, documents_change: bool
) -> list[str]:
    """List the partitions that the run would search again: all of them if the documents change."""
    if not workspace.settings.rag.enabled:
        return []
    if documents_change:
        return list(wanted)
    stale = {key for stage in (HitsStage, DecisionsStage) for key in stage.find_stale(workspace, wanted)}
    return [key for key in wanted if key in stale or key in changed]


def _find_missing(
    workspace: Workspace, task: Task, kind: str, texts: Sequence[str]
) -> tuple[TextsToEmbed, list[str], NDArray[np.int64]]:
    """Find the texts of one kind whose vectors are not in the cache, and the tokens of each."""
    unique = list(dict.fromkeys(texts))
    keys = [embedding_key(workspace.embedder.id, task, text) for text in unique]
    known = workspace.embeddings.get(keys, workspace.embedder.dimension)[0]
    missing = [text for text, cached in zip(unique, known, strict=True) if not cached]
    tokens = workspace.embedder.count_tokens(missing) if missing else np.zeros(0, np.int64)
    return TextsToEmbed(kind, len(unique), int(known.sum()), int(tokens.sum())), missing, tokens


def _price_embedding(settings: Settings, texts: int, tokens: int) -> float | None:
    embedding = settings.embedding
    if embedding.paid_model is None:
        return 0.0
    used = Usage(texts=texts, tokens_in=tokens)
    return estimate_cost(find_price(settings.costs, embedding.paid_model), used)


def _list_calls(
    workspace: Workspace,
    wanted: Sequence[str],
    searched: Sequence[str],
    changed: Collection[str],
    windows: Frames,
    queries: Frames,
) -> list[CallsToMake]:
    settings, calls = workspace.settings, []
    rerank, writers = settings.rerank, settings.writers
    if rerank.paid_model is not None and searched:
        number = sum(len(windows[key]) for key in searched)
        characters = QUERY_CHARACTERS + rerank.candidates * TEXT_CHARACTERS
        shown = number * characters // _CHARACTERS_OF_A_TOKEN
        written = number * MAX_OUTPUT_TOKENS
        calls.append(_price_calls(settings, "rerank", rerank.paid_model, number, shown, written))
    if writers.paid_model is not None:
        told = PostsStage.list_also_read(workspace, wanted)
        again = {*searched, *changed, *PostsStage.find_stale(workspace, wanted)}
        again |= {key for key, others in told.items() if not again.isdisjoint(others)}
        number = sum(len(windows[key]) for key in again)
        characters = sum(int(queries[key]["text"].str.len_chars().sum()) for key in again)
        tokens = number * settings.context.max_tokens + characters // _CHARACTERS_OF_A_TOKEN
        written = number * writers.max_output_tokens
        calls.append(_price_calls(settings, "writing", writers.paid_model, number, tokens, written))
    return calls


def _price_calls(
    settings: Settings, purpose: str, model: str, calls: int, tokens_in: int, tokens_out: int
) -> CallsToMake:
    used = Usage(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)
    return CallsToMake(
        purpose, model, calls, tokens_in, tokens_out, estimate_cost(find_price(settings.costs, model), used)
    )
