"""Texts to vectors: each distinct text once, cached where possible, and every computed vector checked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.ids import digest
from backstory.base.telemetry import bind, log_event, observe
from backstory.models.embeddings.protocol import (
    Embedder,
    Task,
    Vectors,
    require_text,
    require_unit_rows,
    require_within_limit,
)
from backstory.storage.cache import Cache
from backstory.storage.state import State

logger = logging.getLogger(__name__)

ReportProgress: TypeAlias = Callable[[int, int], None]
Rows: TypeAlias = NDArray[np.int64]

_NUMBER: Final = np.dtype("<f4")


def embedding_key(embedder_id: str, task: Task, text: str) -> bytes:
    """Make the key of a text's vector: 16 bytes of BLAKE2b over embedder, task and text."""
    return bytes.fromhex(digest([embedder_id, task, text], length=32))


class EmbeddingCache(Cache):
    """Stores vectors by key. If two processes store the same key, the first vector stays."""

    def __init__(self, state: State) -> None:
        """Use the cache of a workspace or of a machine; the first :meth:`put` makes it."""
        super().__init__(state, "vector")

    def get(self, keys: Sequence[bytes], dimension: int) -> tuple[NDArray[np.bool_], Vectors]:
        """Look up many distinct keys at once: a mask of the known ones, and a row for each, undefined where unknown."""
        known = np.zeros(len(keys), np.bool_)
        vectors = np.empty((len(keys), dimension), np.float32)
        positions = {key: position for position, key in enumerate(keys)}
        for key, value in self.find(keys):
            if len(value) == dimension * _NUMBER.itemsize:
                known[positions[key]] = True
                vectors[positions[key]] = np.frombuffer(value, _NUMBER)
        return known, vectors

    def put(self, embedder_id: str, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Store vectors of one embedding space, shape ``(len(keys), dimension)``, all of them or none."""
        blobs = map(bytes, np.ascontiguousarray(vectors, _NUMBER))
        owner = embedder_id.encode()
        self.put_rows(((key, owner, blob) for key, blob in zip(keys, blobs, strict=True)), replace=False)


@dataclass(frozen=True)
class EmbeddingStats:
    """The figures of one call of :func:`embed_texts`; the tokens are those of the computed texts."""

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
    """Float32 unit rows in the order of the texts, shape ``(texts, dimension)``, and the figures of the call."""

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
    """Embed any number of texts, repeated ones once; without a cache all are computed and none is stored.

    Each finished batch is stored at once, so a killed process loses at most one batch for each worker. ``progress`` is
    told the distinct texts done and their total. A text over the limit is an ``InputError`` before anything is
    computed.
    """
    started, calls_before = time.perf_counter(), embedder.api_calls
    require_text(texts)
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    unique = list(row_of)
    keys = [embedding_key(embedder.id, task, text) for text in unique] if cache else []
    known, vectors = np.zeros(len(unique), np.bool_), np.empty((len(unique), embedder.dimension), np.float32)
    if cache:
        known, vectors = cache.get(keys, embedder.dimension)
    missing = np.flatnonzero(~known)
    report = progress or (lambda _done, _total: None)
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
        if cache is None or len(batches) == 1:
            return batch
        rows = missing[batch]
        stored, found = cache.get([keys[row] for row in rows], embedder.dimension)
        vectors[rows[stored]] = found[stored]
        known[rows[stored]] = True
        return batch[~stored]

    def run(batch: Rows) -> Vectors:
        tokens = int(token_counts[batch].sum())
        with observe("embed", texts=len(batch), tokens=tokens, embedder=embedder.id, task=task):
            computed = embedder.embed([missing_texts[position] for position in batch], task=task)
        require_unit_rows(computed, len(batch), embedder.dimension, embedder.id)
        return computed

    batches = embedder.plan_batches(token_counts)
    if cache and len(batches) > 1:
        # Processes with the same texts begin with different ones, but for the longest, which show whether the memory is
        # enough.
        turn = int(np.random.default_rng().integers(1, len(batches)))
        batches = [batches[0], *batches[turn:], *batches[1:turn]]
    for batch, computed in _run_batches(run, map(find_left, batches), embedder.workers):
        rows = missing[batch]
        if cache:
            cache.put(embedder.id, [keys[row] for row in rows], computed)
        vectors[rows] = computed
        known[rows] = own[batch] = True
        report(int(known.sum()), len(unique))
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


def _run_batches(
    run: Callable[[Rows], Vectors], batches: Iterable[Rows], workers: int
) -> Iterator[tuple[Rows, Vectors]]:
    """Run a number of batches at a time, and yield each one when it is finished, before another starts in its place.

    After a failure the running ones are yielded, and then the error is raised. A batch without texts is left out.
    """
    waiting = (batch for batch in batches if len(batch))
    failure: BaseException | None = None
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="embedding") as pool:
        running: dict[Future[Vectors], Rows] = {
            pool.submit(bind(run), batch): batch for batch in islice(waiting, workers)
        }
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            failure = failure or next(filter(None, (future.exception() for future in finished)), None)
            for future in finished:
                batch = running.pop(future)
                if future.exception() is None:
                    yield batch, future.result()
                for following in islice(waiting, 0 if failure else 1):
                    running[pool.submit(bind(run), following)] = following
    if failure is not None:
        raise failure
