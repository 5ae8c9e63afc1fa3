"""Runs and measures one peer in the peer's environment.

There are two steps, since each peer splits texts by its own rules, and the vectors of the splits come from outside.
``split JOB OUT`` writes the texts for which the peer needs vectors. ``search JOB OUT`` indexes and searches.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from benchmarks.machine import peak_memory
from benchmarks.peers.job import (
    Document,
    VectorTable,
    Window,
    read_documents,
    read_windows,
    write_texts,
)

WHOLE_WINDOW = "whole window"
WHOLE_WINDOW_HYBRID = "whole window, hybrid"
OWN_CHUNKS = "own chunks, best score"
OWN_CHUNKS_FUSED = "own chunks, rank fusion"
OWN_CHUNKS_HYBRID = "own chunks, hybrid"
BACKSTORY_CHUNKS = "Backstory's chunks, best score"
METHODS = (
    WHOLE_WINDOW,
    WHOLE_WINDOW_HYBRID,
    OWN_CHUNKS,
    OWN_CHUNKS_FUSED,
    OWN_CHUNKS_HYBRID,
    BACKSTORY_CHUNKS,
)

DOCUMENTS_PER_WINDOW = 10
WHOLE_WINDOW_HITS = 50
"""Chunks per window; more than ``DOCUMENTS_PER_WINDOW``, since several may be of one document."""
CHUNK_HITS = 10
"""Hits per query chunk, as many as Backstory takes when it is scored. A hybrid takes this number from vectors and
again from keywords, as in the peers' examples."""

Found: TypeAlias = tuple[str, float]
"""A document's id and score; a document may occur once for each of its chunks."""


class Peer(Protocol):
    """The protocol of a peer's ``run.py``, constructed with the vectors of documents and of queries."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None: ...

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        """Give the texts that the peer's ingestion pipeline embeds."""
        ...

    def split_window(self, transcript: str) -> list[str]:
        """Split a window with the peer's splitter."""
        ...

    def index(self, documents: Sequence[Document]) -> None:
        """Run the peer's ingestion pipeline, and index the same chunks for keywords."""
        ...

    def ask(self, query: str, as_of: int) -> Iterable[Found]:
        """Retrieve with one query, best first, from documents published at or before ``as_of``."""
        ...

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterable[Found]:
        """Retrieve with each query and rank by best score."""
        ...

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterable[Found]:
        """Retrieve with each query and rank by the peer's reciprocal rank fusion."""
        ...

    def ask_hybrid(self, query: str, as_of: int) -> Iterable[Found]:
        """Retrieve with one query by vectors and by keywords, and fuse the two rankings as the peer does."""
        ...

    def ask_and_fuse_hybrid(self, queries: Sequence[str], as_of: int) -> Iterable[Found]:
        """Retrieve with each query by vectors and by keywords, and fuse all rankings as the peer does."""
        ...


class Measurement:
    """Wall-clock and CPU seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Measure the body of the ``with`` statement."""
        started, worked = time.perf_counter(), time.process_time()
        yield
        self.seconds[step] = {
            "cpu": round(time.process_time() - worked, 3),
            "wall": round(time.perf_counter() - started, 3),
        }


def first_documents(found: Iterable[Found]) -> list[Found]:
    """Keep the first entry of each document, and of these the first ``DOCUMENTS_PER_WINDOW``."""
    best: dict[str, float] = {}
    for doc_id, score in found:
        best.setdefault(doc_id, score)
    return list(best.items())[:DOCUMENTS_PER_WINDOW]


def write_outcome(
    out: Path,
    runs: dict[str, dict[str, list[Found]]],
    measurement: Measurement,
    packages: Sequence[str],
) -> None:
    """Write ranked lists and figures.

    Args:
        out: The JSON file.
        runs: Ranked documents by method and window.
        measurement: Seconds of the step ``index`` and of every method.
        packages: Distributions whose versions are recorded.
    """
    outcome = {
        "runs": runs,
        "seconds": measurement.seconds,
        "peak_memory": peak_memory(),
        "versions": {name: version(name) for name in packages},
    }
    out.write_text(json.dumps(outcome), encoding="utf-8")


def run_peer(make_peer: Callable[[VectorTable, VectorTable], Peer], packages: Sequence[str]) -> None:
    """Run the command line of a peer's ``run.py``.

    Args:
        make_peer: Constructs the peer from the vectors of documents and of queries.
        packages: Distributions whose versions are recorded.
    """
    parser = argparse.ArgumentParser(description=run_peer.__doc__)
    parser.add_argument("step", choices=["split", "search"])
    parser.add_argument("job", type=Path, help="folder with documents, windows and vectors")
    parser.add_argument("out", type=Path, help="split: folder for texts; search: JSON file for the outcome")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="search: default all")
    given = parser.parse_args()
    documents, windows = read_documents(given.job), read_windows(given.job)
    if given.step == "split":
        nothing = VectorTable([], np.zeros((0, 0), np.float32))
        _split(make_peer(nothing, nothing), documents, windows, given.out)
        return
    vectors = [VectorTable.read(given.job / name) for name in ("document-vectors", "query-vectors")]
    measurement = Measurement()
    runs = _search(make_peer(vectors[0], vectors[1]), documents, windows, given.methods, measurement)
    write_outcome(given.out, runs, measurement, packages)


def _split(peer: Peer, documents: Sequence[Document], windows: Sequence[Window], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_texts(out / "document-texts.json", peer.split_documents(documents))
    chunks = [chunk for window in windows for chunk in peer.split_window(window.transcript)]
    write_texts(out / "query-texts.json", chunks)


def _search(
    peer: Peer,
    documents: Sequence[Document],
    windows: Sequence[Window],
    methods: Sequence[str],
    measurement: Measurement,
) -> dict[str, dict[str, list[Found]]]:
    with measurement.measure("index"):
        peer.index(documents)
    answers: dict[str, Callable[[Window], Iterable[Found]]] = {
        WHOLE_WINDOW: lambda window: peer.ask(window.text, window.started_at),
        WHOLE_WINDOW_HYBRID: lambda window: peer.ask_hybrid(window.text, window.started_at),
        OWN_CHUNKS: lambda window: peer.ask_each(peer.split_window(window.transcript), window.started_at),
        OWN_CHUNKS_FUSED: lambda window: peer.ask_and_fuse(
            peer.split_window(window.transcript), window.started_at
        ),
        OWN_CHUNKS_HYBRID: lambda window: peer.ask_and_fuse_hybrid(
            peer.split_window(window.transcript), window.started_at
        ),
        BACKSTORY_CHUNKS: lambda window: peer.ask_each(window.query_chunks, window.started_at),
    }
    runs: dict[str, dict[str, list[Found]]] = {}
    for method in methods:
        with measurement.measure(method):
            runs[method] = {window.window_id: first_documents(answers[method](window)) for window in windows}
    return runs
