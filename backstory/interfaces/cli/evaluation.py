"""The command ``eval``: measure retrieval, claims and answers on labelled data."""

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
    from backstory.settings.models import Settings

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
    claims: Annotated[
        bool,
        typer.Option(
            "--claims",
            help="Measure instead what contexts claim: which documents serve which parts, and which parts none "
            "serves.",
        ),
    ] = False,
    unrelated: Annotated[
        Path | None,
        typer.Option(
            "--unrelated", metavar="DIR", help="With --claims: another set, whose documents serve nothing."
        ),
    ] = None,
    small_talk: Annotated[
        Path | None,
        typer.Option(
            "--small-talk",
            metavar="FILE",
            help="With --claims: a text file of messages that ask for nothing, one on each line.",
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
    """Measure retrieval, claims (--claims) or answers (--answers) on labelled data.

    Retrieval is compared with a single query for each whole window.
    """
    if answers:
        given = {"--runs": runs, "--html": html, "--claims": claims, "--unrelated": unrelated}
        unused = [name for name, value in (given | {"--small-talk": small_talk}).items() if value]
        if unused:
            raise InputError(f"--answers measures answers alone; leave {' and '.join(unused)} out")
        _print_answers(labelled, workspace, as_json=as_json)
        return
    from backstory.interfaces.pages.report.comparison import write_comparison_page
    from backstory.operations.evaluation.comparison import evaluate_folder
    from backstory.pipeline.workspace import open_workspace
    from backstory.settings.models import Settings

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    if unrelated is not None and not claims:
        raise InputError("--unrelated gives documents for --claims; add --claims")
    if small_talk is not None and not claims:
        raise InputError("--small-talk gives messages for --claims; add --claims")
    if claims:
        if runs is not None or html is not None:
            raise InputError("--claims ranks nothing; leave --runs and --html out")
        _print_claims(labelled, settings, unrelated, small_talk, as_json=as_json)
        return
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


def _print_claims(
    folder: Path, settings: Settings, unrelated: Path | None, small_talk: Path | None, *, as_json: bool
) -> None:
    """Measure the claims of a set, and print them by condition."""
    from backstory.operations.evaluation.claims import measure_claims

    claims = measure_claims(folder, settings, unrelated, small_talk)
    if as_json:
        print_json(claims.as_record())
        return
    console = open_console()
    for (condition,), rows in claims.table.group_by("condition", maintain_order=True):
        console.print(
            plain_line(f"{claims.name}, {condition}: {count(rows['windows'][0], 'window')}", "bold")
        )
        table = make_table("measure", "mean", "95% interval", right=("mean",))
        for row in rows.to_dicts():
            table.add_row(row["measure"], f"{row['mean']:.3f}", f"{row['low']:.2f} to {row['high']:.2f}")
        console.print(table)
        console.print()
    if not claims.by_message:
        console.print(
            "The messages of this set have no topics of its labels. A claim counts as confirmed if the document is\n"
            "relevant to the window. Nothing is known of uncovered parts, nor of the calibration of probabilities."
        )
    if unrelated is None:
        console.print("Name another set with --unrelated to measure what is claimed of unrelated documents.")


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
    for row in comparison.prediction.to_dicts():
        if not row["windows"]:
            console.print(
                f"Correlation of the confidence with {row['metric']}: none, since no window has a confidence; it was "
                "not fitted for this embedder, or the language of the windows is not known."
            )
            continue
        console.print(
            f"Correlation of the confidence with {row['metric']}: Spearman "
            f"{_figure(row['spearman'])}, Pearson {_figure(row['pearson'])} ({count(row['windows'], 'window')})."
        )
    _print_excerpts(console, comparison)


def _print_excerpts(console: Console, comparison: Comparison) -> None:
    """Print how many of the query's words each kind of excerpt shows, one line per group and excerpt."""
    if comparison.excerpts.is_empty():
        console.print("Excerpts: no context holds a relevant document.")
        return
    console.print(
        "\nExcerpts of the relevant documents in the contexts: of the words that a document has in common with the\n"
        "messages of its topic, the share by rarity that the excerpt shows; 95% bootstrap intervals in brackets.\n"
    )
    for (group,), by_group in comparison.excerpts.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {count(by_group['windows'][0], 'window')}", "bold"))
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


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
