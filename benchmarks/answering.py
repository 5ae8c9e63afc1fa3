"""Cost of making contexts for windows: index, hits, decisions, contexts, tables.

``python -m benchmarks.answering`` prints one line of JSON. Vectors are given. The reference does the same work with
numpy, a dictionary and one Parquet file per table, without checks, causes or publication. Library and reference take
turns in one process; times are CPU seconds, medians of the repeats.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.build import arrange, publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.search import open_index
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.contexts import make_window_contexts
from backstory.settings.models import ContextSettings, IndexSettings, RAGSettings
from backstory.storage.schema import CATALOG
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder
from backstory.storage.tables import schemas
from backstory.storage.tables.catalog import Catalog
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.tables import Made, Tables
from benchmarks.machine import blas_kernels, drop_pinned_kernels
from benchmarks.search import make_tables, make_vectors

TOP_K = 5
MIN_SIMILARITY = 0.5
FIRST_WINDOW = datetime(2025, 1, 15, tzinfo=UTC)
WORDS = [
    "bread",
    "recipe",
    "oven",
    "needs",
    "flour",
    "water",
    "salt",
    "night",
    "rest",
    "whole",
    "cold",
    "rises",
]


def make_windows(windows: int, chunks_per_window: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make tables ``windows`` and ``window_chunks``."""
    ids = [f"w{number}" for number in range(windows)]
    started = [FIRST_WINDOW + timedelta(hours=number) for number in range(windows)]
    frame = pl.DataFrame(
        {
            "window_id": ids,
            "conversation_id": "team",
            "partition": "2025-01-15",
            "started_at": started,
            "ended_at": started,
            "timezone": "UTC",
            "message_count": 50,
            "token_count": 500,
            "message_ids": [[f"{number}-m"] for number in range(windows)],
        }
    )
    total = windows * chunks_per_window
    number = pl.int_range(total)
    chunks = pl.select(
        pl.format("c{}", number).alias("chunk_id"),
        pl.format("w{}", number // chunks_per_window).alias("window_id"),
        pl.lit("messages:4").alias("granularity"),
        (number % chunks_per_window).alias("chunk_index"),
        pl.format("what was said {}", number).alias("text"),
        *(pl.lit(0).alias(name) for name in ("token_count", "first_message", "last_message")),
    )
    return conform(frame, schemas.Windows), conform(chunks, schemas.WindowChunks)


def make_corpus(chunk_count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make tables ``documents`` and ``document_chunks`` with about 400 characters per chunk."""
    documents, chunks = make_tables(chunk_count)
    random = np.random.default_rng(3)
    texts = [" ".join(random.choice(WORDS, 80)) for _ in range(500)]
    return documents, chunks.with_columns(text=pl.Series([texts[row % 500] for row in range(chunk_count)]))


class Task:
    """The same work for the library and for the reference.

    Args:
        chunk_count: Number of stored chunks.
        windows: Number of windows.
        chunks_per_window: Query chunks of each window.
        dimension: Width of a vector.
        folder: Output folder of both.
        strategy: The library's ``rag.strategy``; the reference always selects by similarity.
    """

    def __init__(
        self,
        chunk_count: int,
        windows: int,
        chunks_per_window: int,
        dimension: int,
        folder: Path,
        strategy: Literal["similarity", "coverage"],
    ) -> None:
        self.strategy = strategy
        self.folder = folder
        self.vectors, topics = make_vectors(chunk_count, dimension, seed=1)
        self.queries, _ = make_vectors(windows * chunks_per_window, dimension, seed=2, topics=topics)
        self.documents, self.chunks = make_corpus(chunk_count)
        self.windows, self.window_chunks = make_windows(windows, chunks_per_window)
        self.turn = count()

    def build(self) -> Path:
        """Build and publish the index."""
        folder = self.folder / f"index-{next(self.turn)}"
        settings = IndexSettings(ann_min_rows=len(self.chunks) + 1)
        content = arrange(self.documents, self.chunks, self.vectors, "given", settings)
        publish_content(folder, content, DEFAULT_CALIBRATION)
        return folder

    def answer(self, index_folder: Path) -> dict[str, pl.DataFrame]:
        """Make the contexts of all windows and write the four tables."""
        rag = RAGSettings(ranking="dense", dedup_max_per_doc=1, strategy=self.strategy, top_k=TOP_K)
        context = ContextSettings()
        with open_index(index_folder, embedder_id="given") as index:
            retrieval = Retrieval(index=index, rag=rag, context=context)
            found = retrieval.run(self.windows, self.window_chunks, self.queries)
            _, assessments = retrieval.assess(self.windows, self.window_chunks, found.decisions)
            summary = make_window_contexts(
                self.windows,
                self.window_chunks,
                found.decisions,
                found.contexts,
                assessments,
                messages=self.windows.select(
                    "window_id",
                    messages=pl.lit(""),
                    said_count="message_count",
                    local_started_at=pl.col("started_at").dt.replace_time_zone(None),
                    local_ended_at=pl.col("ended_at").dt.replace_time_zone(None),
                ),
                settings=context,
                enabled=True,
                hits=found.hits,
                embedder_id="given",
                index_version=index.manifest.version,
                settings_hash="none",
            )
        tables = {
            "hits": found.hits,
            "decisions": found.decisions,
            "contexts": found.contexts,
            "window_contexts": summary,
        }
        root = self.folder / f"tables-{next(self.turn)}"
        stored = Tables(Folder(root), Catalog(open_state(root, None, CATALOG)))
        stored.commit({(name, "2025-01-15"): Made(frame, "") for name, frame in tables.items()})
        return tables

    def build_plainly(self) -> Path:
        """Save the vectors and the chunks as plain files."""
        folder = self.folder / f"plain-{next(self.turn)}"
        folder.mkdir()
        np.save(folder / "vectors.npy", self.vectors)
        self.chunks.write_parquet(folder / "chunks.parquet")
        return folder

    def answer_plainly(self, folder: Path) -> dict[str, list[str]]:
        """Do the work of :meth:`answer` with numpy and a dictionary.

        Returns:
            The ids of the chunks that each window found.
        """
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        stored = pl.read_parquet(folder / "chunks.parquet")
        per_query = RAGSettings().chunks_per_query
        rows, scores = _best_rows(self.queries, vectors, per_query)
        chunk_ids, documents, texts = (stored[name].to_list() for name in ("chunk_id", "document_id", "text"))
        owners = self.window_chunks["window_id"].to_list()
        hits = {
            "window_id": np.repeat(np.array(owners, object), per_query),
            "query": np.repeat(np.arange(len(rows)), per_query),
            "chunk_id": [chunk_ids[row] for row in rows.ravel().tolist()],
            "similarity": scores.ravel(),
        }
        best: dict[str, dict[str, tuple[float, int]]] = {}
        for owner, some_rows, some_scores in zip(owners, rows.tolist(), scores.tolist(), strict=True):
            found = best.setdefault(owner, {})
            for row, score in zip(some_rows, some_scores, strict=True):
                known = found.get(documents[row])
                if score >= MIN_SIMILARITY and (known is None or score > known[0]):
                    found[documents[row]] = (score, row)
        chosen = {
            owner: [row for _, row in sorted(found.values(), reverse=True)[:TOP_K]]
            for owner, found in best.items()
        }
        contexts = [(owner, row) for owner, picked in chosen.items() for row in picked]
        pl.DataFrame(hits).write_parquet(folder / "hits.parquet", compression="zstd")
        pl.DataFrame(
            {
                "window_id": [owner for owner, _ in contexts],
                "chunk_id": [chunk_ids[row] for _, row in contexts],
                "content": [texts[row] for _, row in contexts],
            }
        ).write_parquet(folder / "contexts.parquet", compression="zstd")
        written = {owner: "\n\n".join(texts[row] for row in picked) for owner, picked in chosen.items()}
        pl.DataFrame({"window_id": list(written), "text": list(written.values())}).write_parquet(
            folder / "window_contexts.parquet", compression="zstd"
        )
        found_rows: dict[str, list[str]] = {}
        for owner, some_rows in zip(owners, rows.tolist(), strict=True):
            found_rows.setdefault(owner, []).extend(chunk_ids[row] for row in some_rows)
        return found_rows


def _best_rows(queries: Vectors, vectors: Vectors, top_k: int) -> tuple[NDArray[np.int64], Vectors]:
    rows, scores = [], []
    for start in range(0, len(queries), 512):
        similarities = queries[start : start + 512] @ vectors.T
        found = np.argpartition(similarities, -top_k, axis=1)[:, -top_k:]
        rows.append(found)
        scores.append(np.take_along_axis(similarities, found, axis=1))
    return np.vstack(rows), np.vstack(scores)


def cpu_seconds(action: Callable[[], object]) -> float:
    """Measure the CPU seconds of one call."""
    started = time.process_time()
    action()
    return time.process_time() - started


def share_alike(found: dict[str, pl.DataFrame], plain: dict[str, list[str]]) -> float:
    """Return the share of windows for which both found the same chunks.

    What they choose of these differs: only the library drops the improbable ones.
    """
    own = dict(found["hits"].group_by("window_id").agg("chunk_id").iter_rows())
    return float(np.mean([set(own[window_id]) == set(chunk_ids) for window_id, chunk_ids in plain.items()]))


def measure(task: Task, repeats: int) -> dict[str, float]:
    """Run library and reference in turn.

    Args:
        task: The work to measure.
        repeats: Number of measured turns.

    Returns:
        CPU seconds and ratios by name.
    """
    index, plain = task.build(), task.build_plainly()
    alike = share_alike(task.answer(index), task.answer_plainly(plain))
    actions: dict[str, Callable[[], object]] = {
        "index": task.build,
        "answer": lambda: task.answer(index),
        "index_reference": task.build_plainly,
        "answer_reference": lambda: task.answer_plainly(plain),
    }
    turns = [{name: cpu_seconds(action) for name, action in actions.items()} for _ in range(repeats)]
    seconds = {name: median(turn[name] for turn in turns) for name in actions}
    both = (seconds["index"] + seconds["answer"]) / (seconds["index_reference"] + seconds["answer_reference"])
    figures = {f"{name}_cpu_seconds": round(value, 4) for name, value in seconds.items()}
    return figures | {
        "ratio": round(both, 3),
        "answer_ratio": round(seconds["answer"] / seconds["answer_reference"], 3),
        "windows_alike": alike,
    }


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answering", description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--windows", type=int, default=500)
    parser.add_argument("--chunks-per-window", type=int, default=6)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--strategy", choices=["similarity", "coverage"], default="similarity")
    parser.add_argument("--profile", action="store_true", help="print profiles of both parts")
    given = parser.parse_args()
    dropped = drop_pinned_kernels("benchmarks.answering")
    with tempfile.TemporaryDirectory() as folder:
        task = Task(
            given.chunks, given.windows, given.chunks_per_window, given.dim, Path(folder), given.strategy
        )
        if given.profile:
            index = task.build()
            for action in (task.build, lambda: task.answer(index)):
                profile = cProfile.Profile()
                profile.runcall(action)
                pstats.Stats(profile, stream=sys.stderr).sort_stats("cumtime").print_stats(45)
        figures = measure(task, given.repeats)
    sizes = {"chunks": given.chunks, "windows": given.windows, "queries": len(task.queries)}
    line = {
        "benchmark": "answering",
        **sizes,
        "dim": given.dim,
        "strategy": given.strategy,
        **figures,
        "repeats": given.repeats,
    }
    print(json.dumps(line | {"blas": blas_kernels(), "dropped_environment": dropped}))


if __name__ == "__main__":
    main()
