"""What Dagster costs beside the library: ``python -m benchmarks.dagster [--days N]``.

A year of chat, or as many days as are asked for, and posts are written into two temporary folders. The library's runner
makes the tables of one, and the Dagster job those of the other, in this process. Then a post is added and both run
again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from backstory.interfaces.cli.run import Execute, execute_changed
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run, ignore_progress
from backstory.pipeline.workspace import open_workspace
from benchmarks.machine import drop_pinned_kernels
from benchmarks.synthetic_workspace import Size, write_workspace
from pipelines.__main__ import materialize

_MESSAGES: Final = 20
_POSTS: Final = 100


def measure_run(root: Path, execute: Execute) -> str:
    """Run over a workspace, and say the wall-clock and processor seconds."""
    started, worked = time.perf_counter(), time.process_time()
    workspace = open_workspace(root)
    run = execute(workspace, Run(find_wanted(workspace, None, None)), ignore_progress)
    if not run.success:
        raise SystemExit(f"the run failed: {run.failures}")
    taken, busy = time.perf_counter() - started, time.process_time() - worked
    return f"{taken:7.2f} s {busy:7.2f} CPU s  {len(run.partitions)} days, {run.computed} partitions made"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dagster", description=__doc__)
    parser.add_argument("--days", type=int, default=365, help="days with messages, at most those of a year")
    size = Size(parser.parse_args().days, _MESSAGES, _POSTS)
    drop_pinned_kernels("benchmarks.dagster")
    with tempfile.TemporaryDirectory() as folder:
        for name, execute in (("library", execute_changed), ("Dagster", materialize)):
            root = Path(folder, name)
            write_workspace(root, size, embedder="hashing", export="whatsapp")
            print(f"{name}, first run   {measure_run(root, execute)}")
            post = root / "posts" / "later.md"
            post.write_text("---\ndate: 2025-06-01\n---\n\nWhat came later.\n", encoding="utf-8")
            print(f"{name}, a post more {measure_run(root, execute)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
