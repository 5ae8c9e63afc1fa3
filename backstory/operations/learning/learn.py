"""Learns from labels which documents windows are about and how probable claims are, and keeps what proves itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from backstory.base.errors import InputError
from backstory.operations.evaluation.labelled_set import read_labelled_set
from backstory.operations.learning.examples import Examples, search_set, search_workspace
from backstory.operations.learning.labels import Labels, gather_labels, label_set
from backstory.operations.learning.map_trial import MapTrial, try_map
from backstory.operations.learning.trial import Trial, try_fit
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.document_fit import LearnedFit
from backstory.retrieval.evidence.learned import Learned, read_learned
from backstory.retrieval.evidence.probability_map import LearnedMap
from backstory.storage.turns import running


@dataclass(frozen=True)
class Lesson:
    """What :func:`learn` did.

    Attributes:
        trial: The trial of the fit of documents; None if there were too few labelled days.
        adopted: The fit that the workspace uses from now on; None if the choice of documents has not changed.
        map_trial: The trial of the map of probabilities; None if it was not tried.
        adopted_map: The map that the workspace uses from now on; None if the probabilities have not changed.
        tells_of_parts: Whether the labels tell which documents serve which part. If not, no map is tried.
    """

    trial: Trial | None
    adopted: LearnedFit | None
    map_trial: MapTrial | None
    adopted_map: LearnedMap | None
    tells_of_parts: bool


def learn(
    workspace: Workspace,
    labelled_set: Path | None = None,
    on_labels: Callable[[Labels], None] = lambda _: None,
) -> Lesson:
    """Fit the prior of documents on the labels of a workspace or a set, and adopt the fit if it proves itself.

    The fit of the earlier half of the labelled days is tested on the later half. If it gains beyond the interval, a fit
    on all days is adopted: `backstory run` then makes again what it changes. Otherwise nothing changes. In the same way
    the probabilities are fitted on a set whose messages have topics.

    Args:
        workspace: A workspace that a run has made.
        labelled_set: A labelled set (see :func:`backstory.operations.evaluation.labelled_set.read_labelled_set`), whose
            labels are taken in place of the workspace's own; None for these.
        on_labels: Called with the labels before anything is fitted.

    Raises:
        InputError: The settings choose documents without a prior, or the folder is not a labelled set.
        SearchIndexError: No run has made the search index.
        EmbeddingError: The embedder failed.
        WorkspaceError: What was learned before is damaged.
    """
    _require_prior(workspace)
    with (
        running(workspace.catalog.state, "backstory learn"),
        _open_examples(workspace, labelled_set, on_labels) as examples,
    ):
        before = read_learned(workspace.learned)
        trial, pairs = try_fit(examples), examples.list_pairs()
        map_trial = None if pairs is None else try_map(pairs)
        adopted = _adopt_fit(examples, trial)
        adopted_map = _adopt_map(examples, map_trial)
        if adopted is not None or adopted_map is not None:
            Learned(adopted or before.documents, adopted_map or before.probabilities).write(workspace.learned)
    return Lesson(trial, adopted, map_trial, adopted_map, tells_of_parts=pairs is not None)


def _adopt_fit(examples: Examples, trial: Trial | None) -> LearnedFit | None:
    """Return the fit of a trial with what it was learned from; None if it did not gain."""
    if trial is None or not trial.is_gain:
        return None
    return LearnedFit(
        fit=trial.fit,
        embedder=examples.retrieval.index.embedder_id,
        source=examples.labels.of,
        windows=examples.labels.windows,
        links=examples.labels.links,
        gain=trial.gain,
        gain_low=trial.gain_low,
        gain_high=trial.gain_high,
    )


def _adopt_map(examples: Examples, trial: MapTrial | None) -> LearnedMap | None:
    """Return the map of a trial with what it was learned from; None if it did not gain."""
    if trial is None or not trial.is_gain:
        return None
    return LearnedMap(
        map=trial.map,
        embedder=examples.retrieval.index.embedder_id,
        source=examples.labels.of,
        pairs=trial.fitted + trial.tested,
        gain=trial.gain,
        gain_low=trial.gain_low,
        gain_high=trial.gain_high,
    )


def unlearn(workspace: Workspace) -> bool:
    """Remove what was learned, also if its file is damaged.

    Returns:
        Whether there was something to remove.
    """
    with running(workspace.catalog.state, "backstory learn --undo"):
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
        )
