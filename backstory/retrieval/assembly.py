"""Windows, their query chunks and an index -> hits, decisions and contexts, in memory.

This is the only module that assembles the steps. The stages of the pipeline run one step at a time, with the tables of
a workspace between them. Everything else runs all steps at once, by :meth:`Retrieval.run`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import polars as pl

from backstory.index.request import Filters
from backstory.index.search import SearchIndex
from backstory.models.choice import make_reranker
from backstory.models.embeddings.protocol import Vectors
from backstory.models.reranker import JudgementCache, Reranker
from backstory.models.reranking import Reranking
from backstory.retrieval.assessment import evaluate_retrieval, judge_parts
from backstory.retrieval.contexts import make_contexts
from backstory.retrieval.evidence.asking_parts import find_small_talk_parts
from backstory.retrieval.evidence.document_fit import DocumentFit
from backstory.retrieval.evidence.document_prior import weigh_documents
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.retrieval.evidence.pairs import list_parts, read_pairs
from backstory.retrieval.hits import FoundHits, PostsOf, Queries, find_hits, plan_queries
from backstory.retrieval.selection.decisions import append_decisions, list_kept, select_hits
from backstory.retrieval.selection.strategies import FindVectors, VectorSources
from backstory.retrieval.selection.title_match import match_titles
from backstory.settings.models import ContextSettings, RAGSettings, RerankSettings, Settings
from backstory.text.people import (
    FindLeaks,
    ListWithheld,
    SendText,
    ShowText,
    show_as_written,
)
from backstory.text.prompts.entries import entry_budget, make_entry_counter

# Sums over many rows differ in their last digits from run to run; tables must be identical.
_DECIMALS = 6


@dataclass(frozen=True)
class Judgement:
    """The decisions on the hits of a batch of windows.

    Attributes:
        frame: Table ``decisions``, one row per hit, in the order of the hits.
        counts: Those of :class:`backstory.models.reranking.Reranking`; empty without a reranker.
    """

    frame: pl.DataFrame
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Retrieved:
    """The tables of a batch of windows.

    Attributes:
        hits: Table ``hits``.
        decisions: Table ``decisions``.
        contexts: Table ``contexts``.
    """

    hits: pl.DataFrame
    decisions: pl.DataFrame
    contexts: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """An index, with the settings of a search for windows.

    Attributes:
        index: An open snapshot in the embedding space of the queries.
        rag: Settings of queries and of decisions.
        context: Format of the entries, on which their number of tokens depends.
        reranker: Judges the candidates; None for no reranking.
        rerank: How much of a window and of each chunk the reranker sees.
        find_leaks: Finds the labels of topics that hold a real name of an author.
        judgements: Judgements of earlier runs; None keeps none.
        send: Gives each text as the reranker is sent it, or withholds it.
        separate_posts: Whether the index may hold posts that Backstory wrote. They are searched by themselves and have
            places of their own, so that nothing of what people wrote gives way to them.
        posts_of: Which posts the windows of a conversation may find; None for all.
        document_fit: What was learned about the documents that people wrote; None for nothing.
    """

    index: SearchIndex
    rag: RAGSettings
    context: ContextSettings
    reranker: Reranker | None = None
    rerank: RerankSettings = field(default_factory=RerankSettings)
    find_leaks: FindLeaks = lambda _: ()
    judgements: JudgementCache | None = None
    send: SendText = lambda _, text: text
    separate_posts: bool = False
    posts_of: PostsOf | None = None
    document_fit: DocumentFit | None = None

    @classmethod
    def from_settings(cls, settings: Settings, index: SearchIndex) -> Self:
        """Configure a retrieval by the settings.

        Args:
            settings: Settings with absolute paths of models.
            index: An open snapshot in the embedder's space.

        Raises:
            ModelSetupError: The reranker's model is not in the folder of the settings.
        """
        return cls(
            index=index,
            rag=settings.rag,
            context=settings.context,
            reranker=make_reranker(settings.rerank),
            rerank=settings.rerank,
        )

    def run(
        self,
        windows: pl.DataFrame,
        window_chunks: pl.DataFrame,
        vectors: Vectors,
        *,
        show: ShowText = show_as_written,
        list_withheld: ListWithheld = lambda _: (),
    ) -> Retrieved:
        """Find the contexts of windows.

        Args:
            windows: Table ``windows``.
            window_chunks: Table ``window_chunks`` of these windows.
            vectors: Unit vectors of the query chunks, shape ``(len(window_chunks), dimension)``.
            show: Shows a text of a document in the contexts.
            list_withheld: Lists those of the found documents, by id, that no context may hold.

        Raises:
            ModelError: The reranker could not be used.
        """
        queries = plan_queries(windows, window_chunks, vectors, self.rag)
        hits = self.find_hits(queries).frame
        withheld = list_withheld(hits["document_id"].unique(maintain_order=True).to_list())
        hits = hits.filter(~pl.col("document_id").is_in(list(withheld)))
        decisions = self.judge(hits, window_chunks, queries.vectors_of).frame
        return Retrieved(hits, decisions, self.gather(decisions, window_chunks, show=show))

    def find_hits(self, queries: Queries) -> FoundHits:
        """Search for all queries of :func:`backstory.retrieval.hits.plan_queries` at once."""
        return find_hits(
            queries, self.index, self.rag, separate_posts=self.separate_posts, posts_of=self.posts_of
        )

    def judge(
        self,
        hits: pl.DataFrame,
        window_chunks: pl.DataFrame,
        query_vectors: FindVectors,
        *,
        max_tokens: int | None = None,
    ) -> Judgement:
        """Decide which hits are kept. Chunks and documents of the hits are read from the index.

        Args:
            hits: Table ``hits``.
            window_chunks: Table ``window_chunks`` of the same windows.
            query_vectors: Gives the unit vectors of query chunks by id, shape ``(len(ids), dimension)``. It is called
                only if the strategy compares them.
            max_tokens: Token budget of one context; None for the budget of the settings minus the heading.

        Raises:
            InputError: A hit is not of this index, or not of these queries.
            ModelError: The reranker could not be used.
        """
        reranking = self._start_reranking(window_chunks)
        found = self.index.describe(hits["chunk_id"].unique(maintain_order=True))
        hits = self._weigh(hits, found, window_chunks, query_vectors).join(
            found.select("chunk_id", place=_order_paths()), on="chunk_id", how="left", maintain_order="left"
        )
        judge = partial(
            select_hits,
            temperature=self.index.manifest.calibration.temperature,
            vectors=VectorSources(query_vectors, self.index.vectors_of),
            texts=dict(found.select("chunk_id", "text").iter_rows()),
            entry_tokens=make_entry_counter(found, self.context),
        )
        posts = self.index.list_posts(found["chunk_id"]) if self.separate_posts else []
        of_people = hits.filter(~pl.col("chunk_id").is_in(posts)) if posts else hits
        decisions = judge(
            of_people,
            self.rag,
            max_tokens=entry_budget(self.context.max_tokens) if max_tokens is None else max_tokens,
            named=self._find_named_titles(of_people, window_chunks, found),
            reranking=reranking,
        )
        if posts:
            found_posts = hits.filter(pl.col("chunk_id").is_in(posts))
            of_posts = judge(
                found_posts,
                self.rag.model_copy(update={"top_k": self.rag.posts_top_k}),
                max_tokens=entry_budget(self.context.posts_max_tokens),
                named=None,  # a post is a mixture of topics, and its title names only some of them
                shown=list_kept(decisions),
            )
            decisions = append_decisions(hits, decisions, of_posts)
        return Judgement(decisions, reranking.counts if reranking else {})

    def gather(
        self,
        decisions: pl.DataFrame,
        window_chunks: pl.DataFrame,
        shown: pl.Series | None = None,
        show: ShowText = show_as_written,
    ) -> pl.DataFrame:
        """Make table ``contexts`` from the kept hits of table ``decisions``.

        Args:
            decisions: Table ``decisions``.
            window_chunks: Table ``window_chunks`` of the same windows.
            shown: The texts of ``window_chunks`` as readers see them; None for the texts as they are.
            show: Shows a text of a document as readers see it.

        Raises:
            InputError: A kept chunk is not of this index.
        """
        kept = decisions.filter("kept")["chunk_id"].unique(maintain_order=True)
        alike = decisions.filter(pl.col("cause") == "near_duplicate")["chunk_id"].unique(maintain_order=True)
        return make_contexts(
            decisions,
            self.index.describe(kept),
            window_chunks,
            alike=self.index.describe(alike),
            around=self.index.read_around(kept),
            terms_of=self.index.terms_of,
            settings=self.context,
            shown=shown,
            show=show,
        )

    def assess(
        self,
        windows: pl.DataFrame,
        window_chunks: pl.DataFrame,
        decisions: pl.DataFrame,
        known_languages: Collection[str] | None = None,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Judge the parts of windows, and assess the windows: what people wrote, whatever posts a context holds.

        Args:
            windows: Table ``windows``.
            window_chunks: Table ``window_chunks`` of these windows.
            decisions: Table ``decisions`` of these windows.
            known_languages: The ``languages`` of the embedder; None for all.

        Returns:
            What :func:`~backstory.retrieval.assessment.judge_parts` and
            :func:`~backstory.retrieval.assessment.evaluate_retrieval` give.
        """
        posts = self.index.list_posts(decisions["chunk_id"].unique()) if self.separate_posts else []
        parts = judge_parts(window_chunks, decisions.filter(~pl.col("chunk_id").is_in(posts)))
        searched = Filters(by_people=True if self.separate_posts else None)
        return parts, evaluate_retrieval(
            windows,
            window_chunks,
            parts,
            settings=self.rag,
            searchable=self.index.count_admitted(searched) > 0,
            embedder_id=self.index.manifest.embedder_id,
            known_languages=known_languages,
        )

    def _weigh(
        self, hits: pl.DataFrame, found: pl.DataFrame, window_chunks: pl.DataFrame, query_vectors: FindVectors
    ) -> pl.DataFrame:
        """Add the probability that the chunk of each hit tells something about the part.

        What people wrote and what Backstory wrote are weighed apart, so that the posts of a window change nothing of
        what is found beside them.
        """
        parts = _list_asking(hits, window_chunks)
        posts = (
            self.index.list_posts(hits["chunk_id"].unique(maintain_order=True)) if self.separate_posts else []
        )
        is_post = hits["chunk_id"].is_in(posts)
        weighed = []
        for group, fit in ((hits.filter(~is_post), self.document_fit), (hits.filter(is_post), None)):
            if len(group):
                measured = self._measure(group, found, parts, query_vectors)
                weighed.append(measured.with_columns(prior=weigh_documents(measured, fit)))
        if not weighed:
            return hits.with_columns(
                probability=pl.lit(0.0), prior=pl.lit(1.0), is_single=pl.lit(value=False)
            )
        keys = ["query_chunk_id", "chunk_id"]
        measured = pl.concat(
            group.select(*keys, "probability", "prior", is_single=pl.col("is_single") > 0)
            for group in weighed
        )
        return hits.join(
            measured,
            on=keys,
            how="left",
            maintain_order="left",
        )

    def measure(
        self, hits: pl.DataFrame, window_chunks: pl.DataFrame, query_vectors: FindVectors
    ) -> pl.DataFrame:
        """Measure hits without what was learned, for a fit.

        Args:
            hits: Table ``hits``.
            window_chunks: Table ``window_chunks`` of the same windows.
            query_vectors: Gives the unit vectors of query chunks by id, shape ``(len(ids), dimension)``.

        Returns:
            The hits with ``probability`` and the features of :mod:`backstory.retrieval.evidence.pair_features`.
        """
        found = self.index.describe(hits["chunk_id"].unique(maintain_order=True))
        return self._measure(hits, found, _list_asking(hits, window_chunks), query_vectors)

    def _measure(
        self, hits: pl.DataFrame, found: pl.DataFrame, parts: pl.DataFrame, query_vectors: FindVectors
    ) -> pl.DataFrame:
        """Add the features of each hit and its probability, which is 0 for small talk."""
        features = measure_pairs(read_pairs(hits, parts, found, query_vectors, self.index))
        asks = hits["query_chunk_id"].is_in(parts.filter("asks")["part_id"].to_list())
        probability = pl.Series(read_pair_model().estimate(features), dtype=pl.Float64) * asks.cast(
            pl.Float64
        )
        return hits.with_columns(
            *(pl.Series(name, values, dtype=pl.Float64) for name, values in features.items()),
            probability=probability.round(_DECIMALS),
        )

    def _find_named_titles(
        self, hits: pl.DataFrame, window_chunks: pl.DataFrame, found: pl.DataFrame
    ) -> pl.Series | None:
        """Return for each hit whether its title is named, if the strategy asks."""
        if self.rag.strategy != "coverage":
            return None
        return match_titles(hits, window_chunks, found, self.index.terms_of)

    def _start_reranking(self, window_chunks: pl.DataFrame) -> Reranking | None:
        if self.reranker is None:
            return None
        return Reranking(
            self.reranker,
            self.rerank,
            window_chunks=window_chunks,
            describe=self.index.describe,
            find_leaks=self.find_leaks,
            cache=self.judgements,
            send=self.send,
        )


def _order_paths() -> pl.Expr:
    """Order documents by their paths, the shortest first, as a copy has the longer name."""
    return pl.struct(pl.col("uri").str.len_chars().alias("length"), "uri").rank("dense")


def _list_asking(hits: pl.DataFrame, window_chunks: pl.DataFrame) -> pl.DataFrame:
    """List the queries of the windows of hits; column ``asks`` is false for small talk."""
    parts = list_parts(hits, window_chunks)
    small_talk = pl.Series(find_small_talk_parts(parts["text"].to_list()), dtype=pl.Boolean)
    return parts.with_columns(asks=~small_talk)
