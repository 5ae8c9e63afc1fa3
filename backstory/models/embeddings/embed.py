"""Texts to vectors: each distinct text once, cached where possible, and every computed vector checked."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import EmbeddingError, StateError
from backstory.base.telemetry.logs import log_event
from backstory.base.telemetry.scope import bind, observe
from backstory.models.embeddings.cache import EmbeddingCache, embedding_key
from backstory.models.embeddings.checks import require_text, require_unit_rows, require_within_limit
from backstory.models.embeddings.protocol import Embedder, Task, Vectors

logger = logging.getLogger(__name__)

ReportProgress: TypeAlias = Callable[[int, int], None]
Rows: TypeAlias = NDArray[np.int64]


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
        StateError: The cache cannot be used.
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
    report(int(known.sum()), len(unique))
    missing_texts = [unique[row] for row in missing]
    token_counts = embedder.count_tokens(missing_texts) if missing_texts else np.zeros(0, np.int64)
    order = np.fromiter((row_of[text] for text in texts), np.int64, len(texts))
    all_counts = np.zeros(len(unique), np.int64)
    all_counts[missing] = token_counts
    require_within_limit(all_counts[order], embedder.max_input_tokens, embedder.id)
    own = np.zeros(len(missing), np.bool_)

    def find_left(batch: Rows) -> Rows:
        """Take what another process has stored meanwhile, and return the rest of a batch."""
        rows = missing[batch]
        stored, found = _look_up(embedder, [keys[row] for row in rows], len(rows), cache)
        vectors[rows[stored]] = found[stored]
        known[rows[stored]] = True
        return batch[~stored]

    batches = embedder.plan_batches(token_counts)
    left = map(find_left, _begin_anywhere(batches)) if cache and len(batches) > 1 else iter(batches)
    # A question is one batch, which needs no further thread.
    workers = embedder.workers if len(batches) > 1 else 0
    for batch, computed in _compute(embedder, missing_texts, token_counts, task, left, workers):
        rows = missing[batch]
        if cache:
            cache.put(embedder.id, [keys[row] for row in rows], computed)
        vectors[rows] = computed
        known[rows] = own[batch] = True
        report(int(known.sum()), len(unique))
    if not known.all():
        raise EmbeddingError(
            f"{embedder.id} planned batches that do not hold every text", code="incomplete_plan"
        )
    stats = EmbeddingStats(
        texts=len(texts),
        unique=len(unique),
        cached=len(unique) - int(own.sum()),
        computed=int(own.sum()),
        tokens=int(token_counts[own].sum()),
        api_calls=embedder.api_calls - calls_before,
        seconds=round(time.perf_counter() - started, 3),
    )
    log_event(logger, "embedded", vars(stats), embedder=embedder.id, task=task)
    return EmbeddedTexts(vectors if len(unique) == len(texts) else vectors[order], stats)


def embed_in_parts(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    task: Task,
    cache: EmbeddingCache,
    most: int,
    folder: Path,
    progress: ReportProgress | None = None,
) -> tuple[Vectors, EmbeddingStats]:
    """Embed texts as :func:`embed_texts` does, with the vectors of a part of them in memory.

    Args:
        embedder: Computes the vectors that are not cached.
        texts: The texts.
        task: Whether the texts are queries or documents.
        cache: Read for known vectors and extended by new ones.
        most: Most texts of a part. If there are no more, the vectors are an array.
        folder: Where a file holds the vectors of several parts.
        progress: As for :func:`embed_texts`; repeated texts count if there are several parts.

    Returns:
        The vectors in the order of the texts, and the figures of all parts.

    Raises:
        EmbeddingInputError: A text is over the model's limit; parts before it are stored.
        StateError: The cache cannot be used.
        EmbeddingError: The model failed, or returned unusable vectors; finished batches are stored.
        OSError: The file cannot be written.
    """
    if len(texts) <= most:
        embedded = embed_texts(embedder, texts, task=task, cache=cache, progress=progress)
        return embedded.vectors, embedded.stats
    report = progress or _ignore_progress
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    # A file without a name is gone with the process, also with one that is killed. It is written and not mapped until
    # it is whole, since a full disk ends a process that writes to a mapping.
    with tempfile.TemporaryFile(dir=folder) as file:
        for start in range(0, len(texts), most):
            stop = min(start + most, len(texts))

            def report_all(done: int, total: int, stop: int = stop) -> None:
                report(stop - total + done, len(texts))

            part = embed_texts(embedder, texts[start:stop], task=task, cache=cache, progress=report_all)
            file.write(part.vectors.data)
            parts.append(astuple(part.stats))
            del part
        file.flush()
        vectors = np.memmap(file, np.float32, "r", shape=(len(texts), embedder.dimension))
    return vectors, EmbeddingStats(*map(sum, zip(*parts, strict=True)))


def _look_up(
    embedder: Embedder, keys: list[bytes], count: int, cache: EmbeddingCache | None
) -> tuple[NDArray[np.bool_], Vectors]:
    if cache is None:
        return np.zeros(count, np.bool_), np.empty((count, embedder.dimension), np.float32)
    known, vectors = cache.get(keys, embedder.dimension)
    try:
        found = vectors if known.all() else vectors[known]
        require_unit_rows(found, len(found), embedder.dimension, "the cache")
    except EmbeddingError as error:
        raise StateError(
            f"{error}; delete {cache.state.place}, and the next run makes a new one",
            code=error.code,
        ) from error
    return known, vectors


def _begin_anywhere(batches: list[Rows]) -> list[Rows]:
    """Turn the order, so that processes with the same texts begin with different ones.

    The first batch stays: it has the longest texts, and shows at once whether the memory is enough.
    """
    start = int(np.random.default_rng().integers(1, len(batches)))
    return [batches[0], *batches[start:], *batches[1:start]]


def _compute(
    embedder: Embedder,
    texts: list[str],
    token_counts: Rows,
    task: Task,
    batches: Iterable[Rows],
    workers: int,
) -> Iterator[tuple[Rows, Vectors]]:
    """Run a number of batches at a time, or none in a thread of its own, and yield each one when it is finished.

    The caller stores a batch before the next one starts in its place. After a failure no further batch is
    started; the running ones are yielded, and then the error is raised. A batch without texts is left out.
    """
    waiting = (batch for batch in batches if len(batch))
    running: dict[Future[Vectors], Rows] = {}
    failure: BaseException | None = None

    def run(batch: Rows) -> Vectors:
        tokens = int(token_counts[batch].sum())
        with observe("embed", texts=len(batch), tokens=tokens, embedder=embedder.id, task=task):
            vectors = embedder.embed([texts[position] for position in batch], task=task)
        require_unit_rows(vectors, len(batch), embedder.dimension, embedder.id)
        return vectors

    if not workers:
        yield from ((batch, run(batch)) for batch in waiting)
        return
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="embedding") as pool:
        while True:
            while failure is None and len(running) < workers:
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
