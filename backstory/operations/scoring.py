"""Scores of ranked lists, and confidence intervals of the differences between methods."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

METRICS = ("ncov@5", "coverage@5", "recall@10", "ndcg@10", "success@1")

_GROUP = re.compile(r"^(.+-n\d+|[a-z]{2})-\d+$")
_RESAMPLES = 2000
_SEED = 20240101


def name_group(window_id: str, name: str) -> str:
    """Return the group of a window: the prefix of an id like ``mix-n5-017`` or ``de-003``, otherwise the set's name."""
    match = _GROUP.match(window_id)
    return match.group(1) if match else name


def score_runs(
    runs: pl.DataFrame, qrels: pl.DataFrame, *, name: str, methods: Sequence[str] | None = None
) -> pl.DataFrame:
    """Score one ranked list of documents per window and method.

    ``coverage@5`` is the share of a window's topics with a relevant document among the first 5, and ``ncov@5``
    divides the covered topics by min(5, topics). ``recall@10`` is the share of the relevant documents among the
    first 10. ``ndcg@10`` takes ``rel`` as the gain and log2(rank + 1) as the discount (Järvelin and Kekäläinen,
    2002). ``success@1`` is 1 if the first document is relevant, else 0.

    The runs have the columns ``method``, ``window_id``, ``rank`` (from 1) and ``doc_id``; the labels ``window_id``,
    ``doc_id``, ``rel`` and ``topic``. There is a row for every method and every labelled window, with its ``group``. A
    window for which a method found nothing scores 0.
    """
    labels = qrels.group_by("window_id", "doc_id").agg(pl.col("rel").max())
    ideal = (
        labels.sort("window_id", "rel", descending=[False, True])
        .with_columns(place=pl.int_range(1, pl.len() + 1).over("window_id"))
        .filter(pl.col("place") <= 10)
        .group_by("window_id")
        .agg(ideal=(pl.col("rel") / (pl.col("place") + 1).log(2)).sum())
    )
    totals = (
        qrels.group_by("window_id")
        .agg(topics=pl.col("topic").n_unique(), relevant=pl.col("doc_id").n_unique())
        .join(ideal, on="window_id")
    )
    found = runs.join(labels, on=["window_id", "doc_id"])
    ranked = found.group_by("method", "window_id").agg(
        found=(pl.col("rank") <= 10).sum(),
        gain=(pl.col("rel") / (pl.col("rank") + 1).log(2)).filter(pl.col("rank") <= 10).sum(),
        first=(pl.col("rank") == 1).sum(),
    )
    covered = (
        runs.filter(pl.col("rank") <= 5)
        .join(qrels, on=["window_id", "doc_id"])
        .group_by("method", "window_id")
        .agg(covered=pl.col("topic").n_unique())
    )
    keys = ["method", "window_id"]
    every = runs["method"].unique(maintain_order=True) if methods is None else pl.Series("method", methods)
    scores = (
        every.to_frame()
        .join(totals, how="cross")
        .join(ranked, on=keys, how="left", maintain_order="left")
        .join(covered, on=keys, how="left", maintain_order="left")
        .with_columns(pl.col("found", "gain", "first", "covered").fill_null(0))
    )
    groups = {window_id: name_group(window_id, name) for window_id in scores["window_id"].unique()}
    return scores.select(
        "method",
        pl.col("window_id").replace_strict(groups, return_dtype=pl.String).alias("group"),
        "window_id",
        (pl.col("covered") / pl.min_horizontal(pl.lit(5), "topics")).alias("ncov@5"),
        (pl.col("covered") / pl.col("topics")).alias("coverage@5"),
        (pl.col("found") / pl.col("relevant")).alias("recall@10"),
        (pl.col("gain") / pl.col("ideal")).alias("ndcg@10"),
        pl.col("first").cast(pl.Float64).alias("success@1"),
    ).sort("group", "window_id", "method")


def compare_methods(scores: pl.DataFrame, *, of: str, metrics: Sequence[str] = METRICS) -> pl.DataFrame:
    """Compare one method with the others, group by group, over the same windows.

    There is a row per group, method and metric: ``mean``, its 95 % bootstrap interval ``low`` to ``high``, and for the
    other methods ``gain`` (mean of ``of`` minus theirs) with its paired interval ``gain_low`` to ``gain_high``.
    """
    rows: list[tuple[object, ...]] = []
    methods = [of, *sorted(set(scores["method"]) - {of})]
    for (group,), part in scores.group_by("group", maintain_order=True):
        for metric in metrics:
            table = part.pivot(on="method", index="window_id", values=metric)
            values = {method: table[method].to_numpy() for method in methods}
            for method in methods:
                gain = values[of] - values[method]
                gained = (None,) * 3 if method == of else bound_mean(gain)
                rows.append((group, method, metric, len(table), *bound_mean(values[method]), *gained))
    texts = dict.fromkeys(("group", "method", "metric"), pl.String)
    floats = dict.fromkeys(("mean", "low", "high", "gain", "gain_low", "gain_high"), pl.Float64)
    return pl.DataFrame(rows, schema={**texts, "windows": pl.Int64, **floats}, orient="row")


def resample_windows(count: int) -> NDArray[np.int64]:
    """Draw the resamples of a bootstrap over windows from a fixed seed, shape ``(resamples, count)``."""
    return np.random.default_rng(_SEED).integers(0, count, size=(_RESAMPLES, count))


def bound_mean(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean of some values, and the ends of its 95 % bootstrap interval."""
    low, high = np.quantile(values[resample_windows(len(values))].mean(axis=1), [0.025, 0.975]).tolist()
    return float(values.mean()), low, high


def area_under_curve(confidence: NDArray[np.float64], positive: NDArray[np.float64]) -> float | None:
    """Compute the probability that a positive case has more confidence than a negative one (ties: half).

    This is the area under the receiver operating characteristic (Mann and Whitney, 1947); None without both kinds.
    """
    is_positive = positive > 0
    pairs = int(is_positive.sum()) * int((~is_positive).sum())
    if not pairs:
        return None
    ranks = pl.Series(confidence).rank("average").to_numpy()
    return float((ranks[is_positive].sum() - is_positive.sum() * (is_positive.sum() + 1) / 2) / pairs)


def bound_area(
    confidence: NDArray[np.float64], positive: NDArray[np.float64]
) -> tuple[float, float, float] | None:
    """Return the area, and the ends of its 95 % bootstrap interval; resamples without both kinds are left out."""
    area = area_under_curve(confidence, positive)
    if area is None:
        return None
    drawn = (
        area_under_curve(confidence[sample], positive[sample]) for sample in resample_windows(len(positive))
    )
    low, high = np.quantile([one for one in drawn if one is not None], [0.025, 0.975]).tolist()
    return area, low, high
