"""LangChain as its tutorials have it: a recursive splitter, the in-memory vector store, similarity search.

The splitter has the sizes of the retrieval tutorial. ``MultiQueryRetriever`` gives the union of what several
queries find without an order, so the union is put in the order of the scores, or of ``EnsembleRetriever``.
"""

from collections.abc import Iterator, Sequence

from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from benchmarks.peers.driver import CHUNK_HITS, WHOLE_WINDOW_HITS, Found, run_peer
from benchmarks.peers.job import Document, VectorTable

Scored = tuple[LangChainDocument, float]


class StoredEmbeddings(Embeddings):
    """Gives the vectors that were computed before."""

    def __init__(self, documents: VectorTable, queries: VectorTable) -> None:
        self.documents = documents
        self.queries = queries

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Look the vectors of chunks up."""
        return [self.documents.look_up(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Look the vector of a query up."""
        return self.queries.look_up(text)


class LangChain:
    """The peer."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None:
        self.splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        self.store = InMemoryVectorStore(StoredEmbeddings(document_vectors, query_vectors))

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        """Split as before indexing."""
        return [split.page_content for split in self._split(documents)]

    def split_window(self, markdown: str) -> list[str]:
        """Split with the splitter of the documents."""
        return list(self.splitter.split_text(markdown))

    def index(self, documents: Sequence[Document]) -> None:
        """Split and add to the store."""
        self.store.add_documents(documents=self._split(documents))

    def ask(self, query: str, as_of: int) -> Iterator[Found]:
        """Search once."""
        return found(self._ask(query, as_of, WHOLE_WINDOW_HITS))

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Search with each query and sort all that was found."""
        scored = [hit for query in queries for hit in self._ask(query, as_of, CHUNK_HITS)]
        return found(sorted(scored, key=lambda hit: hit[1], reverse=True))

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Search with each query and fuse as an ensemble of as many retrievers would."""
        lists = [[document for document, _ in self._ask(query, as_of, CHUNK_HITS)] for query in queries]
        ensemble = EnsembleRetriever(retrievers=[self.store.as_retriever()] * len(lists))
        fused = ensemble.weighted_reciprocal_rank(lists)
        return found([(document, 1 / place) for place, document in enumerate(fused, start=1)])

    def _split(self, documents: Sequence[Document]) -> list[LangChainDocument]:
        """Split, and put the title before every chunk as the other peers do, who embed metadata."""
        splits = self.splitter.split_documents(load(documents))
        for split in splits:
            split.page_content = "\n\n".join(filter(None, [split.metadata["title"], split.page_content]))
        return list(splits)

    def _ask(self, query: str, as_of: int, top_k: int) -> list[Scored]:
        return list(
            self.store.similarity_search_with_score(
                query, k=top_k, filter=lambda document: document.metadata["published_at"] <= as_of
            )
        )


def load(documents: Sequence[Document]) -> list[LangChainDocument]:
    """Make documents with a title and a date to filter by."""
    return [
        LangChainDocument(
            page_content=document.text,
            metadata={
                "doc_id": document.doc_id,
                "title": document.title,
                "published_at": document.published_at,
            },
        )
        for document in documents
    ]


def found(scored: Sequence[Scored]) -> Iterator[Found]:
    """Name the document of each chunk."""
    return ((document.metadata["doc_id"], score) for document, score in scored)


if __name__ == "__main__":
    run_peer(LangChain, ["langchain-core", "langchain-text-splitters", "langchain-classic"])
