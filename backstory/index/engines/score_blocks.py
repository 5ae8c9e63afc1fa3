"""Scores of terms in blocks of rows, put in the order of the terms through a file without a name."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

ENTRIES_AT_ONCE = 1 << 21
"""Scores that are put in order at once, unless a single term has more."""

ENTRY: Final = np.dtype([("term", np.int32), ("row", np.int32), ("score", np.float32)])
Entries: TypeAlias = NDArray[Any]
"""Scores of type :data:`ENTRY`, each of one term in one row."""

_HELD_BYTES: Final = 1 << 24
"""Most bytes that are held in memory in place of the file."""


class ScoreBlocks:
    """Blocks of scores, each of rows after those of the block before it.

    Args:
        folder: Where the file of many scores lies; None for the system's folder of temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        # Open as long as the scores are read.
        self._file = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            _HELD_BYTES, dir=None if folder is None else str(folder)
        )
        weakref.finalize(self, self._file.close)
        self._bounds = [0]
        self._firsts = np.zeros(1, np.int64)
        self._cuts = np.empty((0, 2), np.int64)

    def __len__(self) -> int:
        return self._bounds[-1]

    def append(self, entries: Entries) -> None:
        """Add a block.

        Raises:
            OSError: The disk is full, or cannot be written.
        """
        self._write(self._bounds[-1], entries)
        self._bounds.append(self._bounds[-1] + len(entries))

    def replace(self, change: Callable[[Entries], None], frequency: NDArray[np.int64]) -> None:
        """Change each block, and order it by term and row, so that :meth:`read_by_term` can follow.

        Args:
            change: Changes a block in place, and keeps the number of its scores.
            frequency: Number of scores of each term after the change.

        Raises:
            OSError: The disk is full, or cannot be written.
        """
        # The pieces that are read later begin at these terms.
        ends = np.cumsum(frequency)
        starts = np.searchsorted(ends, np.arange(0, len(self), ENTRIES_AT_ONCE), side="right")
        self._firsts = np.unique(np.append(starts, len(frequency)))
        cuts = []
        for first, last in pairwise(self._bounds):
            entries = self._read(first, last)
            change(entries)
            entries = _order(entries)
            self._write(first, entries)
            cuts.append(first + np.searchsorted(entries["term"], self._firsts))
        self._cuts = np.array(cuts, np.int64).reshape(-1, len(self._firsts))

    def read_by_term(self, places: NDArray[np.int64], others: Entries) -> Iterator[Entries]:
        """Read the scores in the order of the terms, and of the rows of a term.

        Args:
            places: The row that each row becomes, ascending.
            others: Scores of other rows.

        Yields:
            Scores of the next terms.
        """
        others = _order(others)
        bounds = np.searchsorted(others["term"], self._firsts)
        for piece, (first, last) in enumerate(pairwise(bounds.tolist())):
            parts = [self._read(*cut) for cut in self._cuts[:, piece : piece + 2].tolist()]
            for part in parts:
                part["row"] = places[part["row"]]
            yield _order(np.concatenate([*parts, others[first:last]]))

    def _read(self, first: int, last: int) -> Entries:
        self._file.seek(first * ENTRY.itemsize)
        return np.frombuffer(bytearray(self._file.read((last - first) * ENTRY.itemsize)), ENTRY)

    def _write(self, first: int, entries: Entries) -> None:
        self._file.seek(first * ENTRY.itemsize)
        self._file.write(entries.view(np.uint8).data)


def _order(entries: Entries) -> Entries:
    keys = entries["term"].astype(np.int64) << 32 | entries["row"]
    return entries[np.argsort(keys, kind="stable")]
