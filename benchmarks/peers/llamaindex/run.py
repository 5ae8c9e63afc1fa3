"""LlamaIndex as its documentation shows it: an ingestion pipeline, a vector store index, a retriever.

Chunks have 512 tokens, as in its FAQ, since the embedder would truncate the default chunk of 1,024 by half. The
results of a window's chunks are merged by ``QueryFusionRetriever``, which uses the chunks instead of queries from an
LLM. The hybrid is the same retriever over a vector retriever and ``BM25Retriever``.
"""

from collections.abc import Iterator, Sequence

from llama_index.core import Document as LlamaDocument
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.retrievers.bm25 import BM25Retriever
from pydantic import PrivateAttr

from benchmarks.peers.driver import CHUNK_HITS, WHOLE_WINDOW_HITS, Found, run_peer
from benchmarks.peers.job import Document, VectorTable

NOT_EMBEDDED = ["published_at"]


class StoredEmbedding(BaseEmbedding):
    """Gives precomputed vectors."""

    _documents: VectorTable = PrivateAttr()
    _queries: VectorTable = PrivateAttr()

    def __init__(self, documents: VectorTable, queries: VectorTable) -> None:
        super().__init__(model_name="stored")
        self._documents = documents
        self._queries = queries

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._documents.look_up(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._queries.look_up(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._queries.look_up(query)


class GivenQueriesRetriever(QueryFusionRetriever):
    """Fuses the results of given queries instead of generated ones."""

    def __init__(
        self, retrievers: Sequence[BaseRetriever], queries: Sequence[str], mode: FUSION_MODES
    ) -> None:
        self.queries = list(queries)
        super().__init__(
            list(retrievers),
            mode=mode,
            num_queries=len(self.queries),
            similarity_top_k=WHOLE_WINDOW_HITS,
            use_async=False,
        )

    def _get_queries(self, original_query: str) -> list[QueryBundle]:
        """Give all queries except the original one."""
        return [QueryBundle(query) for query in self.queries if query != original_query]


class MatchingBM25Retriever(BM25Retriever):
    """Drops nodes without a word of the query.

    A filter multiplies the scores of excluded nodes by zero, and the retriever fills its list with such nodes.
    """

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [node for node in super()._retrieve(query_bundle) if node.get_score() > 0]


class LlamaIndex:
    """LlamaIndex as a peer."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None:
        Settings.llm = None
        self.embed_model = StoredEmbedding(document_vectors, query_vectors)
        self.splitter = SentenceSplitter(chunk_size=512, chunk_overlap=20)

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        """Run the first step of the ingestion pipeline."""
        nodes = IngestionPipeline(transformations=[self.splitter]).run(documents=load(documents))
        return [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]

    def split_window(self, transcript: str) -> list[str]:
        """Split a window with the splitter for documents."""
        return list(self.splitter.split_text(transcript))

    def index(self, documents: Sequence[Document]) -> None:
        """Run the ingestion pipeline into the default, in-memory store, and index its nodes for keywords."""
        pipeline = IngestionPipeline(transformations=[self.splitter, self.embed_model])
        nodes = pipeline.run(documents=load(documents))
        self.store = VectorStoreIndex(nodes, embed_model=self.embed_model)
        keyword_retriever = BM25Retriever(nodes=nodes)
        # Kept in the form of `from_persist_dir`, so that a retriever with another filter reuses the index.
        self.keyword_index = keyword_retriever.bm25
        self.keyword_index.corpus = keyword_retriever.corpus
        self.published_at = [node.metadata["published_at"] for node in nodes]

    def ask(self, query: str, as_of: int) -> Iterator[Found]:
        """Retrieve with one query."""
        return found(self._retriever(WHOLE_WINDOW_HITS, as_of).retrieve(query))

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Fuse in mode ``simple``, the default."""
        return fuse([self._retriever(CHUNK_HITS, as_of)], queries, FUSION_MODES.SIMPLE)

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Fuse in mode ``reciprocal_rerank``."""
        return fuse([self._retriever(CHUNK_HITS, as_of)], queries, FUSION_MODES.RECIPROCAL_RANK)

    def ask_hybrid(self, query: str, as_of: int) -> Iterator[Found]:
        """Fuse the rankings by vectors and by keywords in mode ``reciprocal_rerank``."""
        return fuse(self._hybrid(WHOLE_WINDOW_HITS, as_of), [query], FUSION_MODES.RECIPROCAL_RANK)

    def ask_and_fuse_hybrid(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        """Fuse the rankings of every query, by vectors and by keywords, in mode ``reciprocal_rerank``."""
        return fuse(self._hybrid(CHUNK_HITS, as_of), queries, FUSION_MODES.RECIPROCAL_RANK)

    def _hybrid(self, top_k: int, as_of: int) -> list[BaseRetriever]:
        return [self._retriever(top_k, as_of), self._keyword_retriever(top_k, as_of)]

    def _retriever(self, top_k: int, as_of: int) -> BaseRetriever:
        published = MetadataFilter(key="published_at", value=as_of, operator=FilterOperator.LTE)
        return self.store.as_retriever(similarity_top_k=top_k, filters=MetadataFilters(filters=[published]))

    def _keyword_retriever(self, top_k: int, as_of: int) -> BaseRetriever:
        """Filter by a mask while ranking; ``filters`` would make the same mask, but fail if it excludes all nodes."""
        return MatchingBM25Retriever(
            existing_bm25=self.keyword_index,
            similarity_top_k=min(top_k, len(self.published_at)),
            corpus_weight_mask=[int(published_at <= as_of) for published_at in self.published_at],
        )


def load(documents: Sequence[Document]) -> list[LlamaDocument]:
    """Convert documents so that each chunk is embedded with the title before it."""
    return [
        LlamaDocument(
            doc_id=document.doc_id,
            text=document.text,
            metadata={"title": document.title, "published_at": document.published_at},
            metadata_template="{value}",
            excluded_embed_metadata_keys=NOT_EMBEDDED,
            excluded_llm_metadata_keys=NOT_EMBEDDED,
        )
        for document in documents
    ]


def fuse(retrievers: Sequence[BaseRetriever], queries: Sequence[str], mode: FUSION_MODES) -> Iterator[Found]:
    """Run every retriever with every query."""
    return found(GivenQueriesRetriever(retrievers, queries, mode).retrieve(queries[0]))


def found(nodes: Sequence[NodeWithScore]) -> Iterator[Found]:
    """Give the document id and score of each node."""
    return ((str(node.node.ref_doc_id), float(node.get_score())) for node in nodes)


if __name__ == "__main__":
    run_peer(LlamaIndex, ["llama-index-core", "llama-index-retrievers-bm25", "bm25s"])
