"""Indexing and searching a folder of files, beside LlamaIndex, LangChain with Chroma, and Haystack.

``python -m benchmarks.files --files 1000`` writes Markdown files of words by Zipf's law. Every system indexes them in
a process and an environment of its own, keeps its index on disk, and answers the same questions one by one; all have
the same vectors. The systems take turns. The table has medians of the turns, and below it what a search holds.
``--only Backstory`` leaves the other systems out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from backstory.base.environment import cache_folder
from benchmarks.growth import make_texts
from benchmarks.peers.environments import make_environment, run_module

SYSTEMS = {
    "Backstory": "benchmarks.peers.backstory_files",
    "LlamaIndex": "benchmarks.peers.llamaindex.files",
    "LangChain + Chroma": "benchmarks.peers.chroma.files",
    "Haystack": "benchmarks.peers.haystack.files",
}
WORDS_OF_A_PARAGRAPH = 60
PARAGRAPHS_OF_A_FILE = 10
WORDS_OF_A_QUESTION = 8


def write_files(folder: Path, count: int) -> None:
    """Write Markdown files of ten paragraphs."""
    folder.mkdir()
    paragraphs = make_texts(count * PARAGRAPHS_OF_A_FILE, WORDS_OF_A_PARAGRAPH, seed=1).to_list()
    for number in range(count):
        own = paragraphs[number * PARAGRAPHS_OF_A_FILE : (number + 1) * PARAGRAPHS_OF_A_FILE]
        (folder / f"file-{number}.md").write_text(
            f"# File {number}\n\n" + "\n\n".join(own) + "\n", encoding="utf-8"
        )


def measure(
    files: int, questions: int, turns: int, environments: Path, systems: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Run systems on the same files.

    Args:
        files: Number of files.
        questions: Number of measured questions.
        turns: How often each system is run.
        environments: Folder of the systems' environments.
        systems: Names of the systems.

    Returns:
        The figures of each turn, by system.
    """
    pythons = {
        name: Path(sys.executable)
        if name == "Backstory"
        else make_environment(module.split(".")[2], environments)
        for name, module in SYSTEMS.items()
        if name in systems
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory(prefix="backstory-files-") as scratch:
        place = Path(scratch)
        write_files(place / "files", files)
        asked = make_texts(questions + 1, WORDS_OF_A_QUESTION, seed=2).to_list()
        (place / "questions.json").write_text(json.dumps(asked), encoding="utf-8")
        for turn in range(turns):
            for number, (name, python) in enumerate(pythons.items()):
                out = place / f"{turn}-{number}.json"
                store = out.with_suffix("")
                run_module(python, SYSTEMS[name], place / "files", place / "questions.json", store, out)
                found[name].append(json.loads(out.read_text(encoding="utf-8")))
    return found


def write_table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Write the medians of the turns as a Markdown table."""
    columns = ["system", "chunks", "files per second", "CPU ms per file", "search p50, ms", "search p99, ms"]
    columns += ["CPU ms per search", "memory, MB"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, turns in found.items():
        files = turns[0]["files"]
        figures = [
            f"{turns[0]['chunks']:,}",
            f"{median(files / turn['index']['wall'] for turn in turns):.0f}",
            f"{median(turn['index']['cpu'] / files * 1000 for turn in turns):.2f}",
            *(
                f"{median(float(np.percentile(turn['search_ms'], part)) for turn in turns):.2f}"
                for part in (50, 99)
            ),
            f"{median(turn['search_cpu_ms'] for turn in turns):.1f}",
            f"{median(turn['peak_memory'] for turn in turns) / 1e6:.0f}",
        ]
        versions = ", ".join(
            f"{package} {version}" for package, version in turns[0]["versions"].items() if package != "numpy"
        )
        lines.append(f"| {name}{f' ({versions})' if versions else ''} | {' | '.join(figures)} |")
    return "\n".join([*lines, "", *(_describe_parts(name, turns) for name, turns in found.items())])


def _describe_parts(name: str, turns: Sequence[dict[str, Any]]) -> str:
    parts = [
        f"{part} {median(turn['parts_ms'][part] for turn in turns):.2f} ms" for part in turns[0]["parts_ms"]
    ]
    return f"- {name}: {', '.join(parts)}"


def main() -> None:
    """Measure, and print the table with the load of the machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__)
    parser.add_argument("--files", type=int, default=1000, help="number of files (default: 1000)")
    parser.add_argument("--questions", type=int, default=200, help="number of questions (default: 200)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each system (default: 3)")
    parser.add_argument(
        "--environments", type=Path, metavar="DIR", help="folder of the environments (default: in the cache)"
    )
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="systems to run")
    parser.add_argument("--json", action="store_true", help="print all figures instead of the table")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    environments = given.environments or cache_folder() / "peer-environments"
    found = measure(given.files, given.questions, given.turns, environments, given.only)
    print(json.dumps(found) if given.json else write_table(found))
    print(
        f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} cores",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
