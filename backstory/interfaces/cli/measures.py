"""The commands that measure and fit: ``eval`` and ``learn``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from backstory.base.errors import InputError
from backstory.base.wording import count
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption, open_library, open_workspace
from backstory.interfaces.cli.terminal import plain, plain_line, print_record, print_result, print_table

if TYPE_CHECKING:
    from backstory.interfaces.library.evaluation import AnswerScores
    from backstory.operations.evaluation.comparison import Comparison
    from backstory.operations.learning.labels import Labels
    from backstory.operations.learning.learn import Lesson


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
    print_result(comparison, print_comparison, as_json=as_json)


def _print_answers(file: Path, workspace: Path | None, *, as_json: bool) -> None:
    """Ask a workspace the questions of a file, and print how good the answers are."""
    from backstory.interfaces.library.evaluation import ask_all, read_question_set, score_answers

    questions = read_question_set(file)
    with open_library(workspace) as library:
        scores = score_answers(questions, ask_all(library, questions))
    total = len(questions)
    print_result(scores, lambda console, scores: _print_scores(console, scores, total), as_json=as_json)


def _print_scores(console: Console, scores: AnswerScores, questions: int) -> None:
    """Print how good answers are by group."""
    for (group,), rows in scores.table.group_by("group", maintain_order=True):
        console.print(plain_line(str(group), "bold"))
        cells = [
            (
                row["measure"],
                str(row["questions"]),
                f"{row['mean']:.3f}",
                f"{row['low']:.2f} to {row['high']:.2f}",
            )
            for row in rows.to_dicts()
        ]
        columns = ("measure", "questions", "mean", "95% interval")
        print_table(console, columns, cells, right=("questions", "mean"))
        console.print()
    if scores.table.is_empty():
        console.print("No question states what is expected; docs/quality.md lists the fields.")
    p50, p95 = scores.latency["p50"], scores.latency["p95"]
    console.print(
        f"{count(questions, 'question')}: {p50:.2f} s at the median, {p95:.2f} s at the 95th percentile, "
        f"{count(scores.tokens, 'token')} of models, {count(scores.embedded_tokens, 'token')} embedded."
    )


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the scores of each group with their intervals, and the gain over each baseline."""
    from backstory.operations.evaluation.scoring import METRICS

    for (group,), by_group in comparison.table.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {count(by_group['windows'][0], 'window')}", "bold"))
        cells = []
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
            cells.append((str(method).removeprefix("whole window, "), *scores, gain))
        columns = ("method", *METRICS, _GAIN)
        print_table(console, columns, cells, right=columns[1:], folded=["method"])
        console.print()
    console.print(
        "backstory: this library. The other methods use one query for the whole window.\n"
        "ncov@5: topics covered by the first five documents, divided by min(5, topics).\n"
        "success@1: the first document is relevant.\n"
        "gain: backstory minus the method. Second lines: 95% bootstrap intervals.\n"
    )
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in comparison.figures.items())
    console.print(plain(f"Figures: {figures}"), soft_wrap=True)


def learn(
    undo: Annotated[bool, typer.Option("--undo", help="Remove what was learned, and fit nothing.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from labels which documents a window is about, and keep it only if it helps on the later half of the days.

    A dated document labels the windows of its day with the earlier documents that it links to. The file of a post that
    a person has edited labels the post's window with what it cites. `backstory explain --should-be` labels a window,
    too. `backstory run` rebuilds what a fit changes.
    """
    from backstory.operations.learning.learn import learn as learn_links
    from backstory.operations.learning.learn import unlearn

    opened = open_workspace(workspace)
    if undo:
        removed = unlearn(opened)
        record: dict[str, object] = {"removed": removed}
        lines = [
            "Removed what was learned; `backstory run` rebuilds what that changes."
            if removed
            else "Nothing was learned, so that there is nothing to remove."
        ]
    else:
        lesson = learn_links(opened)
        record = lesson.model_dump(mode="json")
        lines = [*_describe_labels(lesson.labels), *_describe_trial(lesson)]
    print_record(record, lines, as_json=as_json)


def _describe_labels(labels: Labels) -> list[str]:
    """Describe from where labels come, and what is no label."""
    lines = [f"{count(labels.windows, 'window')} with {count(labels.links, 'link')}"]
    lines += [f"  {number:,}: {source}" for source, number in labels.sources.items()]
    lines += [f"  {number:,} are none: {source}" for source, number in labels.refused.items()]
    if labels.later:
        lines.append(f"  {labels.later:,} are none: the document is later than the window, or has no date")
    if labels.lost:
        lines.append(
            f"  {count(labels.lost, 'correction')} of people are none: the messages of the window have changed, or the "
            "document is gone"
        )
    return lines


def _describe_trial(lesson: Lesson) -> list[str]:
    """Describe what the trial gained, and what has changed."""
    from backstory.operations.learning.learn import LEAST_DAYS

    trial = lesson.trial
    if trial is None:
        parts = "A part is a message, or a few short ones. Nothing has changed."
        return [f"A trial takes labels on {LEAST_DAYS} days, each of a window of ten parts or more. {parts}"]
    told = (
        f"Fitted on {count(trial.fitted, 'window')} before {trial.since}, and tested on {trial.tested:,} from then on: "
        f"ncov@5 {trial.before:.3f} without the fit, {trial.after:.3f} with it, a gain of {trial.gain:+.3f} "
        f"[{trial.gain_low:+.3f}, {trial.gain_high:+.3f}]."
    )
    if lesson.adopted:
        return [
            told,
            "Adopted: `backstory run` rebuilds what changes, and `backstory learn --undo` removes the fit.",
        ]
    return [told, "Not adopted, since the interval does not lie above 0. Nothing has changed."]
