"""A hashing embedder that notes what it is asked, for tests of what is computed and when."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.models.embeddings.protocol import Task, Vectors, group_in_order


class RecordingEmbedder(HashingEmbedder):
    """Takes small batches and keeps the texts of each."""

    def __init__(self, *, texts_per_batch: int = 4, workers: int = 1) -> None:
        super().__init__()
        self.workers = workers
        self.batches: list[list[str]] = []
        self._texts_per_batch = texts_per_batch
        self._lock = threading.Lock()

    @property
    def computed(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return group_in_order(token_counts, max_texts=self._texts_per_batch, max_tokens=10**9)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        with self._lock:
            self.batches.append(list(texts))
        return super().embed(texts, task=task)
