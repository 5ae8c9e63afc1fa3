"""Texts to vectors: each distinct text once, cached where possible, and every computed vector checked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import CacheFileError, EmbeddingError
from backstory.base.telemetry.scope import bind, observe
from backstory.models.embeddings.cache import EmbeddingCache, embedding_key
from backstory.models.embeddings.checks import require_text, require_unit_rows, require_within_limit
from backstory.models.embeddings.protocol import Embedder, Task, Vectors

logger = logging.getLogger(__name__)

ReportProgress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class EmbeddingStats:
    """The figures of one call of :func:`embed_texts`.

    Attributes:
        texts: Texts that were passed.
        unique: Distinct texts among them.
        cached: Distinct texts found in the cache.
        computed: Distinct texts that the embedder computed.
        tokens: Tokens of the computed texts.
        api_calls: Requests sent to a service, retries included.
        seconds: Wall-clock time.
    """

    texts: int
    unique: int
    cached: int
    computed: int
    tokens: int
    api_calls: int
    seconds: float

    def as_counts(self) -> dict[str, int | float]:
        """Return the figures by name, prefixed with ``embedding_``, for metadata and logs."""
        return {f"embedding_{name}": value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class EmbeddedTexts:
    """Vectors in the order of the texts.

    Attributes:
        vectors: float32 unit rows, shape ``(texts, dimension)``.
        stats: Figures of the call.
    """

    vectors: Vectors
    stats: EmbeddingStats


def embed_texts(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    task: Task,
    cache: EmbeddingCache | None,
    progress: ReportProgress | None = None,
) -> EmbeddedTexts:
    """Embed any number of texts.

    Each finished batch is stored at once, so a killed process loses at most one batch for each of the
    embedder's workers.

    Args:
        embedder: Computes the vectors that are not cached.
        texts: The texts; repeated ones are computed once.
        task: Whether the texts are queries or documents.
        cache: Read for known vectors and extended by new ones; None to compute all and store none.
        progress: Called with the number of distinct texts done and their total, at the start and after every
            batch.

    Returns:
        The vectors in the order of the texts, and the figures of the call.

    Raises:
        EmbeddingInputError: A text is over the model's limit; nothing was computed.
        CacheFileError: The cache cannot be used.
        EmbeddingError: The model failed, or returned unusable vectors; finished batches are stored.
    """
    started, calls_before = time.perf_counter(), embedder.api_calls
    require_text(texts)
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    unique = list(row_of)
    keys = [embedding_key(embedder.id, task, text) for text in unique] if cache else []
    known, vectors = _look_up(embedder, keys, len(unique), cache)
    missing = np.flatnonzero(~known)
    report = progress or _ignore_progress
    done = len(unique) - len(missing)
    report(done, len(unique))
    missing_texts = [unique[row] for row in missing]
    token_counts = embedder.count_tokens(missing_texts) if missing_texts else np.zeros(0, np.int64)
    order = np.fromiter((row_of[text] for text in texts), np.int64, len(texts))
    all_counts = np.zeros(len(unique), np.int64)
    all_counts[missing] = token_counts
    require_within_limit(all_counts[order], embedder.max_input_tokens, embedder.id)
    for batch, computed in _compute(embedder, missing_texts, token_counts, task):
        rows = missing[batch]
        if cache:
            cache.put(embedder.id, [keys[row] for row in rows], computed)
        vectors[rows] = computed
        done += len(batch)
        report(done, len(unique))
    stats = EmbeddingStats(
        texts=len(texts),
        unique=len(unique),
        cached=len(unique) - len(missing),
        computed=len(missing),
        tokens=int(token_counts.sum()),
        api_calls=embedder.api_calls - calls_before,
        seconds=round(time.perf_counter() - started, 3),
    )
    logger.info(
        "embedded texts=%d unique=%d cached=%d computed=%d tokens=%d api_calls=%d seconds=%.2f embedder=%s task=%s",
        *vars(stats).values(),
        embedder.id,
        task,
    )
    return EmbeddedTexts(vectors[order], stats)


def _look_up(
    embedder: Embedder, keys: list[bytes], count: int, cache: EmbeddingCache | None
) -> tuple[NDArray[np.bool_], Vectors]:
    if cache is None:
        return np.zeros(count, np.bool_), np.empty((count, embedder.dimension), np.float32)
    known, vectors = cache.get(keys, embedder.dimension)
    try:
        require_unit_rows(vectors[known], int(known.sum()), embedder.dimension, "the embedding cache")
    except EmbeddingError as error:
        raise CacheFileError(
            f"{error}; move {cache.path} away, and the next run makes a new one",
            code=error.code,
            path=cache.path,
        ) from error
    return known, vectors


def _compute(
    embedder: Embedder, texts: list[str], token_counts: NDArray[np.int64], task: Task
) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
    """Run as many batches at a time as the embedder allows, and yield each one when it is finished.

    The caller stores a batch before the next one starts in its place. After a failure no further batch is
    started; the running ones are yielded, and then the error is raised.
    """
    batches = embedder.plan_batches(token_counts)
    if not np.array_equal(np.sort(np.concatenate([*batches, np.zeros(0, np.int64)])), np.arange(len(texts))):
        raise EmbeddingError(
            f"{embedder.id} planned batches that do not hold every text exactly once",
            code="incomplete_plan",
            embedder=embedder.id,
        )
    waiting = iter(batches)
    running: dict[Future[Vectors], NDArray[np.int64]] = {}
    failure: BaseException | None = None

    def run(batch: NDArray[np.int64]) -> Vectors:
        tokens = int(token_counts[batch].sum())
        with observe("embed", texts=len(batch), tokens=tokens, embedder=embedder.id, task=task):
            vectors = embedder.embed([texts[position] for position in batch], task=task)
        require_unit_rows(vectors, len(batch), embedder.dimension, embedder.id)
        return vectors

    if len(batches) <= 1:  # a question, or only known texts, which need no other threads
        for only in batches:
            yield only, run(only)
        return
    with ThreadPoolExecutor(max_workers=embedder.workers, thread_name_prefix="embedding") as pool:
        while True:
            while failure is None and len(running) < embedder.workers:
                batch = next(waiting, None)
                if batch is None:
                    break
                running[pool.submit(bind(run), batch)] = batch
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                batch = running.pop(future)
                error = future.exception()
                if error is None:
                    yield batch, future.result()
                else:
                    failure = failure or error
    if failure is not None:
        raise failure


def _ignore_progress(done: int, total: int) -> None:
    """Report no progress."""
