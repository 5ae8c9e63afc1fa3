"""Backstory in a separate process, with the retrieval that ``backstory eval`` scores.

All vectors are in the cache, where :mod:`benchmarks.peers.preparation` put them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from backstory.operations.evaluation import (
    ask_windows,
    embed_windows,
    index_documents,
    rank_documents,
)
from backstory.retrieval.assembly import Retrieval
from benchmarks.peers.driver import Found, Measurement, write_outcome
from benchmarks.peers.preparation import Space, read_sample

METHOD = "its own way"


def main() -> None:
    """Index the documents, search for the windows, and write the outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="labelled set")
    parser.add_argument("out", type=Path, help="JSON file for the outcome")
    parser.add_argument("--windows", type=int, help="most windows per group")
    given = parser.parse_args()
    labelled = read_sample(given.folder, given.windows)
    space = Space.open()
    measurement = Measurement()
    with tempfile.TemporaryDirectory(prefix="backstory-peers-") as scratch:
        with measurement.measure("index"):
            index, _ = index_documents(Path(scratch), labelled, space.settings, space.embedder, space.cache)
        with index, measurement.measure(METHOD):
            chunks, vectors = embed_windows(labelled, space.settings, space.embedder, space.cache)
            retrieval = Retrieval.from_settings(space.settings, index)
            queries, hits = ask_windows(labelled, chunks, vectors, retrieval)
            ranked = rank_documents(chunks, queries, hits, retrieval)
    runs: dict[str, list[Found]] = {}
    for window_id, doc_id, score in ranked.select("window_id", "doc_id", "score").iter_rows():
        runs.setdefault(window_id, []).append((doc_id, score))
    write_outcome(given.out, {METHOD: runs}, measurement, ["backstory"])


if __name__ == "__main__":
    main()
