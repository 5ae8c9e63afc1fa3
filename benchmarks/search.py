"""Time of a batch search beside the bare matrix product, and its recall.

``python -m benchmarks.search --n 100000 --q 2000 --dim 384 --engine exact --json`` prints one JSON line. The
index is built, published and searched as in a workspace. Product and search take turns in one process, and their
medians are compared. For one query, the product is of a matrix and a vector. With ``--filter``, the search without a
filter takes turns as well. The time to the first result of a new process is measured separately.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.build import arrange, publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, SearchResult, open_index
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import DocumentChunks, Documents
from benchmarks.machine import blas_kernels, drop_pinned_kernels, peak_memory, reset_peak_memory
from benchmarks.opening import repeat_first_search

CHUNKS_PER_DOCUMENT = 10
ROWS_AT_ONCE = 8192
QUERIES_AT_ONCE = 2048
SCORES_AT_ONCE = QUERIES_AT_ONCE * ROWS_AT_ONCE
JUDGED_QUERIES = 200
OPENINGS = 5
FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)

BoolMask = NDArray[np.bool_]


def make_vectors(
    count: int, dimension: int, seed: int, topics: Vectors | None = None
) -> tuple[Vectors, Vectors]:
    """Draw unit vectors distributed like embeddings of texts: a common mean, topics, and noise.

    Args:
        count: Number of vectors.
        dimension: Width of a vector.
        seed: Seed of the random numbers.
        topics: Topics to draw around; None draws them as well.

    Returns:
        The vectors, shape ``(count, dimension)``, and the topics.
    """
    random = np.random.default_rng(seed)
    if topics is None:
        mean = 0.3 * random.standard_normal(dimension, np.float32)
        topics = mean + random.standard_normal((500, dimension), np.float32)
    vectors = topics[random.integers(0, len(topics), count)]
    for start in range(0, count, ROWS_AT_ONCE):
        block = vectors[start : start + ROWS_AT_ONCE]
        block += random.standard_normal(block.shape, np.float32)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return vectors, topics


def make_tables(count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make documents and chunks with little text; each chunk's id holds the row of its vector.

    One document is published every hour, and every second document has a tag.
    """
    number = pl.int_range(pl.len())
    document_id = pl.format("d{}", number // CHUNKS_PER_DOCUMENT)
    chunks = pl.select(pl.int_range(count).alias("number")).select(
        pl.format("{}#rev:r#p:0#m:b#c:{}", document_id, number).alias("chunk_id"),
        document_id.alias("document_id"),
        pl.lit("r").alias("revision"),
        (number % CHUNKS_PER_DOCUMENT).alias("chunk_index"),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("page_start", "page_end", "confidence")),
        *(pl.lit(1).alias(name) for name in ("line_start", "line_end")),
        *(pl.lit(0).alias(name) for name in ("char_start", "char_end", "token_count")),
        pl.lit("").alias("heading"),
        pl.format("chunk {}", number).alias("text"),
    )
    documents = chunks.select("document_id", "revision").unique(maintain_order=True)
    names = [name for name in Documents.schema if name not in documents.columns]
    values: dict[str, Any] = {
        **dict.fromkeys(("error", "unread", "size", "date_origin", "conversation_id", "language")),
        "page_starts": [],
        "confidences": [],
        "status": "ok",
        "chunker": "markdown",
    }
    documents = documents.with_columns(pl.lit(values.get(name, name)).alias(name) for name in names)
    published = pl.lit(FIRST_DAY) + pl.duration(hours=pl.int_range(pl.len()))
    tags = (
        pl.when(pl.int_range(pl.len()) % 2 == 0)
        .then(pl.lit(["tagged"]))
        .otherwise(pl.lit([], pl.List(pl.String)))
    )
    documents = documents.with_columns(published_at=published, tags=tags)
    return conform(documents, Documents), conform(chunks, DocumentChunks)


def make_filters(name: str, count: int, query_count: int) -> tuple[Filters, BoolMask]:
    """Make one of the measured filters.

    Args:
        name: ``none``, ``as_of`` (times spread over the later half of the documents) or ``tags`` (half the documents).
        count: Number of chunks.
        query_count: Number of queries.

    Returns:
        The filters, and a mask of the chunks that they admit for each query, shape ``(queries, chunks)`` or
        ``(1, chunks)``.
    """
    documents = np.arange(count) // CHUNKS_PER_DOCUMENT
    if name == "as_of":
        latest = np.linspace(documents[-1] // 2, documents[-1], query_count).astype(int)
        moments = [FIRST_DAY + timedelta(hours=int(hours)) for hours in latest]
        return Filters(as_of=moments), documents <= latest[:, None]
    if name == "tags":
        return Filters(tags=["tagged"]), (documents % 2 == 0)[None]
    return Filters(), np.ones((1, count), bool)


def multiply(queries: Vectors, vectors: Vectors, buffer: Vectors) -> None:
    """Compute all similarities by the bare matrix product, without keeping them."""
    if len(queries) == 1:
        np.matmul(vectors, queries[0], out=buffer[: len(vectors)])
        return
    step = SCORES_AT_ONCE // min(len(queries), QUERIES_AT_ONCE)
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        some = queries[first : first + QUERIES_AT_ONCE]
        for start in range(0, len(vectors), step):
            block = vectors[start : start + step]
            out = buffer[: len(some) * len(block)].reshape(len(some), len(block))
            np.matmul(some, block.T, out=out)


def seconds_of(action: Callable[[], object]) -> tuple[float, float]:
    """Measure one call in wall-clock seconds and CPU seconds."""
    started, worked = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - started, time.process_time() - worked


def share_found(
    result: SearchResult, queries: Vectors, vectors: Vectors, top_k: int, admitted: BoolMask
) -> float:
    """Compute the recall of a sample of queries against an oracle that compares every row in double precision."""
    judged = np.unique(np.linspace(0, len(queries) - 1, min(JUDGED_QUERIES, len(queries))).astype(int))
    similarities = np.empty((len(judged), len(vectors)))
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        similarities[:, part] = queries[judged].astype(np.float64) @ vectors[part].astype(np.float64).T
    similarities[~admitted[judged if len(admitted) > 1 else [0] * len(judged)]] = -np.inf
    best = np.argsort(-similarities, axis=1, kind="stable")[:, :top_k]
    number = pl.col("chunk_id").str.extract(r"#c:(\d+)$").cast(pl.Int64)
    found = set(result.hits.select("query", number).iter_rows())
    pairs = [(int(query), int(row)) for query, rows in zip(judged, best, strict=True) for row in rows]
    return sum(pair in found for pair in pairs) / max(1, len(pairs))


def measure(
    count: int, query_count: int, dimension: int, engine: str, top_k: int, repeats: int, filter_name: str
) -> dict[str, Any]:
    """Build, search and compare.

    Args:
        count: Number of chunks.
        query_count: Number of queries in the batch.
        dimension: Width of a vector.
        engine: ``exact`` or ``vss``.
        top_k: Hits per query.
        repeats: Number of measured turns.
        filter_name: ``none``, ``as_of`` or ``tags``.

    Returns:
        The figures by name; sizes in megabytes, durations in seconds.
    """
    vectors, topics = make_vectors(count, dimension, seed=1)
    queries, _ = make_vectors(query_count, dimension, seed=2, topics=topics)
    settings = IndexSettings(ann_min_rows=0 if engine == "vss" else count + 1, language="english")
    with tempfile.TemporaryDirectory() as folder:
        documents, chunks = make_tables(count)
        started = time.perf_counter()
        content = arrange(documents, chunks, vectors, "benchmark", settings)
        recall = publish_content(Path(folder), content, DEFAULT_CALIBRATION).manifest.recall_at_5
        build_seconds = time.perf_counter() - started
        opening = repeat_first_search(Path(folder), min(repeats, OPENINGS))
        with open_index(Path(folder), embedder_id="benchmark") as index:
            figures = _compare(index, queries, vectors, top_k, repeats, filter_name)
    return {
        "n": count,
        "q": query_count,
        "dim": dimension,
        "top_k": top_k,
        "filter": filter_name,
        **figures,
        "build_seconds": round(build_seconds, 3),
        **opening,
        "recall_when_built": recall,
        "repeats": repeats,
        "blas": blas_kernels(),
        "processors": os.cpu_count(),
    }


def _compare(
    index: SearchIndex, queries: Vectors, vectors: Vectors, top_k: int, repeats: int, filter_name: str
) -> dict[str, Any]:
    filters, admitted = make_filters(filter_name, len(vectors), len(queries))

    def search() -> SearchResult:
        return index.search(queries, SearchRequest(top_k=top_k, filters=filters))

    buffer = np.empty(SCORES_AT_ONCE, np.float32)
    multiply(queries, vectors, buffer)
    # Loads the mapped rows first, so that they do not count as memory of the search.
    index.search(queries[:1], SearchRequest(top_k=top_k))
    before = reset_peak_memory()
    result = search()
    extra = peak_memory() - before
    actions = {
        "product": lambda: multiply(queries, vectors, buffer),
        "search": search,
        "unfiltered": lambda: index.search(queries, SearchRequest(top_k=top_k)),
    }
    if filter_name == "none":
        del actions["unfiltered"]
    turns = [{name: seconds_of(action) for name, action in actions.items()} for _ in range(repeats)]
    clock = {name: median(turn[name][0] for turn in turns) for name in actions}
    processor = {name: max(median(turn[name][1] for turn in turns), 1e-9) for name in actions}
    figures = {
        "engine": result.engine,
        "reason": result.reason,
        "seconds": round(clock["search"], 5),
        "sgemm_seconds": round(clock["product"], 5),
        "ratio": round(clock["search"] / clock["product"], 4),
        "cpu_ratio": round(processor["search"] / processor["product"], 4),
        "recall": round(share_found(result, queries, vectors, top_k, admitted), 5),
        "extra_memory_mb": round(extra / 1e6, 1),
    }
    if filter_name != "none":
        figures["filter_ratio"] = round(clock["search"] / clock["unfiltered"], 4)
        figures["filter_cpu_ratio"] = round(processor["search"] / processor["unfiltered"], 4)
    return figures


def main() -> int:
    """Run the benchmark.

    Returns:
        0, or 1 if another engine than the requested one answered.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--n", type=int, default=100_000, help="number of chunks")
    parser.add_argument("--q", type=int, default=2_000, help="number of queries")
    parser.add_argument("--dim", type=int, default=384, help="width of a vector")
    parser.add_argument("--engine", choices=["exact", "vss"], default="exact")
    parser.add_argument("--top-k", type=int, default=5, help="hits per query")
    parser.add_argument("--repeats", type=int, default=7, help="measured turns of product and search")
    parser.add_argument("--filter", choices=["none", "as_of", "tags"], default="none")
    parser.add_argument("--json", action="store_true", help="print the JSON line only, without a summary")
    arguments = parser.parse_args()
    dropped = drop_pinned_kernels("benchmarks.search")
    figures = measure(
        arguments.n,
        arguments.q,
        arguments.dim,
        arguments.engine,
        arguments.top_k,
        arguments.repeats,
        arguments.filter,
    )
    print(json.dumps(figures | {"dropped_environment": dropped}))
    if not arguments.json:
        print(
            f"{figures['engine']}: {figures['seconds']} s, {figures['ratio']} times the bare product "
            f"({figures['sgemm_seconds']} s, {figures['blas']}); recall {figures['recall']}; "
            f"{figures['extra_memory_mb']} MB above the matrix",
            file=sys.stderr,
        )
    return 0 if figures["engine"] == arguments.engine else 1


if __name__ == "__main__":
    sys.exit(main())
