"""The commands ``eval`` and ``eval-posts``: measure retrieval, and what is written, on labelled data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from backstory.cli.options import JsonOption
from backstory.cli.terminal import make_table, open_console, plain, plain_line, print_json
from backstory.errors import InputError

if TYPE_CHECKING:
    from backstory.evaluation import Comparison, PostComparison

_GAIN = "gain in ncov@5"

MeasuredWorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="DIR",
        help="Measure the settings of this workspace. Default: the default settings.",
    ),
]


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
    workspace: MeasuredWorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval on labelled data, and compare it with a single query for each whole window."""
    from backstory.evaluation import evaluate_folder
    from backstory.report import write_comparison_page
    from backstory.settings import Settings
    from backstory.workspace import open_workspace

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    for file in (runs, html):
        if file is not None and not file.parent.is_dir():
            raise InputError(f"{file.parent} does not exist; create the folder for {file.name}")
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
    """Print the scores of each group with their intervals, and the gain over each baseline."""
    from backstory.evaluation import METRICS

    for (group,), by_group in comparison.table.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {_count(by_group['windows'][0])}", "bold"))
        table = make_table("method", *METRICS, _GAIN, right=(*METRICS, _GAIN))
        table.columns[0].no_wrap = False
        for (method,), rows in by_group.group_by("method", maintain_order=True):
            by_metric = {row["metric"]: row for row in rows.to_dicts()}
            scores = [
                f"{row['mean']:.3f}\n{row['low']:.2f}-{row['high']:.2f}"
                for row in (by_metric[metric] for metric in METRICS)
            ]
            ncov = by_metric["ncov@5"]
            gain = (
                ""
                if ncov["gain"] is None
                else f"{ncov['gain']:+.3f}\n{ncov['gain_low']:+.2f} to {ncov['gain_high']:+.2f}"
            )
            table.add_row(str(method).removeprefix("whole window, "), *scores, gain)
        console.print(table)
        console.print()
    console.print(
        "backstory: this library. The other methods use one query for the whole window.\n"
        "ncov@5: topics covered by the first five documents, divided by min(5, topics).\n"
        "success@1: the first document is relevant.\n"
        "gain: backstory minus the method. Second lines: 95% bootstrap intervals.\n"
    )
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in comparison.figures.items())
    console.print(plain(f"Figures: {figures}"), soft_wrap=True)
    for row in comparison.prediction.to_dicts():
        if not row["windows"]:
            console.print(
                f"Correlation of the confidence with {row['metric']}: none, since no window has a confidence; it was "
                "not fitted for this embedder, or the language of the windows is not known."
            )
            continue
        console.print(
            f"Correlation of the confidence with {row['metric']}: Spearman "
            f"{_figure(row['spearman'])}, Pearson {_figure(row['pearson'])} ({_count(row['windows'])})."
        )
    _print_excerpts(console, comparison)


def _print_excerpts(console: Console, comparison: Comparison) -> None:
    """Print how much of the asked words each kind of excerpt shows, one line per group and excerpt."""
    if comparison.excerpts.is_empty():
        console.print("Excerpts: no context holds a relevant document.")
        return
    console.print(
        "\nExcerpts of the relevant documents in the contexts: of the words that a document has in common with the\n"
        "messages of its topic, the share by rarity that the excerpt shows; 95% bootstrap intervals in brackets.\n"
    )
    for (group,), by_group in comparison.excerpts.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {_count(by_group['windows'][0])}", "bold"))
        for (method,), rows in by_group.group_by("method", maintain_order=True):
            by_metric = {row["metric"]: row for row in rows.to_dicts()}
            shown = by_metric["words shown"]
            line = (
                f"  {method}: {shown['mean']:.3f} [{shown['low']:.2f}, {shown['high']:.2f}] in "
                f"{by_metric['tokens']['mean']:.0f} tokens, "
                f"{by_metric['words shown per 1,000 tokens']['mean']:.2f} per 1,000 tokens"
            )
            if answer := by_metric.get("answer shown"):
                line += f"; answer shown {answer['mean']:.3f} [{answer['low']:.2f}, {answer['high']:.2f}]"
            console.print(plain(line), soft_wrap=True)


def evaluate_written(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of a labelled set with the topics of its messages, msg_topics.parquet.",
        ),
    ],
    windows: Annotated[
        int | None,
        typer.Option("--windows", metavar="N", min=1, help="Take the first N windows of each group."),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="Take this group of windows; may be repeated."),
    ] = None,
    workspace: MeasuredWorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the posts of the digest writer with Backstory's context, a whole-window context, and none."""
    from backstory.evaluation import evaluate_posts
    from backstory.settings import Settings
    from backstory.workspace import open_workspace

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    comparison = evaluate_posts(folder, settings, windows=windows, groups=tuple(groups or ()))
    if as_json:
        print_json(comparison.as_record())
    else:
        print_post_comparison(open_console(), comparison)


def print_post_comparison(console: Console, comparison: PostComparison) -> None:
    """Print the scores of posts with each context, with their intervals and the gain of Backstory's context."""
    from backstory.evaluation import POST_METRICS

    for (group,), by_group in comparison.table.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {_count(by_group['windows'][0])}", "bold"))
        table = make_table("posts with", *POST_METRICS, right=POST_METRICS)
        table.columns[0].no_wrap = False
        for (method,), rows in by_group.group_by("method", maintain_order=True):
            by_metric = {row["metric"]: row for row in rows.to_dicts()}
            table.add_row(str(method), *(_write_score(by_metric[metric]) for metric in POST_METRICS))
        console.print(table)
        console.print()
    console.print(
        f"Writer: {comparison.writer}. Second lines: 95% bootstrap intervals. Third lines: Backstory's context minus "
        "the other.\n"
        "topics said: topics of which the post says a sentence; topics linked: those to whose documents it links.\n"
        "supported: sentences that the window or the context supports. repeated: runs of 5 words of earlier documents."
    )


def _write_score(row: Mapping[str, Any]) -> str:
    score = f"{row['mean']:.3f}\n{row['low']:.2f}-{row['high']:.2f}"
    if row["gain"] is None:
        return score
    return f"{score}\n{row['gain']:+.3f} ({row['gain_low']:+.2f} to {row['gain_high']:+.2f})"


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _count(windows: int) -> str:
    return "1 window" if windows == 1 else f"{windows} windows"
