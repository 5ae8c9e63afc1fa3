"""Haystack as its documentation has it: an indexing pipeline, an in-memory document store, retrievers.

Splitter and store have their defaults. Windows are asked in one query by an embedding retriever, and chunk by
chunk by ``MultiQueryEmbeddingRetriever`` or through ``DocumentJoiner``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers import MultiQueryEmbeddingRetriever
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore

from benchmarks.peers.driver import CHUNK_HITS, WHOLE_WINDOW_HITS, Found, run_peer
from benchmarks.peers.job import Document, VectorTable


@component
class StoredDocumentEmbedder:
    """Gives documents the vectors that were computed before."""

    def __init__(self, vectors: VectorTable) -> None:
        self.vectors = vectors

    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        """Look the vector of every document up."""
        embedded = [
            replace(document, embedding=self.vectors.look_up(text_to_embed(document)))
            for document in documents
        ]
        return {"documents": embedded}


@component
class StoredTextEmbedder:
    """Gives queries the vectors that were computed before."""

    def __init__(self, vectors: VectorTable) -> None:
        self.vectors = vectors

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Look the vector of a query up."""
        return {"embedding": self.vectors.look_up(text)}


class Haystack:
    """The peer."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None:
        self.splitter = DocumentSplitter()
        store = InMemoryDocumentStore(embedding_similarity_function="cosine")

        self.indexing = Pipeline()
        self.indexing.add_component("splitter", self.splitter)
        self.indexing.add_component("embedder", StoredDocumentEmbedder(document_vectors))
        self.indexing.add_component("writer", DocumentWriter(document_store=store))
        self.indexing.connect("splitter", "embedder")
        self.indexing.connect("embedder", "writer")

        self.querying = Pipeline()
        self.querying.add_component("embedder", StoredTextEmbedder(query_vectors))
        self.querying.add_component("retriever", InMemoryEmbeddingRetriever(store))
        self.querying.connect("embedder.embedding", "retriever.query_embedding")

        self.multi_query_retriever = MultiQueryEmbeddingRetriever(
            retriever=InMemoryEmbeddingRetriever(store, top_k=CHUNK_HITS),
            query_embedder=StoredTextEmbedder(query_vectors),
        )
        self.joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion")

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        """Run the first component of the indexing pipeline."""
        splits = self.splitter.run(documents=load(documents))["documents"]
        return [text_to_embed(document) for document in splits]

    def split_window(self, markdown: str) -> list[str]:
        """Split with the splitter of the documents."""
        splits = self.splitter.run(documents=[HaystackDocument(content=markdown)])["documents"]
        return [str(document.content) for document in splits]

    def index(self, documents: Sequence[Document]) -> None:
        """Run the indexing pipeline."""
        self.indexing.run({"splitter": {"documents": load(documents)}})

    def ask(self, query: str, as_of: int) -> Iterator[Found]:
        """Run the query pipeline."""
        return found(self._ask(query, as_of, WHOLE_WINDOW_HITS))

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Ask with all queries at once."""
        answer = self.multi_query_retriever.run(
            queries=list(queries), retriever_kwargs={"filters": published_by(as_of)}
        )
        return found(answer["documents"])

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Join the answers to each query by reciprocal rank fusion."""
        lists = [self._ask(query, as_of, CHUNK_HITS) for query in queries]
        return found(self.joiner.run(documents=lists)["documents"])

    def _ask(self, query: str, as_of: int, top_k: int) -> list[HaystackDocument]:
        retrieval = {"filters": published_by(as_of), "top_k": top_k}
        answer = self.querying.run({"embedder": {"text": query}, "retriever": retrieval})
        return list(answer["retriever"]["documents"])


def load(documents: Sequence[Document]) -> list[HaystackDocument]:
    """Make documents with a title, which is embedded with every split, and a date to filter by."""
    return [
        HaystackDocument(
            content=document.text,
            meta={
                "doc_id": document.doc_id,
                "title": document.title,
                "published_at": document.published_at,
            },
        )
        for document in documents
    ]


def text_to_embed(document: HaystackDocument) -> str:
    """Put the title before the text, as Haystack's own embedders do with ``meta_fields_to_embed``."""
    return "\n\n".join(filter(None, [document.meta["title"], document.content]))


def published_by(as_of: int) -> dict[str, Any]:
    """Make the filter."""
    return {"field": "meta.published_at", "operator": "<=", "value": as_of}


def found(documents: Sequence[HaystackDocument]) -> Iterator[Found]:
    """Name the document of each split."""
    return ((document.meta["doc_id"], float(document.score)) for document in documents)


if __name__ == "__main__":
    run_peer(Haystack, ["haystack-ai"])
