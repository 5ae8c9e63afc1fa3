"""Vectors in a file without a name, where there are too many for memory."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import Vectors


class VectorFile:
    """Reads rows as an array does, and holds only those in memory that are asked for.

    The file has no name, so that it is gone with the process, also with one that is killed. It is read, not mapped:
    the pages of a mapping would count as memory of the process.

    Args:
        folder: A folder on the disk that is to hold the file; made if absent.
        dimension: Width of a vector.

    Attributes:
        shape: Number of rows, and width of a vector.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, folder: Path, dimension: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.shape = (0, dimension)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as the vectors are read
        self.close = weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Read rows, in one piece where they follow each other."""
        wanted = (
            np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows, np.int64)
        )
        found = np.empty((len(wanted), self.shape[1]), self.dtype)
        breaks = np.flatnonzero(np.diff(wanted) != 1) + 1
        for start, stop in pairwise([0, *breaks.tolist(), len(wanted)]):
            if start < stop:
                self._file.seek(int(wanted[start]) * found[0].nbytes)
                self._file.readinto(found[start:stop].data)
        return found

    def append(self, vectors: Vectors) -> None:
        """Add rows at the end.

        Args:
            vectors: Shape ``(rows, dimension)``.

        Raises:
            OSError: The disk is full, or cannot be written.
        """
        self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(vectors, self.dtype).data)
        self.shape = (len(self) + len(vectors), self.shape[1])
