"""LangChain as its tutorials show it: a recursive splitter, the in-memory vector store, similarity search.

The splitter has the sizes of the retrieval tutorial. ``MultiQueryRetriever`` returns the results of several queries
without an order, so they are ordered by score, or by ``EnsembleRetriever``. The hybrid is ``EnsembleRetriever`` with
its default, equal weights over ``BM25Retriever`` with its default preprocessing and the vector store.
``langchain-community``, which holds ``BM25Retriever``, is no longer maintained, and no other package of the project
has one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from benchmarks.peers.driver import CHUNK_HITS, WHOLE_WINDOW_HITS, Found, run_peer
from benchmarks.peers.job import Document, VectorTable

PACKAGES = (
    "langchain-core",
    "langchain-text-splitters",
    "langchain-classic",
    "langchain-community",
    "rank-bm25",
)
Scored = tuple[LangChainDocument, float]


class StoredEmbeddings(Embeddings):
    """Gives precomputed vectors."""

    def __init__(self, documents: VectorTable, queries: VectorTable) -> None:
        self.documents = documents
        self.queries = queries

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Look up the vectors of chunks."""
        return [self.documents.look_up(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Look up the vector of a query."""
        return self.queries.look_up(text)


class LangChain:
    """LangChain as a peer."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None:
        self.splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        self.store = InMemoryVectorStore(StoredEmbeddings(document_vectors, query_vectors))

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        """Split documents as :meth:`index` does."""
        return [split.page_content for split in self._split(documents)]

    def split_window(self, transcript: str) -> list[str]:
        """Split a window with the splitter for documents."""
        return list(self.splitter.split_text(transcript))

    def index(self, documents: Sequence[Document]) -> None:
        """Split documents, add the chunks to the store, and index them for keywords."""
        splits = self._split(documents)
        self.store.add_documents(documents=splits)
        # The keyword retriever cannot filter, but it sorts all chunks, so later ones are dropped from its full list.
        self.keyword_retriever = BM25Retriever.from_documents(splits, k=len(splits))

    def ask(self, query: str, as_of: int) -> Iterator[Found]:
        """Search the store with one query."""
        return found(self._ask(query, as_of, WHOLE_WINDOW_HITS))

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Search with each query and sort all results by score."""
        scored = [hit for query in queries for hit in self._ask(query, as_of, CHUNK_HITS)]
        return found(sorted(scored, key=lambda hit: hit[1], reverse=True))

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Search with each query and fuse the results like an ensemble with one retriever per query."""
        return fuse([(self._dense(as_of, CHUNK_HITS), query) for query in queries])

    def ask_hybrid(self, query: str, as_of: int) -> Iterator[Found]:
        """Search with an ensemble of the keyword retriever and the store."""
        ensemble = EnsembleRetriever(retrievers=self._hybrid(as_of, WHOLE_WINDOW_HITS))
        return ranked(ensemble.invoke(query))

    def ask_and_fuse_hybrid(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Search both with each query and fuse the results like an ensemble with two retrievers per query."""
        retrievers = self._hybrid(as_of, CHUNK_HITS)
        return fuse([(retriever, query) for query in queries for retriever in retrievers])

    def _split(self, documents: Sequence[Document]) -> list[LangChainDocument]:
        """Split documents and put the title before every chunk, since the other peers embed the title as well."""
        splits = self.splitter.split_documents(load(documents))
        for split in splits:
            split.page_content = "\n\n".join(filter(None, [split.metadata["title"], split.page_content]))
        return list(splits)

    def _ask(self, query: str, as_of: int, top_k: int) -> list[Scored]:
        hits = self.store.similarity_search_with_score(query, k=top_k, filter=published_by(as_of))
        return list(hits)

    def _hybrid(self, as_of: int, top_k: int) -> list[RetrieverLike]:
        return [self._keyword(as_of, top_k), self._dense(as_of, top_k)]

    def _dense(self, as_of: int, top_k: int) -> RetrieverLike:
        return self.store.as_retriever(search_kwargs={"k": top_k, "filter": published_by(as_of)})

    def _keyword(self, as_of: int, top_k: int) -> RetrieverLike:
        is_published = published_by(as_of)
        return self.keyword_retriever | RunnableLambda(
            lambda documents: list(islice(filter(is_published, documents), top_k))
        )


def load(documents: Sequence[Document]) -> list[LangChainDocument]:
    """Convert documents, with title and date as metadata."""
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


def published_by(as_of: int) -> Callable[[LangChainDocument], bool]:
    """Make the filter for documents published at or before a time."""
    return lambda document: bool(document.metadata["published_at"] <= as_of)


def fuse(asked: Sequence[tuple[RetrieverLike, str]]) -> Iterator[Found]:
    """Run each retriever with its query and fuse like ``EnsembleRetriever``, which has one query for all retrievers."""
    ensemble = EnsembleRetriever(retrievers=[retriever for retriever, _ in asked])
    lists = [retriever.invoke(query) for retriever, query in asked]
    return ranked(ensemble.weighted_reciprocal_rank(lists))


def ranked(documents: Sequence[LangChainDocument]) -> Iterator[Found]:
    """Give the document id of each chunk of a ranking without scores."""
    return found([(document, 1 / place) for place, document in enumerate(documents, start=1)])


def found(scored: Sequence[Scored]) -> Iterator[Found]:
    """Give the document id and score of each chunk."""
    return ((document.metadata["doc_id"], score) for document, score in scored)


if __name__ == "__main__":
    run_peer(LangChain, PACKAGES)
