"""Learns from the links of a community which documents its windows are about, and keeps what proves itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from backstory.base.errors import InputError
from backstory.operations.evaluation.labelled_set import read_labelled_set
from backstory.operations.learning.examples import Examples, search_set, search_workspace
from backstory.operations.learning.labels import Labels, gather_labels, label_set
from backstory.operations.learning.trial import Trial, try_fit
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.document_fit import LearnedFit
from backstory.storage.tables.locks import running


@dataclass(frozen=True)
class Lesson:
    """What :func:`learn` did.

    Attributes:
        trial: The trial of the fit; None if there were too few labelled days.
        adopted: The fit that the workspace uses from now on; None if nothing has changed.
    """

    trial: Trial | None
    adopted: LearnedFit | None


def learn(
    workspace: Workspace,
    labelled_set: Path | None = None,
    on_labels: Callable[[Labels], None] = lambda _: None,
) -> Lesson:
    """Fit the prior of documents on the labels of a workspace or a set, and adopt the fit if it proves itself.

    The fit of the earlier half of the labelled days is tested on the later half. If it gains beyond the interval, a fit
    on all days is adopted: `backstory run` then makes again what it changes. Otherwise nothing changes.

    Args:
        workspace: A workspace that a run has made.
        labelled_set: A labelled set (see :func:`backstory.operations.evaluation.labelled_set.read_labelled_set`), whose
            labels are taken in place of the workspace's own; None for these.
        on_labels: Called with the labels before anything is fitted.

    Raises:
        InputError: The settings choose documents without a prior, or the folder is not a labelled set.
        SearchIndexError: No run has made the search index.
        EmbeddingError: The embedder failed.
    """
    _require_prior(workspace)
    with (
        running(workspace.tables, "backstory learn"),
        _open_examples(workspace, labelled_set, on_labels) as examples,
    ):
        trial = try_fit(examples)
        if trial is None or not trial.is_gain:
            return Lesson(trial, None)
        adopted = LearnedFit(
            fit=trial.fit,
            embedder=examples.retrieval.index.embedder_id,
            source=examples.labels.of,
            windows=examples.labels.windows,
            links=examples.labels.links,
            gain=trial.gain,
            gain_low=trial.gain_low,
            gain_high=trial.gain_high,
        )
        adopted.write(workspace.learned)
    return Lesson(trial, adopted)


def unlearn(workspace: Workspace) -> bool:
    """Remove what was learned, also if its file is damaged.

    Returns:
        Whether there was something to remove.
    """
    with running(workspace.tables, "backstory learn --undo"):
        was_there = workspace.learned.exists()
        workspace.learned.unlink(missing_ok=True)
    return was_there


def _open_examples(
    workspace: Workspace, folder: Path | None, on_labels: Callable[[Labels], None]
) -> AbstractContextManager[Examples]:
    if folder is None:
        labels = gather_labels(workspace)
        on_labels(labels)
        return search_workspace(workspace, labels)
    labelled = read_labelled_set(folder)
    labels = label_set(labelled)
    on_labels(labels)
    return search_set(workspace, labelled, labels)


def _require_prior(workspace: Workspace) -> None:
    """Raise ``InputError`` if the settings choose documents in a way that no prior weighs."""
    strategy = workspace.settings.rag.strategy
    if strategy != "coverage":
        raise InputError(
            f"rag.strategy is {strategy}, which weighs no document by what was learned; set "
            "`rag: {strategy: coverage}` in backstory.yaml, or leave it out",
            code="no_prior",
            setting="rag.strategy",
        )
