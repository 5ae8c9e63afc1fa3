"""Run the peers and Backstory on labelled sets and print one table.

``python -m benchmarks.peers DIR [DIR ...]``. The first run makes an environment for each peer from the package
index, and embeds the texts. Environments and vectors are kept, so an interrupted run resumes, and a second run only
measures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backstory.base.environment import cache_folder
from backstory.base.errors import InputError
from benchmarks.peers.driver import METHODS
from benchmarks.peers.environments import PEERS, make_environment, run_module
from benchmarks.peers.job import read_texts, write_job
from benchmarks.peers.preparation import (
    Space,
    embed_for_peers,
    embed_library,
    list_documents,
    list_windows,
    read_sample,
)
from benchmarks.peers.report import OWN, score_outcomes, write_table


def choose_methods(parts: Sequence[str] | None) -> list[str]:
    """Choose methods of the peers by parts of their names.

    Args:
        parts: Parts of names; None chooses all methods.

    Returns:
        Names of the methods that contain any part, in the order of :data:`benchmarks.peers.driver.METHODS`.

    Raises:
        InputError: No name contains one of the parts.
    """
    if parts is None:
        return list(METHODS)
    for part in parts:
        if not any(part in method for method in METHODS):
            raise InputError(
                f"no method contains {part!r}; there are: {'; '.join(METHODS)}", code="unknown_value"
            )
    return [method for method in METHODS if any(part in method for part in parts)]


def compare_on_set(
    folder: Path,
    windows_per_group: int | None,
    pythons: dict[str, Path],
    methods: Sequence[str],
    space: Space,
    scratch: Path,
) -> list[dict[str, Any]]:
    """Run Backstory and the peers on one set.

    Args:
        folder: The labelled set.
        windows_per_group: Most windows per group, or None for all.
        pythons: Python interpreter of every peer's environment.
        methods: Names of the peers' methods to run.
        space: Embedder and cache for all vectors.
        scratch: An empty folder.

    Returns:
        Records of :func:`benchmarks.peers.report.score_outcomes`.
    """
    labelled = read_sample(folder, windows_per_group)
    job = scratch / "job"
    chunks = embed_library(labelled, space, scratch)
    windows = list_windows(labelled, chunks, space.embedder)
    write_job(job, list_documents(labelled), windows)
    asked = [text for window in windows for text in (window.text, *window.query_chunks)]

    sample = [] if windows_per_group is None else ["--windows", str(windows_per_group)]
    out = scratch / f"{OWN}.json"
    run_module(Path(sys.executable), "benchmarks.peers.backstory_run", folder.resolve(), out, *sample)
    outcomes = {OWN: json.loads(out.read_text(encoding="utf-8"))}
    for peer, python in pythons.items():
        module = f"benchmarks.peers.{peer}.run"
        splits = scratch / f"{peer}-splits"
        run_module(python, module, "split", job, splits)
        documents = read_texts(splits / "document-texts.json")
        queries = [*asked, *read_texts(splits / "query-texts.json")]
        embed_for_peers(documents, "document", space, f"embedding documents of {peer}").write(
            job / "document-vectors"
        )
        embed_for_peers(queries, "query", space, f"embedding queries of {peer}").write(job / "query-vectors")
        out = scratch / f"{peer}.json"
        run_module(python, module, "search", job, out, "--methods", *methods)
        outcomes[peer] = json.loads(out.read_text(encoding="utf-8"))
    return score_outcomes(outcomes, labelled.qrels, labelled.name)


def main() -> None:
    """Run Backstory and the peers on every set and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="labelled set")
    parser.add_argument("--windows", type=int, metavar="N", help="most windows per group (default: all)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="default: all")
    parser.add_argument(
        "--methods",
        nargs="+",
        metavar="PART",
        help="run only methods of the peers whose names contain one of these parts (default: all)",
    )
    parser.add_argument(
        "--environments", type=Path, metavar="DIR", help="folder of the environments (default: in the cache)"
    )
    parser.add_argument("--json", action="store_true", help="print records instead of the table")
    given = parser.parse_args()
    try:
        methods = choose_methods(given.methods)
    except ValueError as error:
        parser.error(str(error))
    environments = given.environments or cache_folder() / "peer-environments"
    pythons = {peer: make_environment(peer, environments) for peer in given.peers}
    space = Space.open()
    records: list[dict[str, Any]] = []
    for folder in given.folders:
        with tempfile.TemporaryDirectory(prefix="backstory-peers-") as scratch:
            records += compare_on_set(folder, given.windows, pythons, methods, space, Path(scratch))
    print(json.dumps(records, indent=2) if given.json else write_table(records))


if __name__ == "__main__":
    main()
