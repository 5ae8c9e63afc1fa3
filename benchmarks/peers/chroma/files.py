"""LangChain and Chroma over files: the splitter of the tutorials, and a collection of Chroma on disk."""

from collections.abc import Sequence
from pathlib import Path

from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

from benchmarks.peers.file_search import CHUNK_CHARACTERS, HITS, OVERLAP_CHARACTERS, embed, run

AT_ONCE = 5000
"""Chunks of one call: Chroma refuses more than 5,461."""


class DrawnVectors(Embeddings):
    """The vectors that all systems have."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Draw a vector for each chunk."""
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        """Draw a vector for a question."""
        return embed([text])[0]


class LangChainChroma:
    """A collection on disk, by the names of LangChain."""

    def __init__(self, store: Path) -> None:
        self.splitter = RecursiveCharacterTextSplitter(
            chunk_size=CHUNK_CHARACTERS, chunk_overlap=OVERLAP_CHARACTERS
        )
        self.store = Chroma(
            "files",
            DrawnVectors(),
            persist_directory=str(store),
            client_settings=Settings(anonymized_telemetry=False, is_persistent=True),
        )

    def index(self, files: Sequence[Path]) -> int:
        """Load, split, embed and add."""
        documents = [
            Document(page_content=file.read_text(encoding="utf-8"), metadata={"source": file.name})
            for file in files
        ]
        splits = self.splitter.split_documents(documents)
        for start in range(0, len(splits), AT_ONCE):
            self.store.add_documents(splits[start : start + AT_ONCE])
        return len(splits)

    def search(self, question: str) -> int:
        """Search with one question."""
        return len(self.store.similarity_search_with_score(question, k=HITS))


if __name__ == "__main__":
    run(LangChainChroma, ["langchain-core", "langchain-chroma", "chromadb"])
