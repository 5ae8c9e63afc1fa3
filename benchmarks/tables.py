"""Speed of tables beside plain Polars: converting a conversation to Markdown, writing a partition, and a commit.

``python -m benchmarks.tables`` prints one JSON line. Seconds are CPU seconds, the median of interleaved repeats. A
ratio is the library's time divided by the reference's, measured in the same process.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from backstory.interfaces.original.consolidation import consolidate_messages_to_markdown
from backstory.storage.schema import CATALOG
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder
from backstory.storage.tables.catalog import Catalog
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Messages
from backstory.storage.tables.tables import Made, Tables

_DISTINCT_TEXTS = 20_000
_TABLES = 12


def make_messages(count: int, *, words: tuple[int, int], seed: int = 7) -> pl.DataFrame:
    """Make a realistic table ``messages``: one in ten has several lines, and a few look like Markdown."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(3_000)]
    texts = [" ".join(rng.choices(vocabulary, k=rng.randint(*words))) for _ in range(_DISTINCT_TEXTS)]
    texts = [text.replace(" ", "\n", 3) if number % 10 == 0 else text for number, text in enumerate(texts)]
    texts = [f"## {text}" if number % 500 == 0 else text for number, text in enumerate(texts)]
    start = datetime(2025, 1, 15, tzinfo=UTC)
    made = pl.DataFrame(
        {
            "message_id": [f"{number:032x}" for number in range(count)],
            "conversation_id": ["team"] * count,
            "timestamp": [start + timedelta(seconds=37 * number) for number in range(count)],
            "timezone": ["UTC"] * count,
            "seq": range(count),
            "author": [f"member-{rng.randrange(20):010x}" for _ in range(count)],
            "text": rng.choices(texts, k=count),
            "kind": ["message"] * count,
            "source": ["chat.txt"] * count,
        },
        schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
    ).with_columns(
        local_time=pl.col("timestamp").dt.replace_time_zone(None),
        reply_to=pl.lit(None),
        reactions=pl.lit([]),
        edited=pl.lit(value=False),
    )
    return conform(made, Messages)


def join_with_polars(frame: pl.DataFrame) -> str:
    """Write a conversation with one plain Polars expression: shorter headings, no escaping, no checks."""
    written = pl.col("timestamp").dt.strftime("%Y-%m-%d %H:%M")
    message = pl.format("**{}** ({}): {}", pl.col("author"), written, pl.col("text"))
    return str(frame.select(message.str.join("\n\n")).item())


def join_alike_with_polars(frame: pl.DataFrame) -> str:
    """Write the library's format with one plain Polars expression: no escaping, no checks."""
    written = pl.col("timestamp").dt.strftime("%Y-%m-%d %H:%M")
    heading = "## Message {}\n**Author:** {}\n**Timestamp:** {}\n\n{}"
    message = pl.format(heading, pl.int_range(1, pl.len() + 1), pl.col("author"), written, pl.col("text"))
    return str(frame.select(message.str.join("\n\n")).item())


def time_interleaved(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Measure the median CPU seconds of each function, called in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.process_time()
            function()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_megabytes() -> float:
    """Give the peak memory of the process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def measure_markdown(messages: int, repeats: int) -> dict[str, float]:
    """Compare converting a conversation to Markdown with both plain Polars expressions."""
    frame = make_messages(messages, words=(5, 60))
    before = peak_megabytes()
    megabytes = len(consolidate_messages_to_markdown(frame).encode()) / 1e6
    peak = peak_megabytes() - before
    seconds = time_interleaved(
        {
            "library": lambda: consolidate_messages_to_markdown(frame),
            "reference": lambda: join_with_polars(frame),
            "alike": lambda: join_alike_with_polars(frame),
        },
        repeats,
    )
    return {
        "seconds": seconds["library"],
        "reference_seconds": seconds["reference"],
        "mb_per_cpu_second": megabytes / seconds["library"],
        "ratio": seconds["library"] / seconds["reference"],
        "same_format_seconds": seconds["alike"],
        "same_format_ratio": seconds["library"] / seconds["alike"],
        "peak_mb_over_input": peak,
    }


def measure_writing(rows: int, repeats: int) -> dict[str, float]:
    """Compare writing a partition, changed and unchanged, with Polars' ``write_parquet``."""
    frame = make_messages(rows, words=(150, 350))
    with tempfile.TemporaryDirectory() as folder:
        tables, plain = _open_tables(Path(folder)), Path(folder) / "plain.parquet"
        turns = iter(range(2 * repeats))
        seconds = time_interleaved(
            {
                "reference": lambda: frame.write_parquet(plain, compression="zstd"),
                "changed": lambda: tables.commit({("messages", f"p{next(turns)}"): Made(frame, "")}),
                "unchanged": lambda: tables.commit({("messages", "p0"): Made(frame, "")}),
            },
            repeats,
        )
    return {
        "write_seconds": seconds["changed"],
        "write_reference_seconds": seconds["reference"],
        "write_ratio": seconds["changed"] / seconds["reference"],
        "write_unchanged_ratio": seconds["unchanged"] / seconds["reference"],
    }


def measure_commits(days: int) -> dict[str, float]:
    """Measure the wall-clock time of the commit of a day in twelve tables, of 50 messages each, by the median."""
    milliseconds = []
    with tempfile.TemporaryDirectory() as folder:
        tables = _open_tables(Path(folder))
        for day in range(days):
            frame = make_messages(50, words=(5, 60), seed=day)
            made = {
                ("messages", f"{day}-{table}"): Made(
                    frame.with_columns(message_id=pl.format("{}-{}", "message_id", pl.lit(table))), str(day)
                )
                for table in range(_TABLES)
            }
            started = time.perf_counter()
            tables.commit(made, seen=tables.catalog.version)
            milliseconds.append(1000 * (time.perf_counter() - started))
    return {"commit_ms": statistics.median(milliseconds), "commit_worst_ms": max(milliseconds)}


def _open_tables(folder: Path) -> Tables:
    return Tables(Folder(folder), Catalog(open_state(folder, None, CATALOG)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=500_000, help="messages to convert to Markdown")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of the partition to write")
    parser.add_argument("--days", type=int, default=56, help="days to commit")
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    markdown = measure_markdown(given.messages, given.repeats)
    writing = measure_writing(given.rows, given.repeats)
    commits = measure_commits(given.days)
    figures = {name: round(value, 4) for name, value in {**markdown, **writing, **commits}.items()}
    sizes = {"messages": given.messages, "rows": given.rows}
    print(json.dumps({"benchmark": "tables", **sizes, **figures, "peak_mb": round(peak_megabytes(), 1)}))


if __name__ == "__main__":
    main()
