"""The labelled windows of a workspace or of a set, searched: what a fit is made from, and tested on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.environment import cache_folder
from backstory.base.errors import SearchIndexError
from backstory.base.local_times import read_clocks
from backstory.index.search import SearchIndex
from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.operations.evaluation.comparison import OWN, embed_windows, index_documents, rank_documents
from backstory.operations.evaluation.labelled_set import LabelledSet
from backstory.operations.evaluation.scoring import score_runs
from backstory.operations.learning.labels import Labels
from backstory.pipeline.query_index import open_for_queries
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.evidence.document_fit import DocumentFit, compare_documents
from backstory.retrieval.evidence.document_prior import LEAST_PARTS
from backstory.retrieval.hits import Queries, plan_queries
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state


@dataclass(frozen=True)
class Examples:
    """Labelled windows with what a search finds for them.

    Attributes:
        labels: The labels of these windows.
        windows: ``window_id`` and ``day`` of the windows that a fit weighs: those of enough parts.
        chunks: Table ``window_chunks`` of these windows.
        queries: Their queries.
        hits: Their hits, table ``hits``.
        retrieval: The search, without what was learned.
    """

    labels: Labels
    windows: pl.DataFrame
    chunks: pl.DataFrame
    queries: Queries
    hits: pl.DataFrame
    retrieval: Retrieval

    def compare_documents(self) -> pl.DataFrame:
        """Compare the found documents of each window, with its ``day`` and ``named``: 1 for a label, else 0."""
        of_people = self.hits
        if self.retrieval.separate_posts:
            posts = self.retrieval.index.list_posts(self.hits["chunk_id"].unique(maintain_order=True))
            of_people = self.hits.filter(~pl.col("chunk_id").is_in(posts))
        measured = self.retrieval.measure(of_people, self.chunks, self.queries.vectors_of)
        compared = compare_documents(measured)
        named = self.labels.frame.select("window_id", document_id="doc_id", named=pl.lit(1.0)).unique()
        return (
            compared.join(self.windows, on="window_id", maintain_order="left")
            .join(named, on=["window_id", "document_id"], how="left", maintain_order="left")
            .with_columns(pl.col("named").fill_null(0.0))
        )

    def list_days(self) -> list[date]:
        """List the days of the windows, in order."""
        days: list[date] = self.windows["day"].unique().sort().to_list()
        return days

    def score(self, days: Sequence[date], fit: DocumentFit | None) -> NDArray[np.float64]:
        """Score the choice of documents on some days, weighed by a fit or by the prior without labels.

        Returns:
            The mean ncov@5 of the windows of each day, shape ``(len(days),)``: of the first five documents, how many
            are labels, divided by min(5, labels).
        """
        windows = self.windows.filter(pl.col("day").is_in(days))
        hits, chunks, labels = (
            _keep_labelled(frame, windows) for frame in (self.hits, self.chunks, self.labels.frame)
        )
        retrieval = replace(self.retrieval, document_fit=fit)
        ranked = rank_documents(chunks, self.queries, hits, retrieval)
        scores = score_runs(ranked, labels, name=self.labels.of, methods=(OWN,)).join(windows, on="window_id")
        by_day = scores.group_by("day").agg(pl.col("ncov@5").mean()).sort("day")
        return by_day["ncov@5"].to_numpy()


@contextmanager
def search_workspace(workspace: Workspace, labels: Labels) -> Iterator[Examples]:
    """Search the published snapshot for the labelled windows of a workspace.

    Raises:
        SearchIndexError: There is no snapshot that can be searched, or it is not the current one of the settings.
    """
    windows = _keep_labelled(workspace.tables.read("windows"), labels.frame)
    partitions = windows["partition"].unique(maintain_order=True).to_list()
    chunks = _keep_labelled(workspace.tables.read("window_chunks", partitions), windows)
    served = open_for_queries(workspace)
    with served.index as index:
        if served.degraded is not None:
            raise SearchIndexError(served.degraded, code="stale_index")
        embedded = embed_texts(
            served.workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
        )
        yield _search(labels, windows, chunks, embedded.vectors, index, workspace)


@contextmanager
def search_set(workspace: Workspace, labelled: LabelledSet, labels: Labels) -> Iterator[Examples]:
    """Index the documents of a set as the workspace would, and search them for its windows.

    Vectors are cached in the user's cache folder, as for `backstory eval`.
    """
    settings, embedder = workspace.located_settings, workspace.embedder
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    with tempfile.TemporaryDirectory(prefix="backstory-learn-") as scratch:
        index, _ = index_documents(Path(scratch), labelled, settings, embedder, cache)
        with index:
            chunks, vectors = embed_windows(labelled, settings, embedder, cache)
            yield _search(labels, labelled.windows, chunks, vectors, index, workspace)


def _keep_labelled(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    return rows.join(windows, on="window_id", how="semi", maintain_order="left")


def _search(
    labels: Labels,
    windows: pl.DataFrame,
    chunks: pl.DataFrame,
    vectors: Vectors,
    index: SearchIndex,
    workspace: Workspace,
) -> Examples:
    """Search for labelled windows; nothing later than a window is found, whatever the settings serve."""
    rag = workspace.rag.model_copy(update={"as_of": True})
    retrieval = Retrieval(
        index=index,
        rag=rag,
        context=workspace.settings.context,
        separate_posts=workspace.feeds_back,
    )
    queries = plan_queries(windows, chunks, vectors, rag)
    hits = retrieval.find_hits(queries).frame
    asking = hits.group_by("window_id").agg(parts=pl.col("query_chunk_id").n_unique())
    weighed = (
        windows.join(asking.filter(pl.col("parts") >= LEAST_PARTS), on="window_id", how="semi")
        .join(labels.frame, on="window_id", how="semi")
        .sort("started_at", "window_id")
    )
    weighed = weighed.select("window_id", read_clocks(weighed, "started_at").dt.date().alias("day"))
    return Examples(
        labels.model_copy(update={"frame": _keep_labelled(labels.frame, weighed)}),
        weighed,
        _keep_labelled(chunks, weighed),
        queries,
        _keep_labelled(hits, weighed),
        retrieval,
    )
