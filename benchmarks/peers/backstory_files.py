"""Backstory as a system that indexes files and searches: a ``RAGEngine`` with the vectors that all systems have."""

from collections.abc import Sequence
from pathlib import Path

from backstory.adapters.rag_engine import BaseEmbeddingProvider, RAGConfig, RAGEngine
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


if __name__ == "__main__":
    run(Backstory, ["numpy"])
