"""Where an indexing stands as a whole: its tables, and the steps of each, joined to one place."""

from __future__ import annotations

from typing import Final

from backstory.base.progress import STEP_OF_TABLES

_WHOLE_STEP: Final = 0.99
"""Share of a table that its steps make up together; the rest comes when the table is finished."""


class IndexingPlace:
    """Joins the progress that an indexing announces to one place that never goes back.

    Attributes:
        done: Tables that are made, and the part of the present one.
        total: All tables.
    """

    def __init__(self) -> None:
        """Begin at nothing."""
        self.done, self.total = 0.0, 1
        self._tables = 0

    @property
    def share(self) -> float:
        """The place as a share, from 0 to 1."""
        return self.done / self.total

    def move(self, label: str, done: int, total: int) -> bool:
        """Follow an announcement; see :class:`backstory.base.progress.Listener`.

        Returns:
            Whether the indexing is further than before.
        """
        if label == STEP_OF_TABLES:
            self._tables, self.total = done, total
            place = float(done)
        else:
            # A step is a part of one table, which itself counts when it is made.
            place = self._tables + (done / total if total else 1) * _WHOLE_STEP
        is_further = place > self.done
        self.done = max(self.done, place)
        return is_further
