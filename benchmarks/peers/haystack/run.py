"""Haystack as its documentation shows it: an indexing pipeline, an in-memory document store, retrievers.

Splitter and store have their defaults. A whole window is one query of an embedding retriever. Query chunks go
through ``MultiQueryEmbeddingRetriever`` or ``DocumentJoiner``. The hybrid is the pipeline of the tutorial: an
embedding retriever and ``InMemoryBM25Retriever``, both with a filter, and ``DocumentJoiner``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers import MultiQueryEmbeddingRetriever
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore

from benchmarks.peers.driver import CHUNK_HITS, WHOLE_WINDOW_HITS, Found, run_peer
from benchmarks.peers.job import Document, VectorTable


@component
class TitleAdder:
    """Puts the title before every split.

    Embedders can embed the title with ``meta_fields_to_embed``, but keyword retrieval reads the content alone. With
    the title in the content, both retrievers read the same text as those of the other peers.
    """

    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        """Put the title into the content of every document."""
        titled = [
            replace(document, content="\n\n".join(filter(None, [document.meta["title"], document.content])))
            for document in documents
        ]
        return {"documents": titled}


@component
class StoredDocumentEmbedder:
    """Adds precomputed vectors to documents."""

    def __init__(self, vectors: VectorTable) -> None:
        self.vectors = vectors

    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        """Look up the vector of every document."""
        embedded = [
            replace(document, embedding=self.vectors.look_up(str(document.content))) for document in documents
        ]
        return {"documents": embedded}


@component
class StoredTextEmbedder:
    """Gives the precomputed vectors of queries."""

    def __init__(self, vectors: VectorTable) -> None:
        self.vectors = vectors

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Look up the vector of a query."""
        return {"embedding": self.vectors.look_up(text)}


class Haystack:
    """Haystack as a peer."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None:
        self.splitter = DocumentSplitter()
        self.title_adder = TitleAdder()
        store = InMemoryDocumentStore(embedding_similarity_function="cosine")
        self.embedder = StoredTextEmbedder(query_vectors)
        self.retriever = InMemoryEmbeddingRetriever(store)
        self.keyword_retriever = InMemoryBM25Retriever(store)
        self.joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion")

        self.indexing = Pipeline()
        self.indexing.add_component("splitter", self.splitter)
        self.indexing.add_component("title_adder", self.title_adder)
        self.indexing.add_component("embedder", StoredDocumentEmbedder(document_vectors))
        self.indexing.add_component("writer", DocumentWriter(document_store=store))
        self.indexing.connect("splitter", "title_adder")
        self.indexing.connect("title_adder", "embedder")
        self.indexing.connect("embedder", "writer")

        self.querying = Pipeline()
        self.querying.add_component("embedder", StoredTextEmbedder(query_vectors))
        self.querying.add_component("retriever", InMemoryEmbeddingRetriever(store))
        self.querying.connect("embedder.embedding", "retriever.query_embedding")

        self.hybrid = Pipeline()
        self.hybrid.add_component("embedder", self.embedder)
        self.hybrid.add_component("retriever", self.retriever)
        self.hybrid.add_component("keyword_retriever", self.keyword_retriever)
        self.hybrid.add_component("joiner", self.joiner)
        self.hybrid.connect("embedder.embedding", "retriever.query_embedding")
        self.hybrid.connect("retriever", "joiner")
        self.hybrid.connect("keyword_retriever", "joiner")

        self.multi_query_retriever = MultiQueryEmbeddingRetriever(
            retriever=InMemoryEmbeddingRetriever(store, top_k=CHUNK_HITS),
            query_embedder=StoredTextEmbedder(query_vectors),
        )

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        """Run the splitting components of the indexing pipeline."""
        splits = self.splitter.run(documents=load(documents))["documents"]
        return [str(document.content) for document in self.title_adder.run(documents=splits)["documents"]]

    def split_window(self, transcript: str) -> list[str]:
        """Split a window with the splitter for documents."""
        splits = self.splitter.run(documents=[HaystackDocument(content=transcript)])["documents"]
        return [str(document.content) for document in splits]

    def index(self, documents: Sequence[Document]) -> None:
        """Run the indexing pipeline."""
        self.indexing.run({"splitter": {"documents": load(documents)}})

    def ask(self, query: str, as_of: int) -> Iterator[Found]:
        """Run the query pipeline."""
        retrieval = {"filters": published_by(as_of), "top_k": WHOLE_WINDOW_HITS}
        answer = self.querying.run({"embedder": {"text": query}, "retriever": retrieval})
        return found(answer["retriever"]["documents"])

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Retrieve with all queries at once."""
        answer = self.multi_query_retriever.run(
            queries=list(queries), retriever_kwargs={"filters": published_by(as_of)}
        )
        return found(answer["documents"])

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Join the results of all queries by reciprocal rank fusion."""
        lists = [self._find_by_vector(query, as_of) for query in queries]
        return found(self.joiner.run(documents=lists)["documents"])

    def ask_hybrid(self, query: str, as_of: int) -> Iterator[Found]:
        """Run the hybrid pipeline."""
        retrieval = {"filters": published_by(as_of), "top_k": WHOLE_WINDOW_HITS}
        answer = self.hybrid.run(
            {
                "embedder": {"text": query},
                "retriever": retrieval,
                "keyword_retriever": {"query": query, **retrieval},
            }
        )
        return found(answer["joiner"]["documents"])

    def ask_and_fuse_hybrid(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Join the results of both retrievers of the hybrid pipeline for all queries."""
        lists = [
            find(query, as_of) for query in queries for find in (self._find_by_vector, self._find_by_keyword)
        ]
        return found(self.joiner.run(documents=lists)["documents"])

    # Called without a pipeline, whose deep copies of inputs and outputs take half of the time of short queries.
    def _find_by_vector(self, query: str, as_of: int) -> list[HaystackDocument]:
        embedding = self.embedder.run(text=query)["embedding"]
        answer = self.retriever.run(query_embedding=embedding, filters=published_by(as_of), top_k=CHUNK_HITS)
        return list(answer["documents"])

    def _find_by_keyword(self, query: str, as_of: int) -> list[HaystackDocument]:
        answer = self.keyword_retriever.run(query=query, filters=published_by(as_of), top_k=CHUNK_HITS)
        return list(answer["documents"])


def load(documents: Sequence[Document]) -> list[HaystackDocument]:
    """Convert documents, with title and date as metadata."""
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


def published_by(as_of: int) -> dict[str, Any]:
    """Make the filter for documents published at or before a time."""
    return {"field": "meta.published_at", "operator": "<=", "value": as_of}


def found(documents: Sequence[HaystackDocument]) -> Iterator[Found]:
    """Give the document id and score of each split."""
    return ((document.meta["doc_id"], float(document.score)) for document in documents)


if __name__ == "__main__":
    run_peer(Haystack, ["haystack-ai"])
