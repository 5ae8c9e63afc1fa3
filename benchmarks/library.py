"""Time of searches by the library: cold from the shell, and warm in one process, with and without embedding.

``python -m benchmarks.library --chunks 10000`` writes documents of words by Zipf's law, indexes them with the hashing
embedder or the local model, and prints one JSON line. A cold search is ``backstory search`` in a new process, with
files in the page cache: with a question whose vector is cached, and with one that the model must embed. The first of
each is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from backstory.interfaces.library.library import Library

_WORDS_OF_A_CHUNK = 60
_CHUNKS_OF_A_DOCUMENT = 10
_SETTINGS = "embedding: {provider: PROVIDER}\nchunks: {max_tokens: 72, overlap_tokens: 0}\n"
_VOCABULARY = 20_000


def write_documents(folder: Path, count: int, seed: int = 1) -> None:
    """Write documents of about ten chunks each, whose words are drawn by Zipf's law."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for number in range(count // _CHUNKS_OF_A_DOCUMENT):
        words = random.zipf(1.3, (_CHUNKS_OF_A_DOCUMENT, _WORDS_OF_A_CHUNK)) % _VOCABULARY
        text = "\n\n".join(" ".join(f"w{word}" for word in row) for row in words)
        (folder / f"d{number}.md").write_text(f"# Document {number}\n\n{text}\n", encoding="utf-8")


def make_question(number: int) -> str:
    """Make a question of five words; another number gives another question."""
    words = np.random.default_rng(1000 + number).integers(0, 2000, 5)
    return f"question {number} " + " ".join(f"w{word}" for word in words)


def time_command(arguments: list[str]) -> tuple[float, float]:
    """Run a command of the shell, and give its wall-clock and its CPU seconds."""
    started, before = time.perf_counter(), _cpu_of_children()
    command = [sys.executable, "-c", "from backstory.interfaces.cli.app import main; main()", *arguments]
    subprocess.run(command, check=True, capture_output=True, env=_compiling())
    return time.perf_counter() - started, _cpu_of_children() - before


def _compiling() -> dict[str, str]:
    """Give the environment in which Python keeps what it compiled, as an installed package has it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_statement(statement: str) -> float:
    """Run a statement in a new process that measures it, and give its seconds."""
    code = f"import time; started = time.perf_counter(); {statement}; print(time.perf_counter() - started)"
    return float(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=_compiling()).stdout
    )


def measure(chunks: int, provider: str, repeats: int, questions: int) -> dict[str, Any]:
    """Index documents, and measure searches.

    Args:
        chunks: Number of chunks, about.
        provider: ``hashing`` or ``local``.
        repeats: Number of cold searches of each kind.
        questions: Number of warm searches of each kind.

    Returns:
        The figures by name; durations in seconds.
    """
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "workspace"
        write_documents(root / "posts", chunks)
        (root / "backstory.yaml").write_text(_SETTINGS.replace("PROVIDER", provider), encoding="utf-8")
        with Library.open(root) as library:
            report = library.index()
            asked = [make_question(number) for number in range(questions)]
            library.search(make_question(-1), top_k=5)
            first, first_cpu = _time_all(library, asked)
            again, again_cpu = _time_all(library, asked)
        new = [make_question(questions + number) for number in range(repeats + 1)]
        where = ["-w", str(root), "-k", "5", "--json"]
        cold_new = [time_command(["search", question, *where]) for question in new][1:]
        cold_known = [time_command(["search", new[0], *where]) for _ in range(repeats + 1)][1:]
    return {
        "chunks": report.chunks,
        "provider": provider,
        "index_seconds": report.seconds,
        "files_per_second": round(report.indexed / report.seconds, 1),
        "import_seconds": round(median(time_statement("import backstory") for _ in range(repeats)), 4),
        "cold_known_seconds": round(median(wall for wall, _ in cold_known), 3),
        "cold_known_cpu_seconds": round(median(cpu for _, cpu in cold_known), 3),
        "cold_new_seconds": round(median(wall for wall, _ in cold_new), 3),
        "cold_new_cpu_seconds": round(median(cpu for _, cpu in cold_new), 3),
        "warm_new_p50": round(float(np.percentile(first, 50)), 5),
        "warm_new_p99": round(float(np.percentile(first, 99)), 5),
        "warm_known_p50": round(float(np.percentile(again, 50)), 5),
        "warm_known_p99": round(float(np.percentile(again, 99)), 5),
        "warm_new_cpu_seconds": round(first_cpu, 5),
        "warm_known_cpu_seconds": round(again_cpu, 5),
    }


def _time_all(library: Library, questions: Sequence[str]) -> tuple[list[float], float]:
    """Give the seconds of each search, and the mean CPU seconds of all threads."""
    began = time.process_time()
    taken = [_time(library, question) for question in questions]
    return taken, (time.process_time() - began) / len(questions)


def _time(library: Library, question: str) -> float:
    started = time.perf_counter()
    library.search(question, top_k=5)
    return time.perf_counter() - started


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.library", description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000, help="number of chunks")
    parser.add_argument("--provider", choices=["hashing", "local"], default="hashing")
    parser.add_argument("--repeats", type=int, default=5, help="cold searches of each kind")
    parser.add_argument("--questions", type=int, default=200, help="warm searches of each kind")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.chunks, arguments.provider, arguments.repeats, arguments.questions)))


if __name__ == "__main__":
    main()
