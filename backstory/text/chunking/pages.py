"""The pages and lines of a text, as character offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from backstory.text.chunking.units import Range


@dataclass(frozen=True)
class Pages:
    """The pages of one text.

    Attributes:
        starts: Offset at which each page begins, the first at 0; a page without text begins where the next one does.
            Empty for a text without pages.
        confidences: Confidence of each page whose text was recognised in an image, else None; empty if none was.
    """

    starts: Sequence[int] = ()
    confidences: Sequence[float | None] = ()

    def split(self, length: int) -> list[Range]:
        """Return start and end of every page of a text of some length; of the whole text if it has no pages."""
        return list(pairwise([0, *self.starts[1:], length]))

    def find(self, start: int, end: int) -> tuple[int, int] | None:
        """Find the pages of the characters from ``start`` to ``end``.

        It returns the first and the last page, from 1; None without pages.
        """
        if not self.starts:
            return None
        return bisect_right(self.starts, start), bisect_right(self.starts, max(start, end - 1))

    def find_confidence(self, first: int, last: int) -> float | None:
        """Return the least confidence of the pages ``first`` to ``last``, from 1; None if none was recognised."""
        known = [value for value in self.confidences[first - 1 : last] if value is not None]
        return min(known, default=None)


def find_line_ends(text: str) -> NDArray[np.int64]:
    r"""Return the offset of every ``\n`` of a text, shape ``(lines - 1,)``."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
    return np.flatnonzero(codes == ord("\n"))
