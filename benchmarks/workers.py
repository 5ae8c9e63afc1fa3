"""What a year costs on one machine, on one worker of a shared workspace, and on two at the same time.

``python -m benchmarks.workers --database postgresql://... --files s3://bucket/prefix`` writes a year of chat and
documents, makes its tables by ``backstory run`` in each of the three forms, and compares every file of every table.
Workers are processes with folders, homes and caches of their own; all have one thread of Polars and of linear algebra.
Seconds are by the clock, CPU seconds those of the workers; the work of the servers is in neither. The schemas
``one_worker`` and ``two_workers`` of the database, and the folders of these names below the prefix, must not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import open_workspace
from backstory.storage.tables.schemas import TABLES
from benchmarks.synthetic_workspace import Size, write_workspace

_RUN: Final = [sys.executable, "-c", "from backstory.interfaces.cli.app import main; main()", "run"]
_ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_INPUTS: Final = ("chats", "posts", ".backstory")


@dataclass(frozen=True)
class Form:
    """The cost of one form.

    Attributes:
        name: The form.
        seconds: By the clock, until the last worker has ended.
        cpu_seconds: CPU time of all workers.
    """

    name: str
    seconds: float
    cpu_seconds: float


def run_workers(name: str, ranges: Mapping[Path, tuple[str, str]]) -> Form:
    """Run a worker for each folder at the same time, over its range of days."""
    started, cpu = time.perf_counter(), 0.0
    workers = [
        subprocess.Popen(
            [*_RUN, "--from", first, "--to", last, "--workspace", str(root)],
            env={**os.environ, **_ONE_THREAD, "HOME": str(root), "BACKSTORY_CACHE_DIR": str(root / "cache")},
            stdout=subprocess.DEVNULL,
        )
        for root, (first, last) in ranges.items()
    ]
    for worker in workers:
        _, status, usage = os.wait4(worker.pid, 0)
        worker.returncode = os.waitstatus_to_exitcode(status)
        if worker.returncode:
            raise SystemExit(f"a run ended with the exit code {worker.returncode}")
        cpu += usage.ru_utime + usage.ru_stime
    return Form(name, round(time.perf_counter() - started, 2), round(cpu, 2))


def measure(size: Size, database: str, files: str, folder: Path) -> list[Form]:
    """Make the tables in each form.

    Args:
        size: Size of the workspace.
        database: Address of a database.
        files: Address of a store.
        folder: Folder of the workers' folders.

    Raises:
        SystemExit: A run failed, or a table differs from that of one machine.
    """
    alone = folder / "alone"
    write_workspace(alone, size, embedder="hashing", export="whatsapp")
    days = find_partitions(open_workspace(alone))
    middle = len(days) // 2
    forms = [run_workers("one machine", {alone: (days[0], days[-1])})]
    expected = hash_tables(alone)
    plan: Mapping[str, Sequence[tuple[str, str]]] = {
        "one worker": [(days[0], days[-1])],
        "two workers": [(days[0], days[middle - 1]), (days[middle], days[-1])],
    }
    for name, ranges in plan.items():
        place = name.replace(" ", "_")
        roots = [folder / f"{place}_{number}" for number in range(len(ranges))]
        schema = _make_schema(database, place)
        for root in roots:
            _copy_inputs(alone, root, f"database: '{schema}', files: '{files}/{place}'")
        forms.append(run_workers(name, dict(zip(roots, ranges, strict=True))))
        if hash_tables(roots[0]) != expected:
            raise SystemExit(f"{name}: the tables are not those of one machine")
    return forms


def hash_tables(root: Path) -> set[str]:
    """Name every file of every table of a workspace, by its hash."""
    files = open_workspace(root).tables.list_files()
    return {name for table in TABLES for name in files.get(table, {}).values()}


def _make_schema(database: str, name: str) -> str:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{database}{'&' if '?' in database else '?'}options=-csearch_path%3D{name}"


def _copy_inputs(alone: Path, root: Path, storage: str) -> None:
    root.mkdir()
    for name in _INPUTS:
        shutil.copytree(alone / name, root / name)
    settings = (alone / "backstory.yaml").read_text(encoding="utf-8")
    (root / "backstory.yaml").write_text(f"{settings}storage: {{{storage}}}\n", encoding="utf-8")


def main() -> int:
    """Run the benchmark.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--database", required=True, help="address of a Postgres database")
    parser.add_argument("--files", required=True, help="address of a bucket and a prefix, or file:///folder")
    parser.add_argument("--windows", type=int, default=365, help="windows in the year")
    parser.add_argument("--messages", type=int, default=50, help="messages per window")
    parser.add_argument("--documents", type=int, default=400, help="documents")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = Size(given.windows, given.messages, given.documents)
        forms = measure(size, given.database, given.files, Path(folder))
    for form in forms:
        print(json.dumps(asdict(form)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
