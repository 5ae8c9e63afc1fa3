"""Haystack over files: its default splitter and its in-memory store, kept on disk by ``save_to_disk``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from haystack import Document
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from benchmarks.peers.file_search import HITS, embed, run


class Haystack:
    """An in-memory store of the framework."""

    def __init__(self, store: Path) -> None:
        self.path = store / "documents.json"
        self.store = InMemoryDocumentStore(embedding_similarity_function="cosine")
        self.retriever = InMemoryEmbeddingRetriever(self.store, top_k=HITS)

    def index(self, files: Sequence[Path]) -> int:
        """Load, split, embed, write and save."""
        documents = [
            Document(content=file.read_text(encoding="utf-8"), meta={"file": file.name}) for file in files
        ]
        splits = DocumentSplitter().run(documents=documents)["documents"]
        vectors = embed([str(split.content) for split in splits])
        written = [replace(split, embedding=vector) for split, vector in zip(splits, vectors, strict=True)]
        self.store.write_documents(written)
        self.store.save_to_disk(str(self.path))
        return len(written)

    def search(self, question: str) -> int:
        """Retrieve with one question."""
        return len(self.retriever.run(query_embedding=embed([question])[0])["documents"])


if __name__ == "__main__":
    run(Haystack, ["haystack-ai"])
