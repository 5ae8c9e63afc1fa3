"""The command ``backstory learn``: fit choice and probabilities of documents on labels, or undo it."""

from __future__ import annotations

from dataclasses import asdict
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
    from backstory.operations.learning.map_trial import MapTrial
    from backstory.operations.learning.trial import Trial


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
    too. A set whose messages have topics also maps the probabilities. `backstory run` rebuilds what a fit changes.
    """
    from backstory.operations.learning.learn import learn as learn_links
    from backstory.operations.learning.learn import unlearn
    from backstory.pipeline.workspace import open_workspace

    opened = open_workspace(workspace)
    console = open_console()
    if undo:
        if labelled_set is not None:
            raise InputError("--undo fits nothing; leave --set out")
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
        for line in describe_lesson(lesson):
            console.print(plain(line), soft_wrap=True)


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
            f"  {count(labels.lost, 'correction')} of people are none: the messages of the window have changed, or the "
            "document is gone"
        )
    return lines


def describe_lesson(lesson: Lesson) -> list[str]:
    """Describe what the trials gained, and what has changed."""
    is_adopted = lesson.adopted is not None or lesson.adopted_map is not None
    return [
        f"Choice of documents: {_describe_trial(lesson)}",
        f"Probabilities: {_describe_map_trial(lesson)}",
        "`backstory run` rebuilds what has changed, and `backstory learn --undo` removes all that was learned."
        if is_adopted
        else "Nothing has changed.",
    ]


def _describe_trial(lesson: Lesson) -> str:
    from backstory.operations.learning.trial import LEAST_DAYS

    trial = lesson.trial
    if trial is None:
        return (
            f"as before, since a trial takes labels on {LEAST_DAYS} days, each of a window of ten parts or more. A "
            "part is a message, or a few short ones."
        )
    return (
        f"fitted on {count(trial.fitted, 'window')} before {trial.since}, and tested on {trial.tested:,} from then on: "
        f"ncov@5 {trial.before:.3f} without the fit, {trial.after:.3f} with it, a gain of {trial.gain:+.3f} "
        f"[{trial.gain_low:+.3f}, {trial.gain_high:+.3f}]. {_describe_adoption(adopted=lesson.adopted is not None)}"
    )


def _describe_map_trial(lesson: Lesson) -> str:
    from backstory.operations.learning.trial import LEAST_DAYS

    trial = lesson.map_trial
    if not lesson.tells_of_parts:
        return (
            "as before, since these labels tell which documents a window is about, and not which of its messages each "
            "serves. Only a set whose messages have the topics of its labels (msg_topics.parquet) tells that."
        )
    if trial is None:
        return f"as before, since a trial takes labels on {LEAST_DAYS} days, each of a part that found a document."
    is_unsound = trial.gain_low > 0 and not trial.is_gain
    adoption = (
        "Not adopted, since the map of all days does not keep the order of probabilities."
        if is_unsound
        else _describe_adoption(adopted=lesson.adopted_map is not None)
    )
    return (
        f"fitted on {count(trial.fitted, 'pair')} of a part and a document before {trial.since}, and tested on "
        f"{trial.tested:,} from then on: log loss {trial.before:.3f} without the map, {trial.after:.3f} with it, a "
        f"gain of {trial.gain:+.3f} [{trial.gain_low:+.3f}, {trial.gain_high:+.3f}]. {adoption}"
    )


def _describe_adoption(*, adopted: bool) -> str:
    return "Adopted." if adopted else "Not adopted, since the interval does not lie above 0."


def _describe_removal(*, removed: bool) -> str:
    if not removed:
        return "Nothing was learned, so that there is nothing to remove."
    return "Removed what was learned; `backstory run` rebuilds what that changes."


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
    trial, mapped = _record_trial(lesson.trial), _record_trial(lesson.map_trial)
    if trial is not None and lesson.trial is not None:
        trial["strength"] = lesson.trial.fit.strength
    if mapped is not None and lesson.map_trial is not None:
        mapped |= asdict(lesson.map_trial.map)
    return {
        "trial": trial,
        "adopted": lesson.adopted is not None,
        "tells_of_parts": lesson.tells_of_parts,
        "map_trial": mapped,
        "map_adopted": lesson.adopted_map is not None,
    }


def _record_trial(trial: Trial | MapTrial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    names = ("fitted", "tested", "before", "after", "gain", "gain_low", "gain_high")
    return {name: getattr(trial, name) for name in names} | {"since": trial.since.isoformat()}
