"""Measures the contexts of a labelled set: their topics, what their excerpts show, what their confidence predicts.

Run it with ``python -m benchmarks.contexts SET [--workspace DIR]``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from backstory.base.environment import cache_folder
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache
from backstory.operations.evaluation import (
    LabelledSet,
    ask_windows,
    embed_windows,
    index_documents,
    read_labelled_set,
)
from backstory.operations.scoring import score_runs
from backstory.pipeline.workspace import open_workspace
from backstory.retrieval.assembly import Retrieval
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from benchmarks.excerpts import compare_excerpts, score_excerpts

PREDICTED: Final = ("ncov@5", "coverage@5")


@dataclass(frozen=True)
class Contexts:
    """What the contexts of a set are worth.

    Attributes:
        assessments: One row per window: the estimate of :func:`backstory.evaluate_retrieval` for its context, beside
            the scores of the same context by the labels.
        prediction: From :func:`measure_prediction`.
        excerpts: From :func:`benchmarks.excerpts.compare_excerpts`.
    """

    assessments: pl.DataFrame
    prediction: pl.DataFrame
    excerpts: pl.DataFrame

    def as_record(self) -> dict[str, Any]:
        """Return the figures as JSON-serializable data."""
        return {
            "ncov@5_of_the_context": round(float(self.assessments["ncov@5"].to_numpy().mean()), 4),
            "prediction": self.prediction.to_dicts(),
            "excerpts": self.excerpts.to_dicts(),
        }


def measure_contexts(folder: Path, settings: Settings) -> Contexts:
    """Build the contexts that a run with these settings builds for a labelled set, and compare them with the labels."""
    labelled = read_labelled_set(folder)
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    with tempfile.TemporaryDirectory(prefix="backstory-contexts-") as scratch:
        index, _ = index_documents(Path(scratch), labelled, settings, embedder, cache)
        with index:
            chunks, vectors = embed_windows(labelled, settings, embedder, cache)
            retrieval = Retrieval.from_settings(settings, index)
            queries, hits = ask_windows(labelled, chunks, vectors, retrieval)
            searched = hits.filter(pl.col("rank") <= retrieval.rag.chunks_per_query)
            decisions = retrieval.judge(searched, chunks, queries.vectors_of).frame
            contexts = retrieval.gather(decisions, chunks)
            assessments = assess_windows(
                labelled, chunks, decisions, contexts, retrieval, known_languages=embedder.languages
            )
            excerpts = score_excerpts(labelled, decisions, contexts, chunks, retrieval)
    return Contexts(assessments, measure_prediction(assessments), compare_excerpts(excerpts))


def assess_windows(
    labelled: LabelledSet,
    chunks: pl.DataFrame,
    decisions: pl.DataFrame,
    contexts: pl.DataFrame,
    retrieval: Retrieval,
    *,
    known_languages: Collection[str] | None = None,
) -> pl.DataFrame:
    """Assess contexts without labels, and score them by the labels.

    The result has the columns of :func:`backstory.evaluate_retrieval`, ``group``, and the metrics of
    :func:`backstory.operations.scoring.score_runs` over the context's documents.
    """
    _, assessments = retrieval.assess(labelled.windows, chunks, decisions, known_languages)
    documents = contexts.unique(["window_id", "document_id"], keep="first", maintain_order=True).select(
        "window_id",
        doc_id="document_id",
        rank=pl.int_range(1, pl.len() + 1).over("window_id"),
        method=pl.lit("context"),
    )
    scores = score_runs(documents, labelled.qrels, name=labelled.name, methods=("context",))
    return assessments.join(scores.drop("method"), on="window_id", maintain_order="left")


def measure_prediction(assessments: pl.DataFrame) -> pl.DataFrame:
    """Correlate the confidence of the assessment with the coverage by labels, where the confidence is not null.

    For each of :data:`PREDICTED` the result has ``metric``, ``windows``, and the correlations ``spearman`` and
    ``pearson``, null where one of the two does not vary.
    """
    rows = []
    judged = assessments.drop_nulls("confidence")
    for metric in PREDICTED:
        pair = judged.select(
            pl.corr("confidence", metric, method="spearman").alias("spearman"),
            pl.corr("confidence", metric, method="pearson").alias("pearson"),
        ).fill_nan(None)
        rows.append({"metric": metric, "windows": len(judged), **pair.row(0, named=True)})
    return pl.DataFrame(
        rows,
        schema={"metric": pl.String, "windows": pl.Int64, "spearman": pl.Float64, "pearson": pl.Float64},
    )


def main() -> None:
    """Measure a set, and print its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", type=Path, help="folder with docs.parquet, windows.parquet and qrels.parquet")
    parser.add_argument("--workspace", type=Path, help="measure the settings of this workspace")
    given = parser.parse_args()
    settings = Settings() if given.workspace is None else open_workspace(given.workspace).located_settings
    print(json.dumps(measure_contexts(given.set, settings).as_record(), indent=1))


if __name__ == "__main__":
    main()
