"""The command ``backstory learn``: fit the choice of documents on labels, or undo it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backstory.base.errors import InputError
from backstory.base.wording import count
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import print_record

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
    """Learn from labels which documents a window is about, and keep it only if it helps on the later half of the days.

    A dated document labels the windows of its day with the earlier documents that it links to. The file of a post that
    a person has edited labels the post's window with what it cites. `backstory explain --should-be` labels a window,
    too. `backstory run` rebuilds what a fit changes.
    """
    from backstory.operations.learning.learn import learn as learn_links
    from backstory.operations.learning.learn import unlearn
    from backstory.pipeline.workspace import open_workspace

    opened = open_workspace(workspace)
    if undo:
        if labelled_set is not None:
            raise InputError("--undo fits nothing; leave --set out")
        removed = unlearn(opened)
        record: dict[str, object] = {"removed": removed}
        lines = [
            "Removed what was learned; `backstory run` rebuilds what that changes."
            if removed
            else "Nothing was learned, so that there is nothing to remove."
        ]
    else:
        lesson = learn_links(opened, labelled_set)
        record = lesson.model_dump(mode="json")
        lines = [*_describe_labels(lesson.labels), *_describe_trial(lesson)]
    print_record(record, lines, as_json=as_json)


def _describe_labels(labels: Labels) -> list[str]:
    """Describe from where labels come, and what is no label."""
    of = "the workspace" if labels.of == "workspace" else f"the set {labels.of}"
    lines = [f"{count(labels.windows, 'window')} of {of} with {count(labels.links, 'link')}"]
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
