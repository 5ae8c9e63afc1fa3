"""Backstory as a system that indexes files and searches: a ``RAGEngine`` with the vectors that all systems have."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from backstory.interfaces.adapters.rag_engine import BaseEmbeddingProvider, RAGConfig, RAGEngine
from backstory.interfaces.library.freshness import FileChanges
from benchmarks.peers.file_search import CHUNK_CHARACTERS, HITS, OVERLAP_CHARACTERS, embed, run


class DrawnVectors(BaseEmbeddingProvider):
    """The vectors that all systems have."""

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Draw a vector for each text."""
        return embed(texts)


class Backstory:
    """Backstory with its default, hybrid ranking."""

    def __init__(self, store: Path) -> None:
        config = RAGConfig(
            enabled=True,
            embedding_provider=DrawnVectors(),
            chunk_size=CHUNK_CHARACTERS,
            chunk_overlap=OVERLAP_CHARACTERS,
        )
        self.library = RAGEngine(config, store).library

    def index(self, files: Sequence[Path]) -> int:
        """Index the folder of the files."""
        return self.library.index(files[0].parent).chunks

    def search(self, question: str) -> int:
        """Search with one question."""
        return len(self.library.search(question, top_k=HITS).hits)

    def measure_parts(self, questions: Sequence[str]) -> dict[str, float]:
        """Measure searches by vectors alone, as of the other systems, and a look at whether the files have changed."""
        searched = {entry.uri: entry.revision for entry in self.library.documents().documents}
        look = partial(FileChanges(self.library.workspace).compare, searched)
        return {
            "a search by vectors alone": _time_median(
                [partial(self._search_by_vectors, question) for question in questions]
            ),
            "a look at the files, every two seconds at most": _time_median([look] * 5),
        }

    def _search_by_vectors(self, question: str) -> int:
        return len(self.library.search(question, top_k=HITS, mode="dense").hits)


def _time_median(acts: Sequence[Callable[[], object]]) -> float:
    taken = []
    for act in acts:
        started = time.perf_counter()
        act()
        taken.append((time.perf_counter() - started) * 1000)
    return float(np.median(taken))


if __name__ == "__main__":
    run(Backstory, ["numpy"])
