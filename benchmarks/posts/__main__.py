"""Measure the posts of the digest writer with Backstory's context, a whole-window context, and none.

``python -m benchmarks.posts DIR [--windows N] [--group NAME ...] [--workspace DIR] [--json]``, where DIR holds a
labelled set with the topics of its messages, ``msg_topics.parquet``. Of the workspace that ``make demo`` makes, it
measures the sections alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from backstory.base.environment import SETTINGS_FILE
from backstory.base.wording import count
from backstory.interfaces.cli.failure import run_command
from backstory.interfaces.cli.terminal import open_console, plain_line, print_json, print_table
from backstory.pipeline.workspace import open_workspace
from backstory.settings.models import Settings
from benchmarks.posts.comparison import PostComparison, evaluate_posts
from benchmarks.posts.demo import score_demo
from benchmarks.posts.scoring import POST_METRICS


def measure(arguments: Sequence[str] | None = None) -> None:
    """Compare the contexts of a labelled set, and print the scores.

    Args:
        arguments: Words of the command line; None for those of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="Folder of a labelled set.")
    parser.add_argument("--windows", type=int, metavar="N", help="Take the first N windows of each group.")
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="Take this group; may be repeated."
    )
    parser.add_argument(
        "--workspace", "-w", type=Path, metavar="DIR", help="Measure the settings of this workspace."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    asked = parser.parse_args(arguments)
    if asked.windows is not None and asked.windows < 1:
        parser.error(f"--windows {asked.windows} must be at least 1")
    if (asked.folder / SETTINGS_FILE).is_file():
        print_json({"sections": score_demo(open_workspace(asked.folder))})
        return
    settings = Settings() if asked.workspace is None else open_workspace(asked.workspace).located_settings
    comparison = evaluate_posts(asked.folder, settings, windows=asked.windows, groups=tuple(asked.group))
    if asked.json:
        print_json(comparison.as_record())
    else:
        print_comparison(open_console(), comparison)


def print_comparison(console: Console, comparison: PostComparison) -> None:
    """Print the scores of posts with each context, with their intervals and the gain of Backstory's context."""
    for (group,), by_group in comparison.table.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {count(by_group['windows'][0], 'window')}", "bold"))
        cells = []
        for (method,), rows in by_group.group_by("method", maintain_order=True):
            by_metric = {row["metric"]: row for row in rows.to_dicts()}
            cells.append((str(method), *(_write_score(by_metric[metric]) for metric in POST_METRICS)))
        columns = ("posts with", *POST_METRICS)
        print_table(console, columns, cells, right=POST_METRICS, folded=["posts with"])
        console.print()
    console.print(
        f"Writer: {comparison.writer}. Second lines: 95% bootstrap intervals. Third lines: Backstory's context minus "
        "the other.\n"
        "topics said: topics of which the post says a sentence; topics linked: those to whose documents it links.\n"
        "sections: V-measure against the topics of messages; names: headings against what people call the topics.\n"
        "supported: sentences that the window or the context supports. repeated: runs of 5 words of earlier documents."
    )


def _write_score(row: Mapping[str, Any]) -> str:
    score = f"{row['mean']:.3f}\n{row['low']:.2f}-{row['high']:.2f}"
    if row["gain"] is None:
        return score
    return f"{score}\n{row['gain']:+.3f} ({row['gain_low']:+.2f} to {row['gain_high']:+.2f})"


if __name__ == "__main__":
    run_command(measure)
