"""Cost and recall of the HNSW index beside the exact search, by number of rows.

``python -m benchmarks.ann --rows 10000 30000 100000`` builds the index over each number of rows. It searches batches
of 1, 100 and 2,000 queries with both engines in turn. It prints CPU milliseconds per query, recall@5, the CPU seconds
of the build, and the number of queries after which the build pays off. ``--vectors`` and ``--queries`` name ``.npy``
files of real unit rows (float32). If ``--vectors`` holds too few rows, further rows are made by moving a row by half
the difference of two other rows, which keeps the directions in which the texts differ. Without these files, vectors
are drawn around random topics.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pymilvus import DataType, MilvusClient

from backstory.index.graph import VssGraph, write_graph
from backstory.index.milvus import widen
from backstory.index.request import Scope, SearchRequest
from backstory.index.scoring import Matches, find_best, pair_similarities
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings
from benchmarks.machine import blas_kernels, drop_pinned_kernels
from benchmarks.search import make_vectors, seconds_of

REQUEST = SearchRequest(top_k=5)
BATCHES = (1, 100, 2_000)
ROWS_AT_ONCE = 8192
MILVUS_TOP_K = 10
MILVUS_BATCHES = (1, 100)
MILVUS_ROWS_AT_ONCE = 2048
MILVUS_KINDS = ("FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW", "HNSW_SQ")
MILVUS_SECONDS = 3600.0


@dataclass(frozen=True)
class Figures:
    """The measurements for one number of rows and one batch size.

    Attributes:
        rows: Number of rows.
        batch: Queries per search.
        exact_ms: CPU milliseconds per query of the exact engine, the median of the repeats.
        vss_ms: CPU milliseconds per query of the HNSW index, the median of the repeats.
        recall: Share of the exact best five that the index finds.
        recall_at_publication: Recall that the publication measures on its sampled queries.
        build_seconds: CPU seconds of the build, without those of a database that has no index.
        pays_after: Queries after which the build pays off; None if it never does.
    """

    rows: int
    batch: int
    exact_ms: float
    vss_ms: float
    recall: float
    recall_at_publication: float
    build_seconds: float
    pays_after: int | None


@dataclass(frozen=True)
class MilvusFigures:
    """The measurements of one kind of index of Milvus, for one number of rows and one batch size.

    Attributes:
        rows: Number of rows.
        kind: The kind of index.
        batch: Queries per search.
        recall: Share of the exact best ten that it finds.
        cpu_ms: CPU milliseconds of this process per query, the median of the repeats.
        wall_ms: Milliseconds per query, the median of the repeats.
        build_cpu_seconds: CPU seconds of this process while the index was built.
        build_seconds: Seconds until it was built.
    """

    rows: int
    kind: str
    batch: int
    recall: float
    cpu_ms: float
    wall_ms: float
    build_cpu_seconds: float
    build_seconds: float


def take_rows(vectors: Vectors, count: int) -> Vectors:
    """Take rows in random order, and make further rows if there are too few.

    Args:
        vectors: Unit rows, shape ``(rows, dimension)``.
        count: Number of rows wanted.

    Returns:
        Unit rows, shape ``(count, dimension)``: the given rows in random order, then rows moved by half the
        difference of two other rows.
    """
    random = np.random.default_rng(3)
    rows = np.empty((count, vectors.shape[1]), np.float32)
    own = min(count, len(vectors))
    rows[:own] = vectors[random.permutation(len(vectors))[:own]]
    for start in range(own, count, ROWS_AT_ONCE):
        block = rows[start : start + ROWS_AT_ONCE]
        row, towards, away = random.integers(0, len(vectors), (3, len(block)))
        block[:] = vectors[row] + np.float32(0.5) * (vectors[towards] - vectors[away])
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def measure(vectors: Vectors, queries: Vectors, settings: IndexSettings, repeats: int) -> list[Figures]:
    """Build the index over some rows and compare it with the exact search.

    Args:
        vectors: Unit rows to index.
        queries: At least one unit row; the rows are repeated up to the largest batch.
        settings: Settings of the HNSW index.
        repeats: Number of measured turns per engine.

    Returns:
        One entry per batch size.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.duckdb"
        _, build = seconds_of(partial(write_graph, path, vectors, settings))
        with closing(VssGraph(path, vectors, settings.ef_search)) as vss:
            published = vss.measure_recall()
            return [
                _compare(
                    vss, vectors, np.resize(queries, (batch, queries.shape[1])), repeats, published, build
                )
                for batch in BATCHES
            ]


def _search_exactly(queries: Vectors, vectors: Vectors, scope: Scope) -> Matches:
    found = find_best(queries, vectors, REQUEST, scope)
    similarity = pair_similarities(queries, vectors, found.query, found.row)
    return Matches(found.query, found.row, similarity)


def _compare(
    vss: VssGraph, vectors: Vectors, queries: Vectors, repeats: int, published: float, build: float
) -> Figures:
    scope = Scope(len(vectors), np.full(len(queries), len(vectors)), None)
    turns = [
        (
            _milliseconds(lambda: _search_exactly(queries, vectors, scope)),
            _milliseconds(lambda: vss.search(queries, REQUEST, scope)),
        )
        for _ in range(repeats)
    ]
    exact_ms, vss_ms = (median(times) / len(queries) for times in zip(*turns, strict=True))
    gain = (exact_ms - vss_ms) / 1e3
    return Figures(
        rows=len(vectors),
        batch=len(queries),
        exact_ms=round(exact_ms, 4),
        vss_ms=round(vss_ms, 4),
        recall=vss.measure_recall(queries),
        recall_at_publication=published,
        build_seconds=round(build, 2),
        pays_after=round(build / gain) if gain > 0 else None,
    )


def measure_milvus(
    uri: str,
    vectors: Vectors,
    queries: Vectors,
    settings: IndexSettings,
    repeats: int,
    *,
    chosen: Sequence[str],
    is_lite: bool,
) -> Iterator[MilvusFigures]:
    """Build some kinds of index of Milvus over some rows, and search them.

    Args:
        uri: Address of the server.
        vectors: Unit rows to index.
        queries: Unit rows to search for, at least one.
        settings: Settings of the HNSW index.
        repeats: Number of measured turns.
        chosen: The kinds.
        is_lite: Whether the server is Milvus Lite.

    Yields:
        One entry per kind and batch size.
    """
    name = "backstory_benchmark"
    graph = {"M": settings.hnsw_m, "efConstruction": settings.hnsw_ef_construction}
    width = {"ef": widen(settings.ef_search, len(vectors), MILVUS_TOP_K)}
    lists = {"nlist": max(1, round(4 * len(vectors) ** 0.5))}
    kinds: dict[str, tuple[dict[str, int], dict[str, int]]] = {
        "FLAT": ({}, {}),
        "IVF_FLAT": (lists, {"nprobe": 16}),
        "IVF_SQ8": (lists, {"nprobe": 16}),
        "HNSW": (graph, width),
        "HNSW_SQ": ({**graph, "sq_type": 8}, width),
    }
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :MILVUS_TOP_K]
    with closing(MilvusClient(uri=uri)) as client:
        client.drop_collection(name)
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
        client.create_collection(name, schema=schema, consistency_level="Strong")
        for start in range(0, len(vectors), MILVUS_ROWS_AT_ONCE):
            block = enumerate(vectors[start : start + MILVUS_ROWS_AT_ONCE], start)
            client.insert(name, [{"row": row, "vector": vector} for row, vector in block])
        client.flush(name)
        for kind in chosen:
            build_params, search_params = kinds[kind]
            index = client.prepare_index_params()
            # Milvus Lite reads these parameters one level deeper than a server.
            params = {"params": build_params} if is_lite else build_params
            index.add_index("vector", index_type=kind, metric_type="COSINE", params=params)

            def build(index: Any = index) -> None:
                client.create_index(name, index, timeout=MILVUS_SECONDS)
                client.load_collection(name)

            wall, cpu = seconds_of(build)

            def search(asked: Vectors, params: Any = search_params) -> list[list[int]]:
                answers = client.search(
                    name,
                    data=list(asked),
                    limit=MILVUS_TOP_K,
                    output_fields=["row"],
                    search_params={"params": params},
                )
                return [[hit["entity"]["row"] for hit in hits] for hits in answers]

            found = search(queries)
            recall = sum(len({*hits} & {*best}) for hits, best in zip(found, exact.tolist(), strict=True))
            for batch in MILVUS_BATCHES:
                turns = [
                    seconds_of(partial(search, queries[turn * batch :][:batch]))
                    for turn in range(min(repeats, len(queries) // batch))
                ]
                walls, cpus = zip(*turns, strict=True)
                yield MilvusFigures(
                    rows=len(vectors),
                    kind=kind,
                    batch=batch,
                    recall=round(recall / exact.size, 4),
                    cpu_ms=round(median(cpus) * 1e3 / batch, 3),
                    wall_ms=round(median(walls) * 1e3 / batch, 3),
                    build_cpu_seconds=round(cpu, 1),
                    build_seconds=round(wall, 1),
                )
            client.release_collection(name)
            client.drop_index(name, "vector")
        client.drop_collection(name)


@contextmanager
def serve(named: str) -> Iterator[str]:
    """Yield the address of a server: the given one, or that of Milvus Lite, which runs meanwhile."""
    if named != "lite":
        yield named
        return
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    with tempfile.TemporaryDirectory() as folder:
        server, database, port = start_server_in_thread(data_dir=folder, host="127.0.0.1", port=0)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.stop(grace=0).wait()
            database.close()


def _milliseconds(action: Callable[[], object]) -> float:
    return seconds_of(action)[1] * 1e3


def main() -> int:
    """Run the benchmark.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ann", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000], help="numbers of rows")
    parser.add_argument("--vectors", type=Path, help="unit rows to index (.npy)")
    parser.add_argument("--queries", type=Path, help="unit rows to search for (.npy)")
    parser.add_argument("--dim", type=int, default=384, help="width of drawn vectors")
    parser.add_argument("--repeats", type=int, default=5, help="measured turns per engine")
    parser.add_argument(
        "--milvus", metavar="ADDRESS", help="measure Milvus: `lite`, or the address of a server"
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=MILVUS_KINDS, default=MILVUS_KINDS, help="indexes of Milvus"
    )
    parser.add_argument("--m", type=int, default=IndexSettings().hnsw_m, help="index.hnsw_m")
    parser.add_argument("--ef-construction", type=int, default=IndexSettings().hnsw_ef_construction)
    parser.add_argument("--ef-search", type=int, default=IndexSettings().ef_search)
    arguments = parser.parse_args()
    dropped = drop_pinned_kernels("benchmarks.ann")
    settings = IndexSettings(
        hnsw_m=arguments.m, hnsw_ef_construction=arguments.ef_construction, ef_search=arguments.ef_search
    )
    drawn, topics = make_vectors(1 if arguments.vectors else max(arguments.rows), arguments.dim, seed=1)
    vectors = np.load(arguments.vectors) if arguments.vectors else drawn
    queries = np.load(arguments.queries) if arguments.queries else None
    if queries is None:
        queries, _ = make_vectors(max(BATCHES), arguments.dim, seed=2, topics=topics)
    about = {"blas": blas_kernels(), "processors": os.cpu_count(), "dropped_environment": dropped}
    if arguments.milvus:
        with serve(arguments.milvus) as uri:
            for count in arguments.rows:
                rows = take_rows(vectors, count)
                measured = measure_milvus(
                    uri,
                    rows,
                    queries,
                    settings,
                    arguments.repeats,
                    chosen=arguments.kinds,
                    is_lite=arguments.milvus == "lite",
                )
                for found in measured:
                    print(json.dumps(asdict(found) | about), flush=True)
        return 0
    for count in arguments.rows:
        for figures in measure(take_rows(vectors, count), queries, settings, arguments.repeats):
            print(json.dumps(asdict(figures) | about), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
