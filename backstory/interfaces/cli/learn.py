"""The command ``backstory learn``: fit the prior of documents on the links that people have set, or undo it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backstory.base.errors import InputError
from backstory.base.wording import count
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.operations.learning.labels import Labels
    from backstory.operations.learning.learn import Lesson


def learn(
    labelled_set: Annotated[
        Path | None,
        typer.Option(
            "--set",
            metavar="DIR",
            help="Take the labels of this folder in place of the workspace's own: docs.parquet, windows.parquet and "
            "qrels.parquet.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove what was learned, and fit nothing.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from links which documents a window is about, and keep it only if that gains on the later half of the days.

    A dated document labels the windows of its day with the earlier documents that it links to. The file of a post that
    a person has edited labels the post's window with what it cites. `backstory explain --should-be` labels a window,
    too. `backstory run` makes again what a fit changes.
    """
    from backstory.operations.learning.learn import learn as learn_links
    from backstory.operations.learning.learn import unlearn
    from backstory.pipeline.workspace import open_workspace

    opened = open_workspace(workspace)
    console = open_console()
    if undo:
        if labelled_set is not None:
            raise InputError("--undo fits nothing; leave --set out", code="unused_option")
        removed = unlearn(opened)
        if as_json:
            print_json({"removed": removed})
        else:
            console.print(plain(_describe_removal(removed=removed)), soft_wrap=True)
        return
    gathered: dict[str, Any] = {}

    def show(labels: Labels) -> None:
        gathered.update(_record_labels(labels))
        if not as_json:
            for line in describe_labels(labels):
                console.print(plain(line), soft_wrap=True)

    lesson = learn_links(opened, labelled_set, show)
    if as_json:
        print_json({"labels": gathered, **_record_lesson(lesson)})
    else:
        console.print(plain(describe_lesson(lesson)), soft_wrap=True)


def describe_labels(labels: Labels) -> list[str]:
    """Describe from where labels come, and what is no label."""
    of = "the workspace" if labels.of == "workspace" else f"the set {labels.of}"
    lines = [f"{count(labels.windows, 'window')} of {of} with {count(labels.links, 'link')}"]
    lines += [f"  {number:,}: {source}" for source, number in labels.count_sources().items()]
    lines += [f"  {number:,} are none: {source}" for source, number in labels.refused.items()]
    if labels.later:
        lines.append(f"  {labels.later:,} are none: the document is later than the window, or has no date")
    if labels.lost:
        lines.append(
            f"  {count(labels.lost, 'answer')} of people are none: the messages of the window have changed, or the "
            "document is gone"
        )
    return lines


def describe_lesson(lesson: Lesson) -> str:
    """Describe what the trial gained, and what has changed."""
    from backstory.operations.learning.trial import LEAST_DAYS

    trial = lesson.trial
    if trial is None:
        return (
            f"Nothing has changed: a trial takes links on {LEAST_DAYS} days, each to a window of ten parts or more. A "
            "part is a message, or a few short ones."
        )
    measured = (
        f"Fitted on {count(trial.fitted, 'window')} before {trial.since}, and tested on {trial.tested:,} from then on: "
        f"ncov@5 {trial.before:.3f} without the fit, {trial.after:.3f} with it, a gain of {trial.gain:+.3f} "
        f"[{trial.gain_low:+.3f}, {trial.gain_high:+.3f}]."
    )
    if lesson.adopted is None:
        return f"{measured} Nothing has changed, since the interval does not lie above 0."
    return f"{measured} Adopted; `backstory run` makes again what it changes, and `backstory learn --undo` removes it."


def _describe_removal(*, removed: bool) -> str:
    if not removed:
        return "Nothing was learned, so that there is nothing to remove."
    return "Removed what was learned; `backstory run` makes again what that changes."


def _record_labels(labels: Labels) -> dict[str, Any]:
    return {
        "of": labels.of,
        "windows": labels.windows,
        "links": labels.links,
        "sources": labels.count_sources(),
        "refused": dict(labels.refused),
        "later": labels.later,
        "lost": labels.lost,
    }


def _record_lesson(lesson: Lesson) -> dict[str, Any]:
    trial = lesson.trial
    names = ("fitted", "tested", "before", "after", "gain", "gain_low", "gain_high")
    measured = None if trial is None else {name: getattr(trial, name) for name in names}
    if trial is not None and measured is not None:
        measured |= {"since": trial.since.isoformat(), "strength": trial.fit.strength}
    return {"trial": measured, "adopted": lesson.adopted is not None}
