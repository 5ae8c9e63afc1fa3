"""Estimate of a run: its tokens, time and price, before anything is sent or written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backstory.index.chunks import embedding_texts
from backstory.ingest.documents.files import FileHashes
from backstory.models.embeddings.embed import embedding_key
from backstory.models.embeddings.protocol import Embedder, Task
from backstory.models.llm_reranker import MAX_OUTPUT_TOKENS
from backstory.models.reranker import QUERY_CHARACTERS, TEXT_CHARACTERS
from backstory.models.usage import Usage
from backstory.pipeline.history.spending import estimate_cost, find_price
from backstory.pipeline.incremental.inputs import content_of, read_previous, split_by_partition
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.stages.corpus import SearchIndexStage, cut_documents, read_documents
from backstory.pipeline.stages.messages import read_all_messages
from backstory.pipeline.stages.posts import PostsStage
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.stages.windows import DecisionsStage, HitsStage, WindowChunksStage, WindowsStage
from backstory.pipeline.stages.writer_material import find_neighbours
from backstory.pipeline.workspace import Workspace
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.groups import SERVICES
from backstory.settings.models import Settings
from backstory.storage.tables.partitions import partition_keys
from backstory.storage.tables.tables import WHOLE, hash_rows

_CHARACTERS_OF_A_TOKEN: Final = 4
_SAMPLE_TOKENS: Final = 4000
_SAMPLE_TEXTS: Final = 32


@dataclass(frozen=True)
class TextsToEmbed:
    """The distinct texts of one kind, how many vectors are in the cache, and the tokens of the others."""

    kind: str
    texts: int
    cached: int
    tokens: int


@dataclass(frozen=True)
class CallsToMake:
    """Calls of the reranker or the writer at most: one for each window that may have changed, without retries."""

    purpose: str
    model: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None


@dataclass(frozen=True)
class Pace:
    """How long texts take: the seconds, and where the figure comes from, for a reader."""

    seconds: float
    basis: str


@dataclass(frozen=True)
class Estimate:
    """Estimated usage of a run; ``cost`` is that of the embedding. A cost is None without a price."""

    partitions: Sequence[str]
    embedder: str
    embedding: Sequence[TextsToEmbed]
    pace: Pace
    is_paid: bool
    cost: float | None
    calls: Sequence[CallsToMake]
    currency: str


def estimate_run(workspace: Workspace, first: date | None, last: date | None) -> Estimate:
    """Read the inputs as a run over a range of days does, up to the texts that it would embed. Nothing is written.

    Posts that a run writes and then serves to later windows are not in it. It fails where the run would, with the same
    error. The workspace was opened with ``writes`` unset.
    """
    wanted = find_wanted(workspace, first, last)
    settings, embedder = workspace.settings, workspace.embedder
    messages = read_all_messages(workspace, wanted)
    messages = messages.with_columns(partition_keys(messages, settings.partitions.grain))
    resources = RunResources(workspace)
    cut = WindowsStage(resources, wanted).compute(wanted, messages)
    parts = WindowChunksStage(resources, wanted).compute(wanted, messages, cut)
    parts = parts.join(cut.select("window_id", "partition"), on="window_id", maintain_order="left")
    windows = split_by_partition(cut, wanted, keep_key=True)
    queries = split_by_partition(parts, wanted)
    read, _ = read_documents(workspace, workspace.list_documents(), FileHashes(workspace.catalog))
    documents = read.documents
    chunks = cut_documents(workspace, documents, read_previous(workspace, "document_chunks"))
    whole = {"documents": {WHOLE: documents}, "document_chunks": {WHOLE: chunks}}
    changed = {
        key
        for table, rows in {"windows": windows, "window_chunks": queries, **whole}.items()
        for key, content in content_of(workspace, table, list(rows)).items()
        if content != hash_rows(rows[key])
    }
    documents_change = WHOLE in changed or bool(SearchIndexStage.find_stale(workspace, []))
    again = changed.union(wanted if documents_change else ())
    again.update(HitsStage.find_stale(workspace, wanted), DecisionsStage.find_stale(workspace, wanted))
    searched = [key for key in wanted if key in again and settings.rag.enabled]

    of_documents = embedding_texts(chunks, documents) if documents_change else []
    of_queries = [text for key in searched for text in queries[key]["text"]]
    counted = [
        _count_texts(workspace, "documents", "document", of_documents),
        _count_texts(workspace, "query chunks", "query", of_queries),
    ]
    missing = [text for _, texts, _ in counted for text in texts]
    tokens = np.concatenate([counts for _, _, counts in counted])

    calls, (rerank, writers) = list[CallsToMake](), (settings.rerank, settings.writers)
    if rerank.paid_model is not None and searched:
        number = sum(len(windows[key]) for key in searched)
        characters = number * (QUERY_CHARACTERS + rerank.candidates * TEXT_CHARACTERS)
        calls.append(
            _count_calls(settings, "rerank", rerank.paid_model, number, characters, MAX_OUTPUT_TOKENS)
        )
    if writers.paid_model is not None:
        told = {*searched, *changed, *PostsStage.find_stale(workspace, wanted)}
        written = [key for key in wanted if not told.isdisjoint(find_neighbours(workspace, key).told)]
        number = sum(len(windows[key]) for key in written)
        characters = sum(int(queries[key]["text"].str.len_chars().sum()) for key in written)
        characters += number * settings.context.max_tokens * _CHARACTERS_OF_A_TOKEN
        most = writers.max_output_tokens
        calls.append(_count_calls(settings, "writing", writers.paid_model, number, characters, most))
    return Estimate(
        partitions=wanted,
        embedder=embedder.id,
        embedding=[kind for kind, _, _ in counted],
        pace=_predict_pace(embedder, settings.embedding, missing, tokens),
        is_paid=settings.embedding.provider in SERVICES,
        cost=_price(settings, settings.embedding.paid_model, Usage(tokens_in=int(tokens.sum()))),
        calls=calls,
        currency=settings.costs.currency,
    )


def _count_texts(
    workspace: Workspace, kind: str, task: Task, texts: Sequence[str]
) -> tuple[TextsToEmbed, list[str], NDArray[np.int64]]:
    """Count the distinct texts of one kind, list those without a vector, and count the tokens of each of these."""
    embedder, unique = workspace.embedder, list(dict.fromkeys(texts))
    keys = [embedding_key(embedder.id, task, text) for text in unique]
    known = workspace.embeddings.get(keys, embedder.dimension)[0]
    absent = [text for text, is_known in zip(unique, known, strict=True) if not is_known]
    tokens = embedder.count_tokens(absent) if absent else np.zeros(0, np.int64)
    return TextsToEmbed(kind, len(unique), len(unique) - len(absent), int(tokens.sum())), absent, tokens


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
        is_limited = settings.provider == "gemini" or settings.texts_per_minute or settings.tokens_per_minute
        unknown = "at best: your server's speed is not known"
        return Pace(minutes * 60, "from the limits per minute in the settings" if is_limited else unknown)
    order = np.argsort(counts, kind="stable")  # the sample has texts of all lengths
    wanted = min(_SAMPLE_TEXTS, len(order), max(1, int(_SAMPLE_TOKENS / counts.mean())))
    sample = order[(np.arange(wanted) * 2 + 1) * len(order) // (2 * wanted)]
    sampled = [texts[row] for row in sample]
    embedder.embed(sampled[:1], task="document")  # loads the model
    started = time.perf_counter()
    embedder.embed(sampled, task="document")
    seconds = (time.perf_counter() - started) * float(counts.sum()) / float(counts[sample].sum())
    return Pace(seconds, f"measured now on {len(sampled)} of these texts, at this machine's present load")


def _count_calls(
    settings: Settings, purpose: str, model: str, calls: int, characters: int, written: int
) -> CallsToMake:
    used = Usage(tokens_in=characters // _CHARACTERS_OF_A_TOKEN, tokens_out=calls * written)
    return CallsToMake(purpose, model, calls, used.tokens_in, used.tokens_out, _price(settings, model, used))


def _price(settings: Settings, model: str | None, used: Usage) -> float | None:
    return 0.0 if model is None else estimate_cost(find_price(settings.costs, model), used)
