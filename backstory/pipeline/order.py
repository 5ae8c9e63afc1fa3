"""The order of a run: stage by stage or, where written posts are documents, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from backstory.pipeline.posts import WAITING
from backstory.pipeline.stage_report import StageReport
from backstory.pipeline.stages import STAGES, Stage
from backstory.workspace import Workspace

Make: TypeAlias = Callable[[Stage, Sequence[str]], StageReport | None]
"""Makes a stage for some partitions; None if it failed."""

_CHATS: Final = tuple(stage for stage in STAGES if stage.table in ("messages", "windows", "window_chunks"))
_CORPUS: Final = tuple(stage for stage in STAGES if not stage.partitioned)
_ANSWERS: Final = tuple(stage for stage in STAGES if stage not in (*_CHATS, *_CORPUS))


def make_in_order(workspace: Workspace, partitions: Sequence[str], make: Make) -> None:
    """Make every stage for some partitions.

    Without feedback, each stage is made once for all partitions. With it, a partition is searched and written when the
    posts of all earlier windows are in the index. Partitions without changes are passed over together, so a run that
    changes one day costs as much as without feedback, unless its post changes what later windows are given.

    Within a partition, a window that begins after another has ended waits for the post of that other window. The stages
    are then repeated, once for each window in such a chain at most.

    Args:
        workspace: An open workspace.
        partitions: Keys of the partitions, in order of time.
        make: Makes one stage. It is called several times for one stage with feedback.
    """
    if not workspace.feeds_back:
        for stage in STAGES:
            make(stage, partitions)
        return
    for stage in _CHATS:
        make(stage, partitions)
    left = list(partitions)
    while left:
        _make_all(_CORPUS, left, make)
        place = _find_first_pending(workspace, left)
        if place:
            _make_all(_ANSWERS, left[:place], make)
        if place < len(left):
            _make_with_posts(left[place], make)
        left = left[place + 1 :]
    _make_all(_CORPUS, partitions, make)


def _find_first_pending(workspace: Workspace, partitions: Sequence[str]) -> int:
    """Find the first partition with windows that must be searched or written again."""
    windows = workspace.ledger.read("windows")
    wanted = [key for key in partitions if key in windows and windows[key].rows]
    pending = {key for stage in _ANSWERS for key in stage.find_pending(workspace, wanted)}
    return next((place for place, key in enumerate(partitions) if key in pending), len(partitions))


def _make_with_posts(partition: str, make: Make) -> None:
    """Search and write one partition, until no window waits for the post of another."""
    waiting = None
    while True:
        posts = _make_all(_ANSWERS, [partition], make)
        still = posts.counts.get(WAITING, 0) if posts else 0
        if not still or still == waiting:
            return
        waiting = still
        _make_all(_CORPUS, [partition], make)


def _make_all(stages: Sequence[Stage], partitions: Sequence[str], make: Make) -> StageReport | None:
    """Make stages, and return the report of the last one."""
    report = None
    for stage in stages:
        report = make(stage, partitions)
    return report
