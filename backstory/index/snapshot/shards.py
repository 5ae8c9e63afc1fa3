"""The vectors of a snapshot in shards of rows, so that a search maps one of them at a time.

``vectors/`` holds all shards but the last, each named by the SHA-256 of its file, and ``vectors.npy`` the last one. The
hashes of the chunks' ids decide where a shard ends. So a change of some rows leaves the other shards as they are, and
the next snapshot links their files instead of writing them. The last shard is always written: a small index, which has
no other, shares no file with an earlier snapshot, and damage of one does not reach the other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from backstory.base.files.arrays import map_array
from backstory.base.ids import digest_each
from backstory.models.embeddings.protocol import Vectors

VECTORS_FILE = "vectors.npy"
SHARDS_FOLDER = "vectors"
SHARD_BYTES = 512 << 20
"""Most bytes of a shard: 350,000 vectors of 384 numbers."""
ROWS_AT_ONCE = 8192

_KEPT_HASHES: Final = 1 << 14
_hashes: dict[tuple[int, ...], str] = {}
"""The SHA-256 of files by what the system tells of them; all links to a file are one file."""


class ShardRecord(BaseModel):
    """One shard but the last: the SHA-256 of its file, which names it, and the number of its rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    rows: int


class _Sink(Protocol):
    def write(self, data: Any, /) -> object: ...


class ShardedVectors:
    """Reads rows of several files as an array does, of which it keeps one file mapped.

    Args:
        paths: The files, in the order of the rows.
        rows: Number of rows of each file.
        dimension: Width of a vector.

    Attributes:
        shape: Number of rows, and width of a vector.
        bounds: The first row of each file, then the number of all rows.
    """

    def __init__(self, paths: Sequence[Path], rows: Sequence[int], dimension: int) -> None:
        self.bounds = np.cumsum([0, *rows])
        self.shape = (int(self.bounds[-1]), dimension)
        self._paths = paths
        self._mapped: tuple[int, Vectors] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Read rows: a view of the file if they follow each other in one file, else a copy."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            shard = int(np.searchsorted(self.bounds, start, side="right")) - 1
            if shard < len(self._paths) and stop <= self.bounds[shard + 1]:
                return self._map(shard)[start - self.bounds[shard] : stop - self.bounds[shard]]
            rows = np.arange(start, stop)
        wanted = np.asarray(rows, np.int64)
        found = np.empty((len(wanted), self.shape[1]), np.float32)
        shards = np.searchsorted(self.bounds, wanted, side="right") - 1
        for shard in np.unique(shards).tolist():
            inside = shards == shard
            found[inside] = self._map(shard)[wanted[inside] - self.bounds[shard]]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Read all rows into memory."""
        return np.asarray(self[:], dtype)

    def _map(self, shard: int) -> Vectors:
        mapped = self._mapped
        if mapped is None or mapped[0] != shard:
            # Another thread may replace it meanwhile. The array stays mapped as long as anyone reads it.
            self._mapped = mapped = (shard, map_array(self._paths[shard]))
        return mapped[1]


StoredVectors = Vectors | ShardedVectors


def write_vectors(
    folder: Path, vectors: Vectors, chunk_ids: pl.Series, source: pl.Series
) -> list[ShardRecord]:
    """Write the vectors of a snapshot; link the shards that a snapshot beside it holds.

    Args:
        folder: The folder of the snapshot.
        vectors: Unit rows, shape ``(chunks, dimension)``.
        chunk_ids: Id of the chunk of each row.
        source: Position in ``vectors`` of each row.

    Returns:
        The shards but the last, in the order of the rows.
    """
    starts = cut_shards(chunk_ids, count_rows_of_shard(vectors.shape[1]))
    records = []
    for start, stop in pairwise(starts):
        rows = source[start:stop]
        state = hashlib.sha256()
        _write_rows(_Hashing(state), vectors, rows)
        records.append(ShardRecord(sha256=state.hexdigest(), rows=len(rows)))
        path = locate_shard(folder, records[-1])
        path.parent.mkdir(exist_ok=True)
        if not path.exists() and not _link_known(path, folder.parent):
            with path.open("wb") as file:
                _write_rows(file, vectors, rows)
    with (folder / VECTORS_FILE).open("wb") as file:
        _write_rows(file, vectors, source[starts[-1] :])
    return records


def open_vectors(folder: Path, shards: Sequence[ShardRecord], rows: int, dimension: int) -> StoredVectors:
    """Open the vectors of a snapshot.

    Args:
        folder: The folder of the snapshot.
        shards: Its shards but the last.
        rows: Number of all rows.
        dimension: Width of a vector.

    Returns:
        A mapped array if there is one shard.
    """
    if not shards:
        return map_array(folder / VECTORS_FILE)
    counts = [shard.rows for shard in shards]
    paths = [*(locate_shard(folder, shard) for shard in shards), folder / VECTORS_FILE]
    return ShardedVectors(paths, [*counts, rows - sum(counts)], dimension)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file of a snapshot. One that was not touched since this process hashed it is not read.

    A shard counts as untouched when snapshots link it or let go of it, which changes the time of its status alone.

    Raises:
        OSError: The file is absent or cannot be read.
    """
    found = path.stat()
    state: tuple[int, ...] = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if path.parent.name != SHARDS_FOLDER:
        state = (*state, found.st_ctime_ns)
    known = _hashes.get(state)
    if known is None:
        with path.open("rb") as file:
            known = hashlib.file_digest(file, "sha256").hexdigest()
        if len(_hashes) >= _KEPT_HASHES:
            _hashes.clear()
        _hashes[state] = known
    return known


def locate_shard(folder: Path, shard: ShardRecord) -> Path:
    """Return the file of a shard but the last."""
    return folder / SHARDS_FOLDER / f"{shard.sha256}.npy"


def count_rows_of_shard(dimension: int) -> int:
    """Return the most rows of a shard of vectors of some width."""
    return max(1, SHARD_BYTES // (4 * dimension))


def cut_shards(chunk_ids: pl.Series, most: int) -> list[int]:
    """Cut rows into shards.

    A shard ends before the chunk whose id has the least hash among those that leave it at least half full. So the
    place follows from the rows near it, and does not move if rows are added elsewhere.

    Args:
        chunk_ids: Id of the chunk of each row.
        most: Most rows of a shard.

    Returns:
        The first row of each shard.
    """
    starts = [0]
    while len(chunk_ids) - starts[-1] > most:
        first = starts[-1] + max(1, most // 2)
        hashes = digest_each(chunk_ids[first : starts[-1] + most + 1])
        starts.append(first + hashes.index(min(hashes)))
    return starts


def list_blocks(
    vectors: StoredVectors, mask: NDArray[np.bool_] | None, stop: int, step: int
) -> Iterator[tuple[int, int]]:
    """Cut rows into blocks, none of which reaches over the end of a shard.

    Args:
        vectors: The rows.
        mask: Whether each row is wanted; a shard without such a row is left out. None if all are.
        stop: Number of leading rows that are wanted.
        step: Most rows of a block.

    Yields:
        The first row of a block, and the row after its last.
    """
    bounds = vectors.bounds.tolist() if isinstance(vectors, ShardedVectors) else [0, len(vectors)]
    for first, last in pairwise(bounds):
        end = min(last, stop)
        if mask is None or mask[first:end].any():
            for start in range(first, end, step):
                yield start, min(start + step, end)


def write_header(file: BinaryIO | _Sink, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write what stands before the numbers of an array in a file of numpy."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)


def _link_known(path: Path, snapshots: Path) -> bool:
    """Link the same shard of another snapshot, unless it is damaged. Return whether there is one."""
    for known in snapshots.glob(f"*/{SHARDS_FOLDER}/{path.name}"):
        if hash_file(known) == path.stem:
            os.link(known, path)
            return True
    return False


def _write_rows(file: BinaryIO | _Sink, vectors: Vectors, source: pl.Series) -> None:
    # Written, not mapped: a full disk is an error of a write, and ends a process that writes to a mapping.
    write_header(file, np.dtype(np.float32), (len(source), vectors.shape[1]))
    for start in range(0, len(source), ROWS_AT_ONCE):
        rows = source[start : start + ROWS_AT_ONCE].to_numpy()
        file.write(np.ascontiguousarray(vectors[rows]).data)


class _Hashing:
    """A file that is hashed in place of being written."""

    def __init__(self, state: Any) -> None:
        self.write = state.update
