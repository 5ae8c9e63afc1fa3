"""The commands that measure and fit: ``eval`` and ``learn``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from backstory.base.errors import InputError
from backstory.base.wording import count
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption, open_library, open_workspace
from backstory.interfaces.cli.terminal import plain_line, print_lines, print_record, print_result, print_table

if TYPE_CHECKING:
    from backstory.interfaces.library.evaluation import AnswerScores
    from backstory.operations.evaluation import Comparison
    from backstory.operations.labels import Labels
    from backstory.operations.learn import Lesson


def evaluate(
    labelled: Annotated[
        Path, typer.Argument(metavar="SET", help="A folder of labels; with --answers, a file of questions.")
    ],
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FILE", help="Write the ranked lists as Parquet.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Draw the methods with their intervals.")
    ] = None,
    workspace: WorkspaceOption = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Measure instead what the workspace answers to questions.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval or answers (--answers) on labelled data.

    Retrieval is compared with a single query for each whole window: that of the default settings, or with --workspace
    of the settings there. A set is a folder with docs.parquet, windows.parquet and qrels.parquet. A file of questions
    has one in JSON on each line, and the answers to them are measured by what they cite, refuse and list.
    """
    if answers:
        if runs is not None or html is not None:
            raise InputError("--answers measures answers alone; leave --runs and --html out")
        _evaluate_answers(labelled, workspace, as_json=as_json)
        return
    from backstory.interfaces.pages.report.comparison import write_comparison_page
    from backstory.operations.evaluation import evaluate_folder
    from backstory.settings.models import Settings

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    for file in filter(None, (runs, html)):  # before the work of minutes, not after it
        if not file.parent.is_dir() or file.is_dir():
            raise InputError(f"{file} cannot be written; name a file in a folder that exists")
    comparison = evaluate_folder(labelled, settings)
    if runs is not None:
        comparison.runs.write_parquet(runs)
    if html is not None:
        write_comparison_page(html, comparison)
    print_result(comparison, _print_comparison, as_json=as_json)


def _print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the scores of each group with their intervals, and the gain over each baseline."""
    from backstory.operations.scoring import METRICS

    for (group,), of_group in comparison.table.group_by("group", maintain_order=True):
        console.print(plain_line(f"{group}: {count(of_group['windows'][0], 'window')}", "bold"))
        cells = []
        for (method,), rows in of_group.group_by("method", maintain_order=True):
            scores = {row["metric"]: row for row in rows.to_dicts()}
            shown = ["{mean:.3f}\n{low:.2f}-{high:.2f}".format(**scores[metric]) for metric in METRICS]
            own = scores["ncov@5"]
            gain = "{gain:+.3f}\n{gain_low:+.2f} to {gain_high:+.2f}"
            gained = None if own["gain"] is None else gain.format(**own)
            cells.append((str(method).removeprefix("whole window, "), *shown, gained))
        columns = ("method", *METRICS, "gain in ncov@5")
        print_table(console, columns, cells, right=columns[1:], folded=["method"])
        console.print()
    console.print(
        "backstory: this library. The other methods use one query for the whole window.\n"
        "ncov@5: topics covered by the first five documents, divided by min(5, topics).\n"
        "success@1: the first document is relevant.\n"
        "gain: backstory minus the method. Second lines: 95% bootstrap intervals.\n"
    )
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in comparison.figures.items())
    print_lines(console, [f"Figures: {figures}"])


def _evaluate_answers(file: Path, workspace: Path | None, *, as_json: bool) -> None:
    """Ask a workspace the questions of a file, and print how good the answers are."""
    from backstory.interfaces.library.evaluation import read_question_set, score_answers

    questions = read_question_set(file)
    with open_library(workspace) as library:
        given = [library.answer(one.question, history=one.history) for one in questions]
    scores = score_answers(questions, given)
    print_result(scores, _print_scores, as_json=as_json)


def _print_scores(console: Console, scores: AnswerScores) -> None:
    """Print how good answers are by group."""
    for (group,), rows in scores.answers.group_by("group", maintain_order=True):
        console.print(plain_line(str(group), "bold"))
        cells = [
            (row["measure"], row["questions"], row["mean"], f"{row['low']:.2f} to {row['high']:.2f}")
            for row in rows.to_dicts()
        ]
        columns = ("measure", "questions", "mean", "95% interval")
        print_table(console, columns, cells, right=("questions", "mean"))
        console.print()
    if scores.answers.is_empty():
        console.print("No question states what is expected; docs/quality.md lists the fields.")
    console.print(
        f"{scores.latency['p50']:.2f} s at the median, {scores.latency['p95']:.2f} s at the 95th percentile, "
        f"{count(scores.tokens, 'token')} of models, {count(scores.embedded_tokens, 'token')} embedded."
    )


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
    from backstory.operations.learn import learn as learn_links
    from backstory.operations.learn import unlearn

    opened = open_workspace(workspace)
    if undo:
        removed = unlearn(opened)
        told = "Removed what was learned; `backstory run` rebuilds what that changes."
        print_record({"removed": removed}, [told if removed else "Nothing was learned."], as_json=as_json)
    else:
        lesson = learn_links(opened)
        lines = [*_describe_labels(lesson.labels), *_describe_trial(lesson)]
        print_record(lesson.model_dump(mode="json"), lines, as_json=as_json)


def _describe_labels(labels: Labels) -> list[str]:
    """Describe from where labels come, and what is no label."""
    none = {
        **labels.refused,
        "the document is later than the window, or has no date": labels.later,
        "a correction of a window whose messages have changed, or of a document that is gone": labels.lost,
    }
    return [
        f"{count(labels.windows, 'window')} with {count(labels.links, 'link')}",
        *(f"  {number:,}: {source}" for source, number in labels.sources.items()),
        *(f"  {number:,} are none: {reason}" for reason, number in none.items() if number),
    ]


def _describe_trial(lesson: Lesson) -> list[str]:
    """Describe what the trial gained, and what has changed."""
    from backstory.operations.learn import LEAST_DAYS

    trial = lesson.trial
    if trial is None:
        parts = "A part is a message, or a few short ones. Nothing has changed."
        return [f"A trial takes labels on {LEAST_DAYS} days, each of a window of ten parts or more. {parts}"]
    fitted = f"Fitted on {count(trial.fitted, 'window')} before {trial.since}"
    gained = f"a gain of {trial.gain:+.3f} [{trial.gain_low:+.3f}, {trial.gain_high:+.3f}]"
    return [
        f"{fitted}, and tested on {trial.tested:,} from then on.",
        f"ncov@5: {trial.before:.3f} without the fit, {trial.after:.3f} with it, {gained}.",
        "Adopted: `backstory run` rebuilds what changes, and `backstory learn --undo` removes the fit."
        if lesson.adopted
        else "Not adopted, since the interval does not lie above 0. Nothing has changed.",
    ]
