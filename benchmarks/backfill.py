"""Time and memory of a backfill, stage by stage, and the cost of a second run.

``python -m benchmarks.backfill --windows 1000 --messages 500`` writes a year of chat and posts into a temporary
folder. It calls the library's stages as the assets do, and prints the seconds, CPU seconds, share, rows and peak
memory of each stage. Then it runs twice over the unchanged workspace: with the freshness check, and stage by stage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import STAGES, is_fresh, record_run
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import Workspace, open_workspace
from benchmarks.machine import blas_kernels, drop_pinned_kernels, peak_memory, reset_peak_memory
from benchmarks.synthetic_workspace import Size, write_workspace


@dataclass(frozen=True)
class Step:
    """The cost of one step.

    Attributes:
        name: Table or action.
        seconds: Wall-clock time.
        cpu_seconds: CPU time of all threads.
        rows: Rows of the table; 0 for a step that makes no table.
        peak_mb: Peak memory of the process during the step, in megabytes.
    """

    name: str
    seconds: float
    cpu_seconds: float
    rows: int
    peak_mb: float


def run_stages(workspace: Workspace) -> list[Step]:
    """Materialize all partitions of the exports, one stage after another, and time each stage."""
    keys: list[str] = []
    steps = [_time("find_partitions", lambda: keys.extend(find_partitions(workspace)))]
    resources = RunResources(workspace)
    steps += [_time(stage.table, stage(resources, keys).build) for stage in STAGES]
    steps.append(_time("views", workspace.publish_tables))
    return steps


def find_nothing_to_do(workspace: Workspace) -> bool:
    """Check the workspace as an unchanged run does; true if there is nothing to do."""
    return is_fresh(workspace, find_partitions(workspace))


def measure(size: Size, embedder: str, export: str, folder: Path) -> dict[str, Any]:
    """Write a workspace, backfill it, and run twice more over it unchanged.

    Args:
        size: Size of the workspace.
        embedder: Provider of the embeddings.
        export: Format of the chat export.
        folder: Folder of the new workspace.

    Returns:
        The figures by name.
    """
    write_workspace(folder, size, embedder=embedder, export="parquet" if export == "parquet" else "whatsapp")
    before = reset_peak_memory()
    steps = run_stages(open_workspace(folder))
    workspace = open_workspace(folder)
    record_run(workspace, find_partitions(workspace))
    again = [
        _time("second run: nothing to do", lambda: find_nothing_to_do(open_workspace(folder))),
        _time("second run: every stage", lambda: run_stages(open_workspace(folder))),
    ]
    if not find_nothing_to_do(open_workspace(folder)):
        raise SystemExit("the second run was not fresh, so its figures are wrong")
    return {
        **asdict(size),
        "embedder": embedder,
        "export": export,
        "seconds": round(sum(step.seconds for step in steps), 3),
        "cpu_seconds": round(sum(step.cpu_seconds for step in steps), 3),
        "peak_mb": max(step.peak_mb for step in steps),
        "before_mb": round(before / 1e6, 1),
        "steps": [asdict(step) for step in steps],
        "second_run": [asdict(step) for step in again],
        "blas": blas_kernels(),
        "processors": os.cpu_count(),
    }


def _time(name: str, action: Callable[[], object]) -> Step:
    reset_peak_memory()
    started, worked = time.perf_counter(), time.process_time()
    done = action()
    return Step(
        name,
        round(time.perf_counter() - started, 4),
        round(time.process_time() - worked, 4),
        done.rows if isinstance(done, StageResult) else 0,
        round(peak_memory() / 1e6, 1),
    )


def _print_table(figures: dict[str, Any], steps: list[Step], again: list[Step]) -> None:
    total = sum(step.seconds for step in steps)
    print(f"{'stage':<26} {'seconds':>9} {'share':>6} {'CPU s':>9} {'rows':>10} {'peak MB':>8}")
    for step in steps:
        print(
            f"{step.name:<26} {step.seconds:>9.2f} {step.seconds / total:>6.1%} {step.cpu_seconds:>9.2f} "
            f"{step.rows:>10} {step.peak_mb:>8.0f}"
        )
    print(
        f"{'all':<26} {total:>9.2f} {1:>6.0%} {figures['cpu_seconds']:>9} {'':>10} {figures['peak_mb']:>8.0f}"
    )
    for step in again:
        print(f"{step.name:<26} {step.seconds:>9.3f} {'':>6} {step.cpu_seconds:>9.3f}")


def main() -> int:
    """Run the benchmark.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backfill", description=__doc__)
    parser.add_argument("--windows", type=int, default=1_000, help="windows in the year")
    parser.add_argument("--messages", type=int, default=500, help="messages per window")
    parser.add_argument("--documents", type=int, default=1_000, help="number of posts")
    parser.add_argument("--embedder", choices=["hashing", "local"], default="hashing")
    parser.add_argument(
        "--export", choices=["whatsapp", "parquet"], default="whatsapp", help="format of the chat export"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line instead of a table")
    arguments = parser.parse_args()
    dropped = drop_pinned_kernels("benchmarks.backfill")
    size = Size(arguments.windows, arguments.messages, arguments.documents)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(size, arguments.embedder, arguments.export, Path(folder) / "workspace")
    if arguments.json:
        print(json.dumps(figures | {"dropped_environment": dropped}))
    else:
        steps, again = ([Step(**step) for step in figures[name]] for name in ("steps", "second_run"))
        _print_table(figures, steps, again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
