"""LlamaIndex over files: the splitter of its documentation, the default store, kept on disk by ``persist``."""

from collections.abc import Sequence
from pathlib import Path

from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.node_parser import SentenceSplitter

from benchmarks.peers.file_search import HITS, embed, run


class DrawnVectors(BaseEmbedding):
    """The vectors that all systems have."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return embed([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return embed([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return embed([query])[0]


class LlamaIndex:
    """A vector index of the framework."""

    def __init__(self, store: Path) -> None:
        Settings.llm = None
        self.store = store
        self.model = DrawnVectors(model_name="drawn")

    def index(self, files: Sequence[Path]) -> int:
        """Load, split, embed, index and persist."""
        documents = [
            Document(text=file.read_text(encoding="utf-8"), metadata={"file_name": file.name})
            for file in files
        ]
        nodes = SentenceSplitter(chunk_size=512, chunk_overlap=20).get_nodes_from_documents(documents)
        index = VectorStoreIndex(nodes, embed_model=self.model)
        index.storage_context.persist(str(self.store))
        self.retriever = index.as_retriever(similarity_top_k=HITS)
        return len(nodes)

    def search(self, question: str) -> int:
        """Retrieve with one question."""
        return len(self.retriever.retrieve(question))


if __name__ == "__main__":
    run(LlamaIndex, ["llama-index-core"])
