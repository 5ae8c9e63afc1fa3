"""The example workspace: copied, materialized, and shown for one window."""

import shutil
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backstory.inspection.comparison import WindowComparison, compare_with_whole_window
from backstory.prompt_text import cut_snippet
from backstory.runner import Outcome
from backstory.settings import SETTINGS_FILE
from backstory.tables import read_table
from backstory.workspace import Workspace, open_workspace

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_ASKED_CHARACTERS = 110


def prepare_demo(folder: Path) -> Workspace:
    """Copy the example chat, posts and settings, and open the copy as a workspace.

    Args:
        folder: Folder of the workspace; what it holds besides the copied files stays.

    Returns:
        The workspace.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(_EXAMPLES.rglob("*")):
        target = folder / source.relative_to(_EXAMPLES)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.parent != _EXAMPLES or source.name == SETTINGS_FILE:
            shutil.copyfile(source, target)
    return open_workspace(folder)


def show_demo(workspace: Workspace, outcome: Outcome, console: Console) -> None:
    """Print one window's context beside that of a single whole-window query, and where to go on.

    Args:
        workspace: The materialized workspace.
        outcome: What the run did.
        console: Where to print.
    """
    windows = read_table(workspace.tables, "windows").sort(
        ["message_count", "window_id"], descending=[True, False]
    )
    comparison = compare_with_whole_window(workspace, windows["window_id"][0])
    console.print(f"\nThe window with the most messages: {_describe(comparison)}", highlight=False)
    console.print(_side_by_side(workspace, comparison))
    console.print(
        f"Searched by [bold]{comparison.engine}[/bold] ({comparison.reason}); "
        f"{comparison.agreement:.1%} of the exact hits found.",
        highlight=False,
    )
    tables = workspace.tables
    console.print(
        f"\nTables:  {tables}/<table>/<day>.parquet   (all as views in {tables / 'backstory.duckdb'})\n"
        f"Context: {Path('.venv/bin/backstory')} context {comparison.window['window_id']} -w {workspace.root}\n"
        "UI:      make ui   (then http://127.0.0.1:3000)\n"
        f"\nDone in {outcome.seconds:.1f} s: {outcome.partitions} days, {outcome.computed} partitions made.",
        highlight=False,
        soft_wrap=True,
    )


def _describe(comparison: WindowComparison) -> str:
    window = comparison.window
    return f"{window['message_count']} messages, {window['started_at']:%Y-%m-%d %H:%M} to {window['ended_at']:%H:%M}"


def _side_by_side(workspace: Workspace, comparison: WindowComparison) -> Table:
    asked = _asked_texts(workspace, comparison)
    table = Table(show_lines=True, expand=False)
    table.add_column("#")
    table.add_column("Backstory: a document for every topic")
    table.add_column("asked for by")
    table.add_column("One query for the whole window")
    whole = comparison.whole_window.to_dicts()
    chosen = comparison.chosen.to_dicts()
    for place in range(max(len(chosen), len(whole))):
        left = chosen[place] if place < len(chosen) else None
        right = whole[place] if place < len(whole) else None
        table.add_row(
            str(place + 1),
            _entry(left),
            Text(asked.get(left["matched_query_chunks"][0], "") if left else ""),
            _entry(right),
        )
    return table


def _entry(row: dict[str, object] | None) -> Text:
    if row is None:
        return Text("")
    return Text(f"{row['title']}\n{row['slug']}, similarity {row['similarity']:.2f}")


def _asked_texts(workspace: Workspace, comparison: WindowComparison) -> dict[str, str]:
    chunks = read_table(workspace.tables, "window_chunks", [str(comparison.window["partition"])])
    wanted = comparison.chosen.select(pl.col("matched_query_chunks").list.first().alias("chunk_id"))
    rows = chunks.join(wanted, on="chunk_id", how="semi").select("chunk_id", "text").iter_rows()
    return {chunk_id: cut_snippet(text.replace("\n", " "), _ASKED_CHARACTERS) for chunk_id, text in rows}
