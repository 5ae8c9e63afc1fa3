"""Measure how well the assessment without labels predicts the scores with labels."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from backstory.operations.evaluation.labelled_set import LabelledSet
from backstory.operations.evaluation.scoring import score_runs
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.assessment import evaluate_retrieval, judge_parts

PREDICTED = ("ncov@5", "coverage@5")


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

    Args:
        labelled: A labelled set.
        chunks: Table ``window_chunks``.
        decisions: Table ``decisions``, from :func:`backstory.operations.evaluation.library_path.make_run_contexts`.
        contexts: Table ``contexts``, from the same.
        retrieval: The index that was searched, and the settings of the choice.
        known_languages: Languages that the embedder of the hits knows; None for all.

    Returns:
        The columns of :func:`backstory.evaluate_retrieval`, ``group``, and the metrics of
        :func:`backstory.operations.evaluation.scoring.score_runs` over the context's documents.
    """
    assessments = evaluate_retrieval(
        labelled.windows,
        chunks,
        judge_parts(chunks, decisions),
        settings=retrieval.rag,
        searchable=retrieval.index.rows > 0,
        embedder_id=retrieval.index.embedder_id,
        known_languages=known_languages,
    )
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

    Args:
        assessments: From :func:`assess_windows`.

    Returns:
        For ``ncov@5`` and ``coverage@5``: ``metric``, ``windows``, and the rank correlation ``spearman`` and the
        correlation ``pearson``; null where one of the two does not vary.
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
