"""Indexes a folder of Markdown files with one system and searches it, in the environment of that system.

Every system cuts the files by its own splitter. Its vectors are those of :func:`embed`, the same for all systems, so
that no model is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.machine import peak_memory

DIMENSION = 384
HITS = 5
CHUNK_CHARACTERS = 1000
OVERLAP_CHARACTERS = 200


class FileSearcher(Protocol):
    """A system that is constructed with an empty folder for its index.

    It may have a method ``measure_parts``, which takes further questions and gives milliseconds by name: of what only
    this system does in a search, or of a search that does less.
    """

    def __init__(self, store: Path) -> None: ...

    def index(self, files: Sequence[Path]) -> int:
        """Read the files, cut, embed and index them, keep the index on disk, and give the number of chunks."""
        ...

    def search(self, question: str) -> int:
        """Embed a question, find the best :data:`HITS` chunks with their texts, and give their number."""
        ...


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Give each text the unit vector that a hash of it draws."""
    return [_draw(text).tolist() for text in texts]


def _draw(text: str) -> Any:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    values = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return values / np.linalg.norm(values)


def run(make_searcher: Callable[[Path], FileSearcher], packages: Sequence[str]) -> None:
    """Run the command line of one system.

    Args:
        make_searcher: Constructs the system.
        packages: Distributions whose versions are recorded.
    """
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("files", type=Path, help="folder of Markdown files")
    parser.add_argument("questions", type=Path, help="JSON list of questions")
    parser.add_argument("store", type=Path, help="folder for the index, which is made")
    parser.add_argument("out", type=Path, help="JSON file for the figures")
    given = parser.parse_args()
    files = sorted(given.files.glob("*.md"))
    questions = json.loads(given.questions.read_text(encoding="utf-8"))
    given.store.mkdir()
    searcher = make_searcher(given.store)
    started, worked = time.perf_counter(), _cpu_seconds()
    chunks = searcher.index(files)
    index = {"wall": time.perf_counter() - started, "cpu": _cpu_seconds() - worked}
    searcher.search(questions[0])  # opens what is opened once
    worked = _cpu_seconds()
    search_ms = [_time(searcher, question) for question in questions[1:]]
    search_cpu_ms = (_cpu_seconds() - worked) / len(search_ms) * 1000
    parts = {"the vector of a question": float(np.median([_time_vector(question) for question in questions]))}
    if hasattr(searcher, "measure_parts"):
        parts |= searcher.measure_parts([f"{question} once more" for question in questions])
    figures = {
        "files": len(files),
        "chunks": chunks,
        "index": index,
        "search_ms": search_ms,
        "search_cpu_ms": search_cpu_ms,
        "parts_ms": parts,
        "peak_memory": peak_memory(),
        "versions": {name: version(name) for name in packages},
    }
    given.out.write_text(json.dumps(figures), encoding="utf-8")


def _time(searcher: FileSearcher, question: str) -> float:
    started = time.perf_counter()
    found = searcher.search(question)
    elapsed = time.perf_counter() - started
    if found != HITS:
        raise RuntimeError(f"{found} hits instead of {HITS}")
    return elapsed * 1000


def _time_vector(question: str) -> float:
    started = time.perf_counter()
    embed([question])
    return (time.perf_counter() - started) * 1000


def _cpu_seconds() -> float:
    """Give the CPU seconds of this process and of those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
