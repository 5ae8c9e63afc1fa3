"""The order of a run where written posts are documents for later windows: partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from backstory.pipeline.chats.named_documents import record_named_documents
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import ANSWERS, CHATS, CORPUS, INTERIM_CORPUS
from backstory.pipeline.stages.posts import WAITING
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.workspace import Workspace

Build: TypeAlias = Callable[[type[Stage], Sequence[str]], StageResult | None]
"""Builds a stage for some partitions; None if nothing was built."""

ShouldContinue: TypeAlias = Callable[[], bool]
"""Returns False to stop before the next partition: a budget is used up."""

_GROWTH: Final = 4


def execute_in_turn(
    resources: RunResources,
    partitions: Sequence[str],
    build: Build,
    should_continue: ShouldContinue,
    report_left: Callable[[int], None],
) -> list[str]:
    """Build one partition after another, where written posts are documents for later windows.

    A partition is searched and written when the posts of all earlier windows are in the index. Partitions without
    changes are passed over together, so a run that changes one day costs as much as without feedback, unless its post
    changes what later windows are given.

    Within a partition, a window that begins after another has ended waits for the post of that other window. The stages
    are then repeated, once for each window in such a chain at most.

    Args:
        resources: What the stages of the run share.
        partitions: Keys of the partitions, in order of time.
        build: Builds one stage for some partitions. It is called several times for one stage.
        should_continue: Called before each partition.
        report_left: Called with the number of partitions that are left.

    Returns:
        The partitions that were left because the run did not continue, in order.
    """
    for stage in CHATS:
        build(stage, partitions)
    left = list(partitions)
    while left and should_continue():
        _build_all(INTERIM_CORPUS, left, build)
        if not should_continue():
            break
        # A name that is found in a document changes contexts of earlier days, which must be made in their turn.
        record_named_documents(resources.workspace)
        place = _find_first_stale(resources.workspace, left)
        # The partitions before it have nothing to search, or nothing that has changed.
        _build_with_posts(resources, left[: place + 1], build, should_continue)
        left = left[place + 1 :]
        report_left(len(left))
    if should_continue():
        _build_all(CORPUS, partitions, build)
    elif resources.unpublished is not None:
        # The posts that the run has written are in the index for everybody, also if it stops before its end.
        build(CORPUS[-1], partitions)
    return left


def _find_first_stale(workspace: Workspace, partitions: Sequence[str]) -> int:
    """Find the first partition with windows that must be searched or written again.

    The files of a partition are hashed to know, so that only a few partitions are looked at if the first is pending.
    """
    windows = workspace.catalog.read("windows")
    first, many = 0, 1
    while first < len(partitions):
        group = partitions[first : first + many]
        wanted = [key for key in group if key in windows and windows[key].rows]
        found: str | None = None
        for stage in ANSWERS:
            # Only what comes before the first one that is known to be stale can change the answer.
            earlier = wanted if found is None else wanted[: wanted.index(found)]
            found = next(iter(stage.find_stale(workspace, earlier)), found) if earlier else found
        if found is not None:
            return partitions.index(found)
        first, many = first + many, many * _GROWTH
    return len(partitions)


def _build_with_posts(
    resources: RunResources, partitions: Sequence[str], build: Build, should_continue: ShouldContinue
) -> None:
    """Search and write partitions of which the last is stale, until no window waits for the post of another."""
    waiting = None
    while True:
        with resources.sharing_index():
            posts = _build_all(ANSWERS, partitions, build)
        partitions = partitions[-1:]
        still = posts.counts.get(WAITING, 0) if posts else 0
        if not still or still == waiting or not should_continue():
            return
        waiting = still
        _build_all(INTERIM_CORPUS, partitions, build)


def _build_all(stages: Sequence[type[Stage]], partitions: Sequence[str], build: Build) -> StageResult | None:
    """Build stages, and return the report of the last one."""
    report = None
    for stage in stages:
        report = build(stage, partitions)
    return report
