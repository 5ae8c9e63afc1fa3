"""The cache of computed vectors, which partitions, runs and processes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.ids import digest
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.storage.cache import Cache
from backstory.storage.state import State

_NUMBER: Final = np.dtype("<f4")


def embedding_key(embedder_id: str, task: Task, text: str) -> bytes:
    """Make the key of a text's vector: 16 bytes of BLAKE2b over embedder, task and text."""
    return bytes.fromhex(digest([embedder_id, task, text], length=32))


class EmbeddingCache(Cache):
    """Stores vectors by key. If two processes store the same key, the first vector stays."""

    def __init__(self, state: State) -> None:
        """Use the cache of a workspace or of a machine; the first :meth:`put` makes it."""
        super().__init__(state, "vector")

    def get(self, keys: Sequence[bytes], dimension: int) -> tuple[NDArray[np.bool_], Vectors]:
        """Look up many distinct keys at once.

        Returns:
            A mask of the known keys, shape ``(len(keys),)``, and the vectors, shape ``(len(keys), dimension)``.
            The rows of unknown keys are undefined.
        """
        known = np.zeros(len(keys), np.bool_)
        vectors = np.empty((len(keys), dimension), np.float32)
        positions = {key: position for position, key in enumerate(keys)}
        for key, value in self.find(keys):
            if len(value) == dimension * _NUMBER.itemsize:
                known[positions[key]] = True
                vectors[positions[key]] = np.frombuffer(value, _NUMBER)
        return known, vectors

    def find_known(self, keys: Sequence[bytes]) -> NDArray[np.bool_]:
        """Look up which of distinct keys are stored; a mask of shape ``(len(keys),)``."""
        found = {key for key, _ in self.find(keys)}
        return np.array([key in found for key in keys], np.bool_)

    def put(self, embedder_id: str, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Store vectors of one embedding space, shape ``(len(keys), dimension)``, all of them or none."""
        blobs = map(bytes, np.ascontiguousarray(vectors, _NUMBER))
        owner = embedder_id.encode()
        self.put_rows(((key, owner, blob) for key, blob in zip(keys, blobs, strict=True)), replace=False)
