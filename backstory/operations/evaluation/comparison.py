"""Scores the library and the whole-window baselines on one labelled set."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from backstory.base.environment import cache_folder
from backstory.models.choice import make_embedder
from backstory.models.embeddings.cache import EmbeddingCache
from backstory.operations.evaluation.excerpts import compare_excerpts, score_excerpts
from backstory.operations.evaluation.labelled_set import LabelledSet, read_labelled_set
from backstory.operations.evaluation.library_path import (
    OWN,
    ask_windows,
    embed_windows,
    index_documents,
    make_run_contexts,
    rank_documents,
)
from backstory.operations.evaluation.prediction import assess_windows, measure_prediction
from backstory.operations.evaluation.scoring import compare_methods, score_runs
from backstory.operations.evaluation.whole_window import WHOLE_WINDOW_METHODS, ask_whole_windows
from backstory.retrieval.assembly import Retrieval
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state

METHODS = (OWN, *WHOLE_WINDOW_METHODS)


@dataclass(frozen=True)
class Comparison:
    """Scores of the methods on one set.

    Attributes:
        name: Name of the set.
        runs: ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``: the ranked lists.
        scores: One row per method and window.
        table: From :func:`backstory.operations.evaluation.scoring.compare_methods`.
        assessments: One row per window: the estimate of :func:`backstory.evaluate_retrieval` for its context at these
            settings, beside the scores of the same context by the labels.
        prediction: How well the estimates predict the scores, from
            :func:`backstory.operations.evaluation.prediction.measure_prediction`.
        excerpts: What the contexts show of their relevant documents, from
            :func:`backstory.operations.evaluation.excerpts.compare_excerpts`.
        figures: Counts and seconds of the stages.
    """

    name: str
    runs: pl.DataFrame
    scores: pl.DataFrame
    table: pl.DataFrame
    assessments: pl.DataFrame
    prediction: pl.DataFrame
    excerpts: pl.DataFrame
    figures: dict[str, int | float | str]

    def as_record(self) -> dict[str, Any]:
        """Return the comparison as JSON-serializable data."""
        return {
            "set": self.name,
            "figures": self.figures,
            "scores": self.table.to_dicts(),
            "prediction": self.prediction.to_dicts(),
            "excerpts": self.excerpts.to_dicts(),
        }


def evaluate_folder(folder: Path, settings: Settings) -> Comparison:
    """Score the library on a labelled set.

    The same functions as in the pipeline chunk, embed, index and search the documents. Vectors are cached in the
    user's cache folder, so that a second evaluation embeds nothing.

    Args:
        folder: A labelled set (see :func:`backstory.operations.evaluation.labelled_set.read_labelled_set`).
        settings: The settings to evaluate.

    Raises:
        InputError: The folder is not a labelled set.
        EmbeddingError: The embedder failed.
    """
    return evaluate_set(read_labelled_set(folder), settings)


def evaluate_set(labelled: LabelledSet, settings: Settings) -> Comparison:
    """Score the library on a labelled set that has been read; see :func:`evaluate_folder`."""
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="backstory-eval-") as scratch:
        index, document_chunks = index_documents(Path(scratch), labelled, settings, embedder, cache)
        with index:
            indexed = time.perf_counter()
            chunks, vectors = embed_windows(labelled, settings, embedder, cache)
            embedded = time.perf_counter()
            retrieval = Retrieval.from_settings(settings, index)
            queries, hits = ask_windows(labelled, chunks, vectors, retrieval)
            own = rank_documents(chunks, queries, hits, retrieval)
            answered = time.perf_counter()
            decisions, contexts = make_run_contexts(chunks, queries, hits, retrieval)
            assessments = assess_windows(
                labelled, chunks, decisions, contexts, retrieval, known_languages=embedder.languages
            )
            excerpts = score_excerpts(labelled, decisions, contexts, chunks, retrieval)
            whole = ask_whole_windows(labelled, chunks, vectors, settings.rag, embedder, cache, index)
    runs = pl.concat([own, whole])
    scores = score_runs(runs, labelled.qrels, name=labelled.name, methods=METHODS)
    prediction = measure_prediction(assessments)
    figures: dict[str, int | float | str] = {
        "documents": len(labelled.documents),
        "document_chunks": len(document_chunks),
        "windows": len(labelled.windows),
        "messages": len(labelled.messages),
        "query_chunks": len(chunks),
        "embedder": embedder.id,
        "rerank": settings.rerank.provider,
        "ncov@5_of_the_context": round(float(assessments["ncov@5"].to_numpy().mean()), 4),
        "index_seconds": round(indexed - started, 2),
        "query_embedding_seconds": round(embedded - indexed, 2),
        "query_seconds": round(answered - embedded, 2),
    }
    return Comparison(
        labelled.name,
        runs,
        scores,
        compare_methods(scores, of=OWN),
        assessments,
        prediction,
        compare_excerpts(excerpts),
        figures,
    )
