"""Time to the first result: a snapshot opened and searched once, beside a mapped matrix.

``python -m benchmarks.opening FOLDER`` opens the published snapshot of a folder in a process that has only
imported the library, and prints one JSON line. The reference maps the same file of vectors and multiplies it by one
query. Run it twice: the first run also reads the files into the system's page cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from backstory.index.request import SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import VECTORS_FILE, current_version


def measure_first_search(folder: Path) -> dict[str, float]:
    """Open a snapshot and search once, then do the same with numpy alone.

    Args:
        folder: The folder of the index.

    Returns:
        Seconds by name.
    """
    version = current_version(folder)
    query = np.load(folder / str(version) / VECTORS_FILE, mmap_mode="r")[:1].copy()
    _ = np.ones((64, query.shape[1]), np.float32) @ query[0]
    started = time.perf_counter()
    mapped = np.load(folder / str(version) / VECTORS_FILE, mmap_mode="r")
    similarities = mapped @ query[0]
    best = np.argpartition(similarities, -5)[-5:]
    plain = time.perf_counter() - started
    started = time.perf_counter()
    with open_index(folder) as index:
        opened = time.perf_counter() - started
        found = index.search(query, SearchRequest(top_k=5))
        answered = time.perf_counter() - started
    if found.hits.height != len(best):
        raise SystemExit(f"found {found.hits.height} hits in {folder}, and {len(best)} without the index")
    return {"open_seconds": opened, "first_search_seconds": answered, "first_product_seconds": plain}


def repeat_first_search(folder: Path, repeats: int) -> dict[str, float]:
    """Compute the medians of :func:`measure_first_search` over new processes.

    Args:
        folder: The folder of the index.
        repeats: Number of measured processes, after one for warm-up.

    Returns:
        Seconds by name, and ``first_search_ratio``.
    """
    command = [sys.executable, "-m", "benchmarks.opening", str(folder)]
    turns = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats + 1)
    ][1:]
    figures = {name: median(turn[name] for turn in turns) for name in turns[0]}
    ratio = figures["first_search_seconds"] / figures["first_product_seconds"]
    return {name: round(value, 5) for name, value in (figures | {"first_search_ratio": ratio}).items()}


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.opening", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the index")
    print(json.dumps(measure_first_search(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
