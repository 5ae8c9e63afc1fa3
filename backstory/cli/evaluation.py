"""The command ``eval``: retrieval measured on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from backstory.cli.options import JsonOption, WorkspaceOption
from backstory.cli.terminal import make_table, open_console, plain, plain_line, print_json
from backstory.errors import InputError

if TYPE_CHECKING:
    from backstory.evaluation import Comparison


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with docs.parquet, windows.parquet and qrels.parquet."),
    ],
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FILE", help="Write the ranked lists as Parquet.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Draw the methods with their intervals as one HTML page."
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval on labelled data, beside a single query for each whole window."""
    from backstory.evaluation import evaluate_folder
    from backstory.report import write_comparison_page
    from backstory.settings import Settings
    from backstory.workspace import open_workspace

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    for file in (runs, html):
        if file is not None and not file.parent.is_dir():
            raise InputError(f"{file.parent} does not exist; make the folder that {file.name} is written to")
        if file is not None and file.is_dir():
            raise InputError(f"{file} is a folder; name a file in it")
    comparison = evaluate_folder(folder, settings)
    if runs is not None:
        comparison.runs.write_parquet(runs)
    if html is not None:
        write_comparison_page(html, comparison)
    if as_json:
        print_json(comparison.as_record())
    else:
        print_comparison(open_console(), comparison)


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Show the scores of each group with their intervals, and the gain over each baseline."""
    from backstory.evaluation import METRICS

    for (group,), by_group in comparison.table.group_by("group", maintain_order=True):
        windows = by_group["windows"][0]
        console.print(plain_line(f"{group}: {windows} window{'' if windows == 1 else 's'}", "bold"))
        table = make_table("method", *METRICS, "gain in ncov@5", right=(*METRICS, "gain in ncov@5"))
        for (method,), rows in by_group.group_by("method", maintain_order=True):
            by_metric = {row["metric"]: row for row in rows.to_dicts()}
            ncov = by_metric["ncov@5"]
            means = [f"{by_metric[metric]['mean']:.3f}" for metric in METRICS]
            intervals = [
                f"[{by_metric[metric]['low']:.2f}, {by_metric[metric]['high']:.2f}]" for metric in METRICS
            ]
            is_baseline = ncov["gain"] is not None
            gain = f"{ncov['gain']:+.3f}" if is_baseline else ""
            gain_interval = f"[{ncov['gain_low']:+.2f}, {ncov['gain_high']:+.2f}]" if is_baseline else ""
            table.add_row(str(method).removeprefix("whole window, "), *means, gain)
            table.add_row("", *intervals, gain_interval, style="dim")
        console.print(table)
        console.print()
    console.print(
        "backstory: this library. The other methods ask one query for the whole window.\n"
        "ncov@5: topics covered by the first five documents, divided by min(5, topics).\n"
        "gain: backstory minus the method. Brackets: 95% bootstrap intervals over windows."
    )
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in comparison.figures.items())
    console.print(plain(f"Figures: {figures}"), soft_wrap=True)
    for row in comparison.prediction.to_dicts():
        console.print(
            f"Correlation of the verdict's probability with {row['metric']}: Spearman "
            f"{_figure(row['spearman'])}, Pearson {_figure(row['pearson'])} ({row['windows']} windows)."
        )


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
