"""Keys of rows, by which a server holds them.

A key is a hash of all that the server is told of a row: vector, date of publication and tenant. So a row has the same
key in every snapshot, wherever it stands there, and a server that has the key has the row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.files.arrays import map_array
from backstory.index.snapshot.shards import ROWS_AT_ONCE, StoredVectors

KEYS_FILE: Final = "keys.npy"

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class ToldRows:
    """What a server is told of the rows of a snapshot.

    Attributes:
        vectors: Unit rows, shape ``(rows, dimension)``.
        moments: When the document of each was published, in microseconds since 1970.
        tenants: The tenant of each; empty if it has none.
    """

    vectors: StoredVectors
    moments: NDArray[np.int64]
    tenants: pl.Series

    @cached_property
    def keys(self) -> RowKeys:
        """The keys of the rows.

        Equal rows are numbered, so that each has a key of its own. Two different rows of 10^8 share one by chance with
        a probability of 0.03 %; the server then finds one of them.
        """
        hash_bytes = hashlib.blake2b
        made = bytearray()
        for start in range(0, len(self.vectors), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            told = zip(self.vectors[block], self.moments[block].tolist(), self.tenants[block], strict=True)
            for vector, moment, tenant in told:
                facts = vector.tobytes() + moment.to_bytes(8, "little", signed=True) + tenant.encode()
                made += hash_bytes(facts, digest_size=8).digest()
        keys = np.frombuffer(made, np.int64)
        frame = pl.DataFrame({"key": keys})
        number = frame.select(pl.int_range(pl.len()).over("key")).to_series().to_numpy()
        for row in np.flatnonzero(number).tolist():
            numbered = keys[row].tobytes() + number[row].tobytes()
            keys[row] = int.from_bytes(hash_bytes(numbered, digest_size=8).digest(), "little", signed=True)
        order = np.argsort(keys, kind="stable")
        return RowKeys(keys[order], order)


@dataclass(frozen=True)
class RowKeys:
    """The keys of the rows of a snapshot.

    Attributes:
        keys: The keys, ascending.
        rows: The row of each.
    """

    keys: Keys
    rows: NDArray[np.int64]

    def find_rows(self, keys: Keys) -> NDArray[np.int64]:
        """Return the row of each key; -1 for the key of a row that is not in the snapshot."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.rows[places], -1)

    def write(self, folder: Path) -> None:
        """Write the keys into the folder of a snapshot."""
        np.save(folder / KEYS_FILE, np.stack([self.keys, self.rows]))


def read_row_keys(folder: Path) -> RowKeys:
    """Map the keys of a snapshot.

    Raises:
        OSError: They are absent or cannot be read.
    """
    keys, rows = map_array(folder / KEYS_FILE)
    return RowKeys(keys, rows)
