"""Print the latest runs for ``backstory status --runs``: their progress, result and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from backstory.base.local_times import localize
from backstory.base.wording import write_duration
from backstory.interfaces.cli.terminal import make_table, open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.pipeline.history.record import RunRecord
    from backstory.pipeline.workspace import Workspace

_FIGURES = ("partitions", "time", "texts", "cached", "calls", "tokens", "cost")


def show_runs(workspace: Workspace, limit: int, *, as_json: bool) -> None:
    """Print the latest runs with the progress or result of each, and its cost.

    Args:
        workspace: An open workspace.
        limit: Most runs.
        as_json: Whether to print JSON.
    """
    from backstory.pipeline.history.record import describe_status

    records = workspace.runs.read(limit)
    if as_json:
        print_json([{**record.as_row(), "standing": describe_status(record)} for record in records])
    else:
        print_runs(open_console(), records, workspace.settings.conversations.timezone)


def print_runs(console: Console, records: list[RunRecord], timezone: str) -> None:
    """Print a table of runs by the clock of a time zone, and a sentence for each that is running or did not succeed."""
    from backstory.pipeline.history.record import SUCCEEDED, describe_status

    if not records:
        console.print("No run is recorded yet; `backstory run` or `backstory add` starts one.")
        return
    table = make_table(
        "run", "by", f"started ({timezone})", "status", "first", "last", *_FIGURES, right=_FIGURES
    )
    for record in records:
        table.add_row(*_describe_row(record, timezone))
    console.print(table)
    for record in records:
        if record.status != SUCCEEDED:
            console.print(plain(describe_status(record)), soft_wrap=True)


def _describe_row(record: RunRecord, timezone: str) -> list[str]:
    row = record.as_row()
    tokens = sum(used.tokens_in + used.tokens_out for used in record.usage.values())
    cost = (
        "no price" if record.cost is None else f"{record.cost:.4f} {record.currency}" if record.calls else "0"
    )
    return [
        record.run_id[:8],
        record.by,
        f"{localize(row['started_at'], timezone):%Y-%m-%d %H:%M:%S}",
        record.status,
        record.first_partition or "",
        record.last_partition or "",
        f"{record.partitions:,}",
        write_duration(record.seconds),
        f"{row['embedding_texts']:,}",
        f"{row['embedding_cached']:,}",
        f"{record.calls:,}",
        f"{tokens:,}",
        cost,
    ]
