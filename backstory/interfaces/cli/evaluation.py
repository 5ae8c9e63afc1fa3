"""The command ``eval``: measure retrieval and answers on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from backstory.base.errors import InputError
from backstory.base.wording import count
from backstory.interfaces.cli.options import JsonOption
from backstory.interfaces.cli.terminal import make_table, open_console, plain, plain_line, print_json

if TYPE_CHECKING:
    from backstory.operations.evaluation.comparison import Comparison

_GAIN = "gain in ncov@5"


def evaluate(
    labelled: Annotated[
        Path,
        typer.Argument(
            metavar="SET",
            help="Folder with docs.parquet, windows.parquet and qrels.parquet; with --answers, a file of questions.",
        ),
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
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            "-w",
            metavar="DIR",
            help="Measure the settings of this workspace; default: the default settings. With --answers: ask this "
            "workspace; default: BACKSTORY_WORKSPACE, or the current folder.",
        ),
    ] = None,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers",
            help="Measure instead what the workspace answers to questions, one in JSON on each line: what is cited, "
            "what is refused, how complete lists are.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval or answers (--answers) on labelled data.

    Retrieval is compared with a single query for each whole window.
    """
    if answers:
        if runs is not None or html is not None:
            raise InputError("--answers measures answers alone; leave --runs and --html out")
        _print_answers(labelled, workspace, as_json=as_json)
        return
    from backstory.interfaces.pages.report.comparison import write_comparison_page
    from backstory.operations.evaluation.comparison import evaluate_folder
    from backstory.pipeline.workspace import open_workspace
    from backstory.settings.models import Settings

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    for file in (runs, html):
        if file is not None and not file.parent.is_dir():
            raise InputError(f"{file.parent} does not exist; create the folder for {file.name}")
        if file is not None and file.is_dir():
            raise InputError(f"{file} is a folder; name a file in it")
    comparison = evaluate_folder(labelled, settings)
    if runs is not None:
        comparison.runs.write_parquet(runs)
    if html is not None:
        write_comparison_page(html, comparison)
    if as_json:
        print_json(comparison.as_record())
    else:
        print_comparison(open_console(), comparison)


def _print_answers(file: Path, workspace: Path | None, *, as_json: bool) -> None:
    """Ask a workspace the questions of a file, and print how good the answers are by group."""
    from backstory.interfaces.library.given_answers import give_answers
    from backstory.interfaces.library.library import Library
    from backstory.operations.evaluation.answers import score_answers
    from backstory.operations.evaluation.question_set import read_question_set

    questions = read_question_set(file)
    with Library.open(workspace) as library:
        scores = score_answers(questions, list(give_answers(library, questions)))
    if as_json:
        print_json(scores.as_record())
        return
    console = open_console()
    for (group,), rows in scores.table.group_by("group", maintain_order=True):
        console.print(plain_line(str(group), "bold"))
        table = make_table("measure", "questions", "mean", "95% interval", right=("questions", "mean"))
        for row in rows.to_dicts():
            interval = f"{row['low']:.2f} to {row['high']:.2f}"
            table.add_row(row["measure"], str(row["questions"]), f"{row['mean']:.3f}", interval)
        console.print(table)
        console.print()
    if scores.table.is_empty():
        console.print("No question states what is expected; docs/quality.md lists the fields.")
    p50, p95 = scores.latency["p50"], scores.latency["p95"]
    console.print(
        f"{count(len(questions), 'question')}: {p50:.2f} s at the median, {p95:.2f} s at the 95th percentile, "
        f"{count(scores.tokens, 'token')} of models, {count(scores.embedded_tokens, 'token')} embedded."
    )


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the scores of each group with their intervals, and the gain over each baseline."""
    from backstory.operations.evaluation.scoring import METRICS

    for (group,), by_group in comparison.table.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {count(by_group['windows'][0], 'window')}", "bold"))
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
