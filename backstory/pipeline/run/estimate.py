"""Estimate of a run: its tokens, time and price, before anything is sent or written."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.chunks import embedding_texts
from backstory.models.embeddings.embed import EmbeddingCache, embedding_key
from backstory.models.embeddings.protocol import Embedder, Task
from backstory.models.llm_reranker import MAX_OUTPUT_TOKENS
from backstory.models.reranker import QUERY_CHARACTERS, TEXT_CHARACTERS, Reranker
from backstory.models.usage import Usage
from backstory.pipeline.history.spending import estimate_cost, find_price
from backstory.pipeline.incremental.partitions import read_table_rows
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.posts import PostsStage
from backstory.pipeline.stages.search_index import SearchIndexStage
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import Workspace
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.groups import SERVICES
from backstory.settings.models import Settings
from backstory.settings.paths import Place
from backstory.settings.storage import StorageSettings
from backstory.storage.state import copy_state
from backstory.storage.tables.tables import WHOLE, copy_files
from backstory.storage.turns import running
from backstory.writing.draft import Writer

_BEFORE_EMBEDDING: Final = ("messages", "windows", "window_chunks", "documents", "document_chunks")
_SEARCHED: Final = ("hits", "decisions")
_CHARACTERS_OF_A_TOKEN: Final = 4
_SAMPLE_TOKENS: Final = 4000
_SAMPLE_TEXTS: Final = 32

FindWanted = Callable[[Workspace], list[str]]


@dataclass(frozen=True)
class TextsToEmbed:
    """The texts of one kind.

    Attributes:
        kind: ``documents`` or ``query chunks``.
        texts: Distinct texts that the run needs.
        cached: Those of them whose vectors are in the cache.
        tokens: Tokens of the others.
    """

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
    """Calls of a paid model other than the embedder, at most.

    Attributes:
        purpose: ``rerank`` or ``writing``.
        model: Name of the model.
        calls: One for each window that may have changed, without retries.
        tokens_in: Most tokens that are sent.
        tokens_out: Most tokens that the model may write; 0 if that is not limited.
        cost: Their price; None without a price.
    """

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
    """Estimated usage of a run.

    Attributes:
        partitions: Keys of the wanted partitions.
        embedder: Id of the embedding space.
        embedding: The texts to embed, by kind.
        pace: How long embedding takes, and how that is known.
        is_paid: Whether the embedder is a paid service.
        cost: Price of the embedding; None if a paid service has no price in the settings.
        calls: Calls of other models, at most.
        currency: Currency of all prices.
    """

    partitions: Sequence[str]
    embedder: str
    embedding: Sequence[TextsToEmbed]
    pace: Pace
    is_paid: bool
    cost: float | None
    calls: Sequence[CallsToMake]
    currency: str


def estimate_run(workspace: Workspace, find_wanted: FindWanted) -> Estimate:
    """Read the inputs as a run does, in a temporary copy of the tables, up to the texts that it would embed.

    Posts that a run writes and then serves to later windows are not in it.

    Args:
        workspace: An open workspace, before or after its first run. Nothing in it is written.
        find_wanted: Lists the keys of the wanted partitions.

    Raises:
        BackstoryError: The run would fail before it embeds anything, with the same error.
    """
    with open_scratch(workspace) as scratch:
        wanted = find_wanted(scratch)
        resources = RunResources(scratch)
        for stage in STAGES:
            if stage.table in _BEFORE_EMBEDDING:
                stage(resources, wanted).build()
        documents_change = bool(SearchIndexStage.find_stale(scratch, []))
        searched = _find_searched(scratch, wanted, documents_change=documents_change)
        needed: dict[Task, list[str]] = {
            "document": _list_document_texts(scratch) if documents_change else [],
            "query": _list_query_texts(scratch, searched),
        }
        kinds: tuple[tuple[Task, str], ...] = (("document", "documents"), ("query", "query chunks"))
        found = [_find_missing(scratch, task, kind, needed[task]) for task, kind in kinds]
        calls = _list_calls(scratch, wanted, searched)
    settings = workspace.settings
    texts = [text for _, missing, _ in found for text in missing]
    counts = np.concatenate([tokens for _, _, tokens in found])
    pace = _predict_pace(workspace.embedder, settings.embedding, texts, counts)
    return Estimate(
        partitions=wanted,
        embedder=workspace.embedder.id,
        embedding=[kind for kind, _, _ in found],
        pace=pace,
        is_paid=settings.embedding.provider in SERVICES,
        cost=_price_embedding(settings, len(texts), int(counts.sum())),
        calls=calls,
        currency=settings.costs.currency,
    )


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


def _find_searched(scratch: ScratchWorkspace, wanted: Sequence[str], *, documents_change: bool) -> list[str]:
    """List the partitions that the run would search again: all of them if the documents change."""
    if not scratch.settings.rag.enabled:
        return []
    if documents_change:
        return list(wanted)
    stale = {key for stage in STAGES if stage.table in _SEARCHED for key in stage.find_stale(scratch, wanted)}
    return [key for key in wanted if key in stale]


def _list_document_texts(scratch: ScratchWorkspace) -> list[str]:
    documents, chunks = (
        read_table_rows(scratch, table, [WHOLE]) for table in ("documents", "document_chunks")
    )
    return embedding_texts(chunks, documents)


def _list_query_texts(scratch: ScratchWorkspace, partitions: Sequence[str]) -> list[str]:
    return read_table_rows(scratch, "window_chunks", partitions)["text"].to_list() if partitions else []


def _find_missing(
    scratch: ScratchWorkspace, task: Task, kind: str, texts: Sequence[str]
) -> tuple[TextsToEmbed, list[str], NDArray[np.int64]]:
    """Find the texts of one kind whose vectors are not in the cache, and the tokens of each."""
    unique = list(dict.fromkeys(texts))
    keys = [embedding_key(scratch.embedder.id, task, text) for text in unique]
    known = scratch.embeddings.get(keys, scratch.embedder.dimension)[0]
    missing = [text for text, cached in zip(unique, known, strict=True) if not cached]
    tokens = scratch.embedder.count_tokens(missing) if missing else np.zeros(0, np.int64)
    return TextsToEmbed(kind, len(unique), int(known.sum()), int(tokens.sum())), missing, tokens


def _price_embedding(settings: Settings, texts: int, tokens: int) -> float | None:
    embedding = settings.embedding
    if embedding.paid_model is None:
        return 0.0
    used = Usage(texts=texts, tokens_in=tokens)
    return estimate_cost(find_price(settings.costs, embedding.paid_model), used)


def _list_calls(
    scratch: ScratchWorkspace, wanted: Sequence[str], searched: Sequence[str]
) -> list[CallsToMake]:
    settings, calls = scratch.settings, []
    rerank, writers = settings.rerank, settings.writers
    if rerank.paid_model is not None and searched:
        windows = len(_read_windows(scratch, searched))
        characters = QUERY_CHARACTERS + rerank.candidates * TEXT_CHARACTERS
        shown = windows * characters // _CHARACTERS_OF_A_TOKEN
        written = windows * MAX_OUTPUT_TOKENS
        calls.append(_price_calls(settings, "rerank", rerank.paid_model, windows, shown, written))
    if writers.paid_model is not None:
        again = set(searched) | set(PostsStage.find_stale(scratch, wanted))
        windows = len(_read_windows(scratch, [key for key in wanted if key in again]))
        shown = sum(map(len, _list_query_texts(scratch, sorted(again)))) // _CHARACTERS_OF_A_TOKEN
        tokens = windows * settings.context.max_tokens + shown
        written = windows * writers.max_output_tokens
        calls.append(_price_calls(settings, "writing", writers.paid_model, windows, tokens, written))
    return calls


def _read_windows(scratch: ScratchWorkspace, partitions: Sequence[str]) -> pl.DataFrame:
    return read_table_rows(scratch, "windows", partitions)


def _price_calls(
    settings: Settings, purpose: str, model: str, calls: int, tokens_in: int, tokens_out: int
) -> CallsToMake:
    used = Usage(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)
    return CallsToMake(
        purpose, model, calls, tokens_in, tokens_out, estimate_cost(find_price(settings.costs, model), used)
    )


_NOT_COPIED = ("*.sqlite*", "mirrors")


class _OriginalPlace(Place):
    """The path of the same name in the original."""

    def __init__(self) -> None:
        super().__init__("")

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, workspace: Any, _: Any) -> Path:
        place: Path = getattr(workspace.original, self._name)
        return place


@dataclass(frozen=True, kw_only=True)
class ScratchWorkspace(Workspace):
    """A workspace whose tables lie in another folder than the files that a user puts into it.

    Paths below the root are those of the copy, so that whatever a stage writes, it writes there.

    Attributes:
        original: The workspace that is left alone.
    """

    original: Workspace

    fetches = False
    chats_dir = _OriginalPlace()
    documents_dir = _OriginalPlace()
    inputs_root = _OriginalPlace()
    added_sources = _OriginalPlace()
    mirrors = _OriginalPlace()
    posts_dir = _OriginalPlace()
    index = _OriginalPlace()
    forgotten = _OriginalPlace()

    @property
    def located_settings(self) -> Settings:
        """The settings with the folders of models as absolute paths, in the original."""
        return self.original.located_settings

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the original."""
        return self.original.embedder

    @cached_property
    def reranker(self) -> Reranker | None:
        """The reranker of the original."""
        return self.original.reranker

    @cached_property
    def writer(self) -> Writer | None:
        """The writer of the original."""
        return self.original.writer

    @cached_property
    def embeddings(self) -> EmbeddingCache:
        """The cache of vectors of the original."""
        return self.original.embeddings


@contextmanager
def open_scratch(workspace: Workspace) -> Iterator[ScratchWorkspace]:
    """Copy the tables and the key of a workspace into a temporary folder that only this user can read.

    Vectors, drafts and snapshots are not copied. If a run is under way, the copy is made when it has ended.

    Yields:
        The copy. Its folder is deleted at the end.
    """
    with TemporaryDirectory(prefix="backstory-") as folder:
        root = Path(folder)
        scratch = ScratchWorkspace(
            root,
            # A copy is of this machine alone.
            workspace.settings.model_copy(update={"storage": StorageSettings()}),
            workspace.accept_removals,
            workspace.keys,
            original=workspace,
        )
        is_made = workspace.catalog.state.exists()
        with running(workspace.catalog.state, "a copy for an estimate") if is_made else nullcontext():
            copy_state(workspace.catalog.state, scratch.catalog.state)
            list(copy_files(workspace.tables, scratch.tables.store))
            if workspace.secret.parent.is_dir():
                shutil.copytree(
                    workspace.secret.parent,
                    scratch.secret.parent,
                    ignore=shutil.ignore_patterns(*_NOT_COPIED),
                )
            copy_state(workspace.state, scratch.state)
        yield scratch
