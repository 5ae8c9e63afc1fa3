"""What Dagster costs beside the library: time for each day, events and rows of checks, and how much the store grows.

``python -m benchmarks.dagster --days 1115 --every 1`` writes a chat over so many days and posts into two temporary
folders, makes the tables of one by the library's runner and those of the other by the Dagster job, in this process, and
prints both. Then a message of an old day is edited and both run again.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from backstory.interfaces.cli.run import Execute, execute_changed
from backstory.pipeline.run.builder import ignore_progress
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import find_wanted
from backstory.pipeline.workspace import open_workspace
from benchmarks.machine import drop_pinned_kernels

_FIRST = datetime(2022, 1, 1, 9, tzinfo=UTC)
_TOPICS = ("irrigation", "sourdough", "night train", "backup disk", "frost", "tomatoes", "bees", "compost")


def write_days(root: Path, days: int, every: int, messages: int) -> None:
    """Write a workspace whose chat has messages on every so manieth day."""
    for folder in ("chats", "posts"):
        (root / folder).mkdir(parents=True)
    (root / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    lines = []
    for day in sorted({*range(0, days, every), days - 1}):
        for number in range(messages):
            moment = _FIRST + timedelta(days=day, minutes=number)
            topic = _TOPICS[(day + number) % len(_TOPICS)]
            lines.append(f"{moment:%d/%m/%Y, %H:%M} - Member {number % 5}: On day {day} the {topic} again")
    (root / "chats" / "group.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for topic in _TOPICS:
        front = f"---\ntitle: {topic}\ndate: 2021-01-01\n---\n\n"
        name = f"{topic.replace(' ', '-')}.md"
        (root / "posts" / name).write_text(
            f"{front}What we know of {topic}, and why it matters.\n", encoding="utf-8"
        )


def edit_an_old_day(root: Path) -> None:
    """Change the first message of the chat."""
    chat = root / "chats" / "group.txt"
    chat.write_text(
        chat.read_text(encoding="utf-8").replace("On day 0", "Once upon day 0", 1), encoding="utf-8"
    )


def measure_run(root: Path, load: Callable[[], Execute]) -> dict[str, Any]:
    """Run over a workspace and give wall-clock and processor seconds, and what the stages alone took."""
    execute = load()
    started, worked = time.perf_counter(), time.process_time()
    workspace = open_workspace(root)
    run = Run(find_wanted(workspace, None, None))
    result = execute(workspace, run, ignore_progress)
    if not result.success:
        raise SystemExit(f"the run failed: {result.failures}")
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - worked, 2),
        "days": len(result.partitions),
        "made": result.computed,
    }


def measure_store(home: Path) -> dict[str, Any]:
    """Count what Dagster stored: bytes, runs, events by kind in the index, rows of checks."""
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as index:
        events = Counter(
            dict(index.execute("SELECT dagster_event_type, COUNT(*) FROM event_logs GROUP BY 1"))
        )
        checks = dict(
            index.execute("SELECT execution_status, COUNT(*) FROM asset_check_executions GROUP BY 1")
        )
        index.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with closing(sqlite3.connect(home / "history" / "runs.db")) as runs:
        [[count]] = runs.execute("SELECT COUNT(*) FROM runs")
    return {
        "bytes": sum(path.stat().st_size for path in home.rglob("*") if path.is_file()),
        "runs": count,
        "events": dict(events),
        "checks": checks,
    }


def measure(days: int, every: int, messages: int, folder: Path) -> dict[str, Any]:
    """Make the same tables by the library and through Dagster, and give the figures by name."""
    library, orchestrated = folder / "library", folder / "dagster"
    for root in (library, orchestrated):
        write_days(root, days, every, messages)
    figures: dict[str, Any] = {"library": measure_run(library, lambda: execute_changed)}
    home = open_workspace(orchestrated).dagster_home
    for name, prepare in (("first run", None), ("one day edited", edit_an_old_day)):
        if prepare is not None:
            prepare(orchestrated)
            prepare(library)
            figures[f"library, {name}"] = measure_run(library, lambda: execute_changed)
        figures[f"Dagster, {name}"] = measure_run(orchestrated, _load_materialize) | measure_store(home)
    taken, library_taken = figures["Dagster, first run"], figures["library"]
    figures["ms per day beyond the library"] = round(
        1000 * (taken["seconds"] - library_taken["seconds"]) / taken["days"], 2
    )
    figures["CPU ms per day beyond the library"] = round(
        1000 * (taken["cpu_seconds"] - library_taken["cpu_seconds"]) / taken["days"], 2
    )
    figures["MB per 1,000 days"] = round(taken["bytes"] / taken["days"] / 1000, 3)
    return figures


def _load_materialize() -> Execute:
    from pipelines.materialization import materialize

    return materialize


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dagster", description=__doc__)
    parser.add_argument("--days", type=int, default=1_115, help="days of the range")
    parser.add_argument("--every", type=int, default=1, help="distance of days with messages")
    parser.add_argument("--messages", type=int, default=20, help="messages on each of them")
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    arguments = parser.parse_args()
    drop_pinned_kernels("benchmarks.dagster")
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.days, arguments.every, arguments.messages, Path(folder))
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<36} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
