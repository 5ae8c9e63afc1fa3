"""Learns from labels which documents windows are about: fits on earlier days, tests on later ones, keeps what gains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from backstory.base.errors import InputError, SearchIndexError
from backstory.base.local_times import read_clocks
from backstory.models.embeddings.embed import embed_texts
from backstory.operations.evaluation import OWN, rank_documents
from backstory.operations.labels import Labels, gather_labels
from backstory.operations.scoring import bound_mean, score_runs
from backstory.pipeline.query_index import open_for_queries
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.evidence.document_fit import FEATURES, DocumentFit, LearnedFit, compare_documents
from backstory.retrieval.evidence.document_prior import LEAST_PARTS
from backstory.retrieval.evidence.learned import read_learned, write_learned
from backstory.retrieval.evidence.logistic import fit_logistic
from backstory.retrieval.hits import Queries, plan_queries
from backstory.storage.turns import running

LEAST_DAYS: Final = 20
"""Fewer labelled days say nothing about the next ones."""
_RIDGE: Final = 0.01
"""The features of documents are many and alike, and the documents of a window are no independent examples."""
_DECIMALS: Final = 6


class Trial(BaseModel):
    """What a fit on the earlier half of the days gains on the later half, which begins at ``since``.

    ``fitted`` and ``tested`` count windows. ``before`` and ``after`` are the mean ncov@5 without and with it (each day
    counts once), with the paired 95 % bootstrap interval of the ``gain``. ``fit`` is one on all days.
    """

    model_config = ConfigDict(frozen=True)

    fitted: int
    tested: int
    since: date
    before: float
    after: float
    gain: float
    gain_low: float
    gain_high: float
    fit: DocumentFit = Field(exclude=True, repr=False)


class Lesson(BaseModel):
    """What :func:`learn` did; there is no trial if there are too few labelled days."""

    model_config = ConfigDict(frozen=True)

    labels: Labels
    trial: Trial | None
    adopted: bool


def learn(workspace: Workspace) -> Lesson:
    """Fit the prior of documents on the labels of a workspace, and adopt the fit if it proves itself.

    The fit of the earlier half of the labelled days is tested on the later half. If it gains beyond the interval, a fit
    on all days is adopted: `backstory run` then makes again what it changes. Otherwise nothing changes.
    """
    strategy = workspace.settings.rag.strategy
    if strategy != "coverage":
        raise InputError(
            f"rag.strategy is {strategy}, which weighs no document by what was learned; set "
            "`rag: {strategy: coverage}` in backstory.yaml, or leave it out",
            code="no_prior",
        )
    with running(workspace.catalog.state, "backstory learn"):
        labels = gather_labels(workspace)
        with search_workspace(workspace, labels) as examples:
            read_learned(workspace.learned)
            trial = try_fit(examples)
            adopted = trial is not None and trial.gain_low > 0
            if trial is not None and adopted:
                learned = LearnedFit(
                    fit=trial.fit,
                    embedder=examples.retrieval.index.manifest.embedder_id,
                    windows=examples.labels["window_id"].n_unique(),
                    links=len(examples.labels),
                    gain=trial.gain,
                    gain_low=trial.gain_low,
                    gain_high=trial.gain_high,
                )
                write_learned(workspace.learned, learned)
    return Lesson(labels=labels, trial=trial, adopted=adopted)


def unlearn(workspace: Workspace) -> bool:
    """Remove what was learned, also if its file is damaged; return whether there was something to remove."""
    with running(workspace.catalog.state, "backstory learn --undo"):
        was_there = workspace.learned.exists()
        workspace.learned.unlink(missing_ok=True)
    return was_there


def try_fit(examples: Examples) -> Trial | None:
    """Fit on the earlier half of the days, and test on the later half; None if there are too few labelled days."""
    days: list[date] = examples.windows["day"].unique().sort().to_list()
    if len(days) < LEAST_DAYS:
        return None
    earlier, later = days[: len(days) // 2], days[len(days) // 2 :]
    documents = examples.compare_documents()
    fit = _fit(documents.filter(pl.col("day").is_in(earlier)))
    before, after = examples.score(later, None), examples.score(later, fit)
    gain, low, high = bound_mean(after - before)
    tested = len(examples.windows.filter(pl.col("day").is_in(later)))
    return Trial(
        fitted=len(examples.windows) - tested,
        tested=tested,
        since=later[0],
        before=float(before.mean()),
        after=float(after.mean()),
        gain=gain,
        gain_low=low,
        gain_high=high,
        fit=_fit(documents),
    )


def _fit(documents: pl.DataFrame) -> DocumentFit:
    """Fit the odds that a document is named. Every window weighs the same."""
    rows = documents.select(FEATURES).to_numpy()
    weights = documents.select(1 / pl.len().over("window_id")).to_series().to_numpy()
    weights = weights / weights.mean()
    centre = np.average(rows, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weights))
    spread[spread == 0] = 1.0  # a feature that is the same for all documents
    fitted = fit_logistic((rows - centre) / spread, documents["named"].to_numpy(), weights, ridge=_RIDGE)
    slopes = (fitted[1:] / spread).round(_DECIMALS)
    return DocumentFit(
        dict(zip(FEATURES, slopes.tolist(), strict=True)),
        round(float(fitted[0] - centre @ slopes), _DECIMALS),
    )


@dataclass(frozen=True)
class Examples:
    """Labelled windows with what a search finds for them, without what was learned."""

    labels: pl.DataFrame
    windows: pl.DataFrame
    """``window_id`` and ``day`` of the windows that a fit weighs: those of enough parts."""
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
        named = self.labels.select("window_id", document_id="doc_id", named=pl.lit(1.0)).unique()
        return (
            compared.join(self.windows, on="window_id", maintain_order="left")
            .join(named, on=["window_id", "document_id"], how="left", maintain_order="left")
            .with_columns(pl.col("named").fill_null(0.0))
        )

    def score(self, days: Sequence[date], fit: DocumentFit | None) -> NDArray[np.float64]:
        """Return the mean ncov@5 of the choice on each of some days, weighed by a fit or by the prior without labels.

        Of a window, that is how many of the first five documents are labels, divided by min(5, labels).
        """
        windows = self.windows.filter(pl.col("day").is_in(days))
        hits, chunks, labels = (
            _keep_labelled(frame, windows) for frame in (self.hits, self.chunks, self.labels)
        )
        retrieval = replace(self.retrieval, document_fit=fit)
        ranked = rank_documents(chunks, self.queries, hits, retrieval)
        scores = score_runs(ranked, labels, name=OWN, methods=(OWN,)).join(windows, on="window_id")
        by_day = scores.group_by("day").agg(pl.col("ncov@5").mean()).sort("day")
        return by_day["ncov@5"].to_numpy()


@contextmanager
def search_workspace(workspace: Workspace, labels: Labels) -> Iterator[Examples]:
    """Search the published snapshot for the labelled windows of a workspace.

    Nothing later than a window is found, whatever the settings serve.
    """
    windows = _keep_labelled(workspace.tables.read("windows"), labels.frame)
    partitions = windows["partition"].unique(maintain_order=True).to_list()
    chunks = _keep_labelled(workspace.tables.read("window_chunks", partitions), windows)
    rag = workspace.rag.model_copy(update={"as_of": True})
    served = open_for_queries(workspace)
    with served.index as index:
        if served.degraded is not None:
            raise SearchIndexError(served.degraded, code="stale_index")
        embedded = embed_texts(
            served.workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
        )
        retrieval = Retrieval(
            index=index,
            rag=rag,
            context=workspace.settings.context,
            separate_posts=workspace.feeds_back,
        )
        queries = plan_queries(windows, chunks, embedded.vectors, rag)
        hits = retrieval.find_hits(queries).frame
        asking = hits.group_by("window_id").agg(parts=pl.col("query_chunk_id").n_unique())
        weighed = _keep_labelled(windows, asking.filter(pl.col("parts") >= LEAST_PARTS))
        weighed = weighed.sort("started_at", "window_id")
        weighed = weighed.select("window_id", read_clocks(weighed, "started_at").dt.date().alias("day"))
        kept, parts, found = (_keep_labelled(frame, weighed) for frame in (labels.frame, chunks, hits))
        yield Examples(kept, weighed, parts, queries, found, retrieval)


def _keep_labelled(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    return rows.join(windows, on="window_id", how="semi", maintain_order="left")
