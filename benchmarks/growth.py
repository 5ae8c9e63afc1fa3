"""Cost of a search by number of chunks, for every ranking.

``python -m benchmarks.growth --rows 1000 10000 100000 1000000`` builds an index over each number of chunks, with 60
words per chunk and vectors around topics. It searches a batch of queries of 30 words. It prints CPU seconds and size
of the build, wall and CPU milliseconds per query, and the memory of the search.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import get_args

import numpy as np
import polars as pl

from backstory.index.build import arrange, publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import Ranking, SearchRequest
from backstory.index.search import SearchIndex, open_index
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings
from benchmarks.machine import blas_kernels, drop_pinned_kernels, peak_memory, reset_peak_memory
from benchmarks.search import make_tables, make_vectors, seconds_of

WORDS_PER_CHUNK = 60
WORDS_PER_QUERY = 30
VOCABULARY = 50_000
STOP_WORDS = 150
TEXTS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Figures:
    """The cost of one ranking for one number of chunks.

    Attributes:
        rows: Number of chunks.
        queries: Queries per search.
        ranking: dense, keyword or hybrid.
        engine: Engine that answered.
        wall_ms: Wall-clock milliseconds per query, the median of the repeats.
        cpu_ms: CPU milliseconds per query, the median of the repeats.
        extra_memory_mb: Peak memory of the search above the memory before it, with the stored vectors that it reads.
        build_cpu_seconds: CPU seconds to build and publish the index.
        build_memory_mb: Peak memory of the build above the memory before it, which held the input.
        disk_mb: Size of the snapshot in megabytes.
    """

    rows: int
    queries: int
    ranking: str
    engine: str
    wall_ms: float
    cpu_ms: float
    extra_memory_mb: float
    build_cpu_seconds: float
    build_memory_mb: float
    disk_mb: float


def make_texts(count: int, words: int, seed: int) -> pl.Series:
    """Draw texts with the word frequencies of a language: Zipf's law without stop words.

    Args:
        count: Number of texts.
        words: Words per text.
        seed: Seed of the random numbers.

    Returns:
        The texts.
    """
    random = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(STOP_WORDS, STOP_WORDS + VOCABULARY))
    names = pl.select(pl.format("w{}", pl.int_range(VOCABULARY))).to_series()
    parts = []
    for start in range(0, count, TEXTS_AT_ONCE):
        size = min(TEXTS_AT_ONCE, count - start)
        drawn = np.searchsorted(shares, random.random(size * words) * shares[-1])
        parts.append(names.gather(drawn).reshape((size, words)).arr.join(" "))
    return pl.concat(parts) if parts else pl.Series(dtype=pl.String)


def measure(rows: int, queries: int, dimension: int, repeats: int, approximate: bool) -> list[Figures]:
    """Build one index and search it by every ranking.

    Args:
        rows: Number of chunks.
        queries: Queries per search.
        dimension: Width of a vector.
        repeats: Number of measured turns per ranking.
        approximate: Whether the index has an HNSW graph.

    Returns:
        One entry per ranking.
    """
    vectors, topics = make_vectors(rows, dimension, seed=1)
    asked, _ = make_vectors(queries, dimension, seed=2, topics=topics)
    texts = make_texts(queries, WORDS_PER_QUERY, seed=3).to_list()
    documents, chunks = make_tables(rows)
    chunks = chunks.with_columns(text=make_texts(rows, WORDS_PER_CHUNK, seed=4))
    settings = IndexSettings(ann_min_rows=0 if approximate else rows + 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = reset_peak_memory()
        _, build_seconds = seconds_of(partial(_build, folder, documents, chunks, vectors, settings))
        memory = round((peak_memory() - before) / 1e6, 1)
        disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        del documents, chunks, vectors
        with open_index(folder, embedder_id="benchmark") as index:
            return [
                Figures(
                    rows, queries, ranking, *figures, round(build_seconds, 2), memory, round(disk / 1e6, 1)
                )
                for ranking, figures in _ask(index, asked, texts, repeats).items()
            ]


def _build(
    folder: Path, documents: pl.DataFrame, chunks: pl.DataFrame, vectors: Vectors, settings: IndexSettings
) -> None:
    content = arrange(documents, chunks, vectors, "benchmark", settings)
    publish_content(folder, content, DEFAULT_CALIBRATION)


def _ask(
    index: SearchIndex, queries: Vectors, texts: list[str], repeats: int
) -> dict[str, tuple[str, float, float, float]]:
    """Give the engine, wall and CPU milliseconds per query, and megabytes of each ranking."""
    rankings: tuple[Ranking, ...] = get_args(Ranking)
    before = reset_peak_memory()
    engines, memory = {}, {}
    for ranking in rankings:
        engines[ranking] = index.search(queries, SearchRequest(top_k=5, ranking=ranking), texts=texts).engine
        memory[ranking] = (peak_memory() - before) / 1e6
    turns = [
        {
            ranking: seconds_of(
                partial(index.search, queries, SearchRequest(top_k=5, ranking=ranking), texts=texts)
            )
            for ranking in rankings
        }
        for _ in range(repeats)
    ]
    per_query = 1e3 / len(queries)
    return {
        ranking: (
            engines[ranking],
            round(median(turn[ranking][0] for turn in turns) * per_query, 4),
            round(median(turn[ranking][1] for turn in turns) * per_query, 4),
            round(memory[ranking], 1),
        )
        for ranking in rankings
    }


def main() -> int:
    """Run the benchmark.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=500, help="queries per search")
    parser.add_argument("--dim", type=int, default=384, help="width of a vector")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--approximate", action="store_true", help="build an HNSW graph")
    arguments = parser.parse_args()
    dropped = drop_pinned_kernels("benchmarks.growth")
    about = {"blas": blas_kernels(), "processors": os.cpu_count(), "dropped_environment": dropped}
    for rows in arguments.rows:
        for figures in measure(
            rows, arguments.queries, arguments.dim, arguments.repeats, arguments.approximate
        ):
            print(json.dumps(asdict(figures) | about), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
