"""How well the assessment, made without labels, predicts coverage; and the fit of its constants.

``python -m benchmarks.assessment DIR...`` makes the contexts of every labelled set twice: with all documents, and
with a random half of them, so that some topics lose their relevant documents. It correlates the confidence with the
coverage that the labels give. It refits the constants of :mod:`backstory.retrieval.assessment`, and predicts each set
with constants fitted on the remaining sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.models.embeddings.choice import make_embedder
from backstory.operations.evaluation.comparison import evaluate_set
from backstory.operations.evaluation.labelled_set import LabelledSet, read_labelled_set
from backstory.operations.evaluation.scoring import name_group
from backstory.retrieval.assessment import INTERCEPT, PER_MARGIN, relative_margin
from backstory.settings.models import Settings

Values = NDArray[np.float64]

SHIPPED = np.array([INTERCEPT, PER_MARGIN])
COVERED = 0.5
"""Share of the topics at or above which a context counts as sufficient."""

_SEED = 20240101
_RIDGE = 0.01
_STEPS = 100
_BINS = 5


def fit_constants(features: Values, sufficient: Values) -> Values:
    """Fit a logistic regression by Newton's method, with a small ridge so that separable data has a solution.

    Args:
        features: Predictors, shape ``(windows, features)``; here the relative margin alone.
        sufficient: 1 for a sufficient context, else 0, shape ``(windows,)``.

    Returns:
        Intercept and weights, shape ``(features + 1,)``.
    """
    centre, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
    rows = np.column_stack([np.ones(len(features)), (features - centre) / spread])
    ridge = _RIDGE * np.diag([0.0] + [1.0] * features.shape[1])
    weights = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        expected = _logistic(rows @ weights)
        curvature = rows.T @ (rows * (expected * (1 - expected) + 1e-9)[:, None]) + ridge
        weights = weights + np.linalg.solve(curvature, rows.T @ (sufficient - expected) - ridge @ weights)
    slopes = weights[1:] / spread
    return np.concatenate([[weights[0] - slopes @ centre], slopes])


def predict(constants: Values, features: Values) -> Values:
    """Compute the confidence from constants of :func:`fit_constants`, shape ``(windows,)``."""
    return _logistic(constants[0] + features @ constants[1:])


def area_under_curve(confidence: Values, sufficient: Values) -> float | None:
    """Compute the probability that a sufficient context has more confidence than an insufficient one (ties: half)."""
    positive = sufficient > 0
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return None
    ranks = pl.Series(confidence).rank("average").to_numpy()
    return float((ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / pairs)


def calibration_error(confidence: Values, sufficient: Values) -> float:
    """Compute the expected calibration error over five bins of equal width (Naeini et al., AAAI 2015)."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = [abs((confidence - sufficient)[bins == place].sum()) for place in range(_BINS)]
    return float(sum(gaps) / len(confidence))


def assess_set(labelled: LabelledSet, settings: Settings) -> pl.DataFrame:
    """Assess a set with all of its documents and with a random half of them.

    Args:
        labelled: The set to assess.
        settings: Settings of retrieval and embedder.

    Returns:
        The columns of :attr:`backstory.operations.evaluation.comparison.Comparison.assessments`, ``set`` and
        ``documents`` (all or half).
    """
    half = np.random.default_rng(_SEED).random(len(labelled.documents)) < 0.5
    thinned = replace(labelled, documents=labelled.documents.filter(pl.Series(half)))
    return pl.concat(
        evaluate_set(part, settings).assessments.with_columns(
            set=pl.lit(labelled.name), documents=pl.lit(documents)
        )
        for documents, part in (("all", labelled), ("half", thinned))
    )


def sample_windows(labelled: LabelledSet, per_group: int) -> LabelledSet:
    """Keep the first ``per_group`` windows of each group of a set, with their labels."""
    groups = [name_group(window_id, labelled.name) for window_id in labelled.windows["window_id"]]
    kept = labelled.windows.filter(pl.int_range(pl.len()).over(pl.Series(groups)) < per_group)
    ids = kept.select("window_id")
    return replace(
        labelled,
        windows=kept,
        messages=labelled.messages.join(
            ids, left_on="conversation_id", right_on="window_id", how="semi", maintain_order="left"
        ),
        qrels=labelled.qrels.join(ids, on="window_id", how="semi", maintain_order="left"),
    )


def tabulate(assessed: pl.DataFrame, min_similarity: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Measure the prediction of each set, with the shipped constants and with constants fitted on the other sets.

    Args:
        assessed: Rows of :func:`assess_set` for any number of sets.
        min_similarity: Threshold that the margins refer to.

    Returns:
        The measurements, one row per set, documents and constants; and the fitted constants, one row for all sets and
        one for each set that is left out.
    """
    features = assessed.select(relative_margin(pl.col("score_margin"), min_similarity)).to_numpy()
    sufficient = (assessed["coverage@5"].to_numpy() >= COVERED).astype(np.float64)
    names = assessed["set"].to_numpy()
    sets = assessed["set"].unique(maintain_order=True).to_list()
    fitted = {"none": fit_constants(features, sufficient)}
    predictions = {"shipped": predict(SHIPPED, features)}
    if len(sets) > 1:
        crossed = np.zeros(len(names))
        for name in sets:
            fitted[name] = fit_constants(features[names != name], sufficient[names != name])
            crossed[names == name] = predict(fitted[name], features[names == name])
        predictions["other sets"] = crossed
    rows = []
    for constants, confidence in predictions.items():
        for (name, documents), part in assessed.with_row_index("row").group_by(
            "set", "documents", maintain_order=True
        ):
            at = part["row"].to_numpy()
            rows.append(
                {"set": name, "documents": documents, "constants": constants}
                | _measure(part, confidence[at], sufficient[at])
            )
    columns = ("intercept", "per_margin")
    weights = [
        {"left_out": name} | dict(zip(columns, row.tolist(), strict=True)) for name, row in fitted.items()
    ]
    return pl.DataFrame(rows), pl.DataFrame(weights)


def _measure(part: pl.DataFrame, confidence: Values, sufficient: Values) -> dict[str, float | int | None]:
    given = part.with_columns(confidence=pl.Series(confidence))
    correlations = {
        f"{method}_{metric}": given.select(pl.corr("confidence", metric, method=method)).fill_nan(None).item()
        for metric in ("coverage@5", "ncov@5")
        for method in ("spearman", "pearson")
    }
    return {
        "windows": len(part),
        "coverage@5": part["coverage@5"].mean(),
        "ncov@5": part["ncov@5"].mean(),
        "sufficient": float(sufficient.mean()),
        "confidence": float(confidence.mean()),
        **correlations,
        "auc": area_under_curve(confidence, sufficient),
        "brier": float(((confidence - sufficient) ** 2).mean()),
        "ece": calibration_error(confidence, sufficient),
    }


def _logistic(values: Values) -> Values:
    result: Values = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sets given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assessment", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="labelled sets")
    parser.add_argument("--per-group", type=int, help="most windows per group of a set (default: all)")
    parser.add_argument("--embedder", choices=["local", "hashing"], default="local")
    parser.add_argument("--rows", type=Path, help="write the assessments of all windows as Parquet")
    given = parser.parse_args(arguments)
    settings = Settings.model_validate({"embedding": {"provider": given.embedder}})
    sets = [read_labelled_set(folder) for folder in given.folders]
    if given.per_group is not None:
        sets = [sample_windows(labelled, given.per_group) for labelled in sets]
    assessed = pl.concat(assess_set(labelled, settings) for labelled in sets)
    if given.rows is not None:
        assessed.write_parquet(given.rows)
    measured, constants = tabulate(assessed, make_embedder(settings.embedding).default_min_similarity)
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, tbl_width_chars=240, float_precision=3, tbl_hide_column_data_types=True
    ):
        print(measured)
        print(constants)


if __name__ == "__main__":
    main()
