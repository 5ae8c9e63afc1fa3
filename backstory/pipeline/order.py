"""The order of a run: stage by stage or, where written posts are documents, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from backstory.pipeline.posts import WAITING, is_made_in_turn
from backstory.pipeline.retrieval import sharing_index
from backstory.pipeline.stage_report import StageReport
from backstory.pipeline.stages import INTERIM_STAGES, STAGES, Stage
from backstory.workspace import Workspace

Make: TypeAlias = Callable[[Stage, Sequence[str]], StageReport | None]
"""Makes a stage for some partitions; None if nothing was made."""

GoesOn: TypeAlias = Callable[[], bool]
"""Says whether the run goes on; it does not if it waits, or has been stopped."""

_GROWTH: Final = 4

CHATS: Final = tuple(stage for stage in STAGES if stage.table in ("messages", "windows", "window_chunks"))
"""Stages that read no document."""

CORPUS: Final = tuple(stage for stage in STAGES if not stage.partitioned)
"""Stages of the documents and their index."""

_INTERIM_CORPUS: Final = tuple(stage for stage in INTERIM_STAGES if not stage.partitioned)

ANSWERS: Final = tuple(stage for stage in STAGES if stage not in (*CHATS, *CORPUS))
"""Stages that search the documents for windows, and write posts."""


def make_in_order(
    workspace: Workspace, partitions: Sequence[str], make: Make, goes_on: GoesOn = lambda: True
) -> list[str]:
    """Make every stage for some partitions, and where there are no chats the stages of the documents alone.

    Without feedback, each stage is made once for all partitions. With it, a partition is searched and written when the
    posts of all earlier windows are in the index. Partitions without changes are passed over together, so a run that
    changes one day costs as much as without feedback, unless its post changes what later windows are given.

    Within a partition, a window that begins after another has ended waits for the post of that other window. The stages
    are then repeated, once for each window in such a chain at most.

    Args:
        workspace: An open workspace.
        partitions: Keys of the partitions, in order of time.
        make: Makes one stage. It is called several times for one stage with feedback.
        goes_on: Asked with feedback before each partition.

    Returns:
        The partitions that were left because the run did not go on, in order.
    """
    if not workspace.has_chats:
        for stage in CORPUS:
            make(stage, [])
        return []
    if not is_made_in_turn(workspace):
        for stage in STAGES:
            make(stage, partitions)
        return []
    for stage in CHATS:
        make(stage, partitions)
    left = list(partitions)
    while left and goes_on():
        _make_all(_INTERIM_CORPUS, left, make)
        if not goes_on():
            break
        place = _find_first_pending(workspace, left)
        # The partitions before it have nothing to search, or nothing that has changed.
        _make_with_posts(workspace, left[: place + 1], make, goes_on)
        left = left[place + 1 :]
    if goes_on():
        _make_all(CORPUS, partitions, make)
    return left


def _find_first_pending(workspace: Workspace, partitions: Sequence[str]) -> int:
    """Find the first partition with windows that must be searched or written again.

    The files of a partition are hashed to know, so that only a few partitions are looked at if the first is pending.
    """
    windows = workspace.ledger.read("windows")
    first, many = 0, 1
    while first < len(partitions):
        group = partitions[first : first + many]
        wanted = [key for key in group if key in windows and windows[key].rows]
        pending = {key for stage in ANSWERS for key in stage.find_pending(workspace, wanted)}
        if pending:
            return next(place for place, key in enumerate(partitions) if key in pending)
        first, many = first + many, many * _GROWTH
    return len(partitions)


def _make_with_posts(workspace: Workspace, partitions: Sequence[str], make: Make, goes_on: GoesOn) -> None:
    """Search and write partitions of which the last is pending, until no window waits for the post of another."""
    waiting = None
    while True:
        with sharing_index(workspace):
            posts = _make_all(ANSWERS, partitions, make)
        partitions = partitions[-1:]
        still = posts.counts.get(WAITING, 0) if posts else 0
        if not still or still == waiting or not goes_on():
            return
        waiting = still
        _make_all(_INTERIM_CORPUS, partitions, make)


def _make_all(stages: Sequence[Stage], partitions: Sequence[str], make: Make) -> StageReport | None:
    """Make stages, and return the report of the last one."""
    report = None
    for stage in stages:
        report = make(stage, partitions)
    return report
