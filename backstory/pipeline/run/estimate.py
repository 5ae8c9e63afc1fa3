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
from backstory.pipeline.incremental.inputs import (
    content_of,
    read_previous,
    split_by_partition,
)
from backstory.pipeline.run.runner import find_wanted
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

Made: TypeAlias = Mapping[str, Mapping[str, pl.DataFrame]]
"""Rows by table, and by partition."""


@dataclass(frozen=True)
class TextsToEmbed:
    """The distinct texts of one kind, how many vectors are in the cache, and the tokens of the others."""

    kind: str
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
    made = _make(workspace, wanted)
    changed = {
        key
        for table, parts in made.items()
        for key, entry in content_of(workspace, table, list(parts)).items()
        if entry != hash_rows(parts[key])
    }
    documents_change = WHOLE in changed or bool(SearchIndexStage.find_stale(workspace, []))
    stale = {key for stage in (HitsStage, DecisionsStage) for key in stage.find_stale(workspace, wanted)}
    again = {*wanted} if documents_change else stale | changed
    searched = [key for key in wanted if key in again and settings.rag.enabled]
    chunks, documents = made["document_chunks"][WHOLE], made["documents"][WHOLE]
    queries = made["window_chunks"]
    texts: dict[str, tuple[Task, list[str]]] = {
        "documents": ("document", embedding_texts(chunks, documents) if documents_change else []),
        "query chunks": ("query", [text for key in searched for text in queries[key]["text"]]),
    }
    embedding, missing, tokens = [], list[str](), [np.zeros(0, np.int64)]
    for kind, (task, given) in texts.items():
        unique = list(dict.fromkeys(given))
        keys = [embedding_key(embedder.id, task, text) for text in unique]
        known = workspace.embeddings.get(keys, embedder.dimension)[0]
        absent = [text for text, is_known in zip(unique, known, strict=True) if not is_known]
        tokens.append(embedder.count_tokens(absent) if absent else tokens[0])
        embedding.append(TextsToEmbed(kind, len(unique), int(known.sum()), int(tokens[-1].sum())))
        missing += absent
    counts = np.concatenate(tokens)
    used = Usage(texts=len(missing), tokens_in=int(counts.sum()))
    return Estimate(
        partitions=wanted,
        embedder=embedder.id,
        embedding=embedding,
        pace=_predict_pace(embedder, settings.embedding, missing, counts),
        is_paid=settings.embedding.provider in SERVICES,
        cost=_price(settings, settings.embedding.paid_model, used),
        calls=_list_calls(workspace, wanted, searched, changed, made),
        currency=settings.costs.currency,
    )


def _make(workspace: Workspace, wanted: Sequence[str]) -> Made:
    """Make the tables up to the texts that are embedded, as the stages do."""
    messages = read_all_messages(workspace, wanted)
    messages = messages.with_columns(partition_keys(messages, workspace.settings.partitions.grain))
    resources = RunResources(workspace)
    windows = WindowsStage(resources, wanted).compute([*wanted], messages)
    queries = WindowChunksStage(resources, wanted).compute([*wanted], messages, windows)
    read, _ = read_documents(workspace, workspace.list_documents(), FileHashes(workspace.catalog))
    chunks = cut_documents(workspace, read.documents, read_previous(workspace, "document_chunks"))
    whole = {"documents": {WHOLE: read.documents}, "document_chunks": {WHOLE: chunks}}
    queries = queries.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
    windows_of, queries_of = (
        split_by_partition(windows, wanted, keep_key=True),
        split_by_partition(queries, wanted),
    )
    return {"windows": windows_of, "window_chunks": queries_of, **whole}


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
        is_limited = settings.texts_per_minute is not None or settings.tokens_per_minute is not None
        if is_limited or settings.provider == "gemini":
            return Pace(minutes * 60, "from the limits per minute in the settings")
        return Pace(minutes * 60, "at best: your server's speed is not known")
    order = np.argsort(counts, kind="stable")  # the sample has texts of all lengths
    wanted = min(_SAMPLE_TEXTS, len(order), max(1, int(_SAMPLE_TOKENS / counts.mean())))
    sample = order[(np.arange(wanted) * 2 + 1) * len(order) // (2 * wanted)]
    sampled = [texts[row] for row in sample]
    embedder.embed(sampled[:1], task="document")  # loads the model
    started = time.perf_counter()
    embedder.embed(sampled, task="document")
    seconds = (time.perf_counter() - started) * float(counts.sum()) / float(counts[sample].sum())
    return Pace(seconds, f"measured now on {len(sampled)} of these texts, at this machine's present load")


def _list_calls(
    workspace: Workspace, wanted: Sequence[str], searched: Sequence[str], changed: Collection[str], made: Made
) -> list[CallsToMake]:
    settings, calls = workspace.settings, list[CallsToMake]()
    rerank, writers = settings.rerank, settings.writers

    def add(purpose: str, model: str, number: int, tokens: int, written: int) -> None:
        used = Usage(calls=number, tokens_in=tokens, tokens_out=number * written)
        cost = _price(settings, model, used)
        calls.append(CallsToMake(purpose, model, number, tokens, used.tokens_out, cost))

    if rerank.paid_model is not None and searched:
        number = sum(len(made["windows"][key]) for key in searched)
        characters = number * (QUERY_CHARACTERS + rerank.candidates * TEXT_CHARACTERS)
        add("rerank", rerank.paid_model, number, characters // _CHARACTERS_OF_A_TOKEN, MAX_OUTPUT_TOKENS)
    if writers.paid_model is not None:
        again = {*searched, *changed, *PostsStage.find_stale(workspace, wanted)}
        again = {key for key in wanted if not again.isdisjoint(find_neighbours(workspace, key).told)}
        number = sum(len(made["windows"][key]) for key in again)
        characters = sum(int(made["window_chunks"][key]["text"].str.len_chars().sum()) for key in again)
        tokens = number * settings.context.max_tokens + characters // _CHARACTERS_OF_A_TOKEN
        add("writing", writers.paid_model, number, tokens, writers.max_output_tokens)
    return calls


def _price(settings: Settings, model: str | None, used: Usage) -> float | None:
    return 0.0 if model is None else estimate_cost(find_price(settings.costs, model), used)
