"""Where a run stands as a whole, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backstory.base.wording import count
from backstory.pipeline.run.plan import CHATS, CORPUS
from backstory.pipeline.stages.stage import Stage

_CHATS: Final = frozenset(stage.table for stage in CHATS)


@dataclass(frozen=True)
class RunPosition:
    """Where a run stands. Of the positions of one run, no later one has less done or another total.

    Attributes:
        table: The table that it makes.
        done: Finished steps of the run.
        total: All of them.
        left: What comes after this step, in words; empty for nothing.
        has_turns: Whether this step is one partition of all tables, so that a table is only a part of it.
    """

    table: str
    done: int
    total: int
    left: str
    has_turns: bool = False


class RunCourse:
    """The steps of a run, known before it begins: its tables, or with feedback its partitions between two of them.

    With feedback, the tables of the chats come first, and each partition is a step. The last step makes the index of
    all documents.
    """

    def __init__(self, stages: Sequence[type[Stage]], partitions: int | None) -> None:
        """Lay out the steps.

        Args:
            stages: Stages of the run, in order.
            partitions: Number of partitions that are made in turn; None if the run makes one table after another.
        """
        self._tables = [stage.table for stage in stages]
        self._ahead = list(self._tables)
        self._partitions = partitions
        self._left = partitions or 0

    def pass_partitions(self, left: int) -> None:
        """Note how many partitions are left to make in turn."""
        self._left = left

    def reach(self, table: str) -> RunPosition:
        """Return where the run stands when it begins to make a table; in which order it does so is not known before."""
        place = self._tables.index(table)
        if self._partitions is None:
            if table in self._ahead:
                self._ahead.remove(table)
            total = len(self._tables)
            return RunPosition(table, total - len(self._ahead) - 1, total, ", ".join(self._ahead))
        chats = [name for name in self._tables if name in _CHATS]
        total = len(chats) + self._partitions + 1
        if table in chats:
            left = [*chats[place + 1 :], count(self._partitions, "partition")]
            return RunPosition(table, place, total, ", ".join(left))
        done = total - 1 - self._left
        left_over = [count(self._left, "partition")] if self._left else []
        closing = [CORPUS[-1].table] if self._left else []
        return RunPosition(table, done, total, ", ".join([*left_over, *closing]), has_turns=True)
