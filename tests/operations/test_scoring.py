"""Scores against figures worked out by hand."""

import math

import polars as pl
import pytest

from backstory.operations.scoring import METRICS, compare_methods, name_group, score_runs

QRELS = pl.DataFrame(
    {
        "window_id": ["s-n2-001"] * 4 + ["s-n2-002"],
        "doc_id": ["a", "b", "c", "c", "z"],
        "rel": [2, 1, 1, 1, 1],
        "topic": ["t1", "t1", "t2", "t3", "t1"],
    }
)


def runs(documents: list[str], method: str = "m", window: str = "s-n2-001") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "method": [method] * len(documents),
            "window_id": [window] * len(documents),
            "rank": list(range(1, len(documents) + 1)),
            "doc_id": documents,
        },
        schema={"method": pl.String, "window_id": pl.String, "rank": pl.Int64, "doc_id": pl.String},
    )


def scores_of(documents: list[str]) -> dict[str, float]:
    scores = score_runs(runs(documents), QRELS, name="set")
    return scores.filter(pl.col("window_id") == "s-n2-001").row(0, named=True)


def test_metrics_follow_the_protocol() -> None:
    scores = scores_of(["x", "c", "b"])
    assert scores["coverage@5"] == pytest.approx(3 / 3)
    assert scores["ncov@5"] == pytest.approx(3 / 3)
    assert scores["recall@10"] == pytest.approx(2 / 3)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert scores["ndcg@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(4)) / ideal)
    assert (scores["success@1"], scores_of(["c", "x"])["success@1"]) == (0, 1)


def test_only_the_first_five_cover_and_the_first_ten_count() -> None:
    late = scores_of(["v", "w", "x", "y", "u", "a"])
    assert late["coverage@5"] == 0
    assert late["recall@10"] == pytest.approx(1 / 3)
    fillers = [str(n) for n in range(10)]
    tenth, eleventh = scores_of([*fillers[:9], "a"]), scores_of([*fillers, "a"])
    assert tenth["recall@10"] == pytest.approx(1 / 3)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert tenth["ndcg@10"] == pytest.approx(2 / math.log2(11) / ideal)
    assert eleventh["recall@10"] == eleventh["ndcg@10"] == 0


def test_ten_relevant_documents_in_ten_places_are_the_ideal() -> None:
    documents = list("abcdefghijk")
    qrels = pl.DataFrame({"window_id": ["w"] * 11, "doc_id": documents, "rel": [1] * 11, "topic": ["t"] * 11})
    score = score_runs(runs(documents[:10], window="w"), qrels, name="set").row(0, named=True)
    assert score["ndcg@10"] == pytest.approx(1)


def test_the_highest_label_of_a_document_is_its_gain() -> None:
    qrels = pl.DataFrame(
        {"window_id": ["w"] * 3, "doc_id": ["a", "a", "b"], "rel": [1, 3, 2], "topic": ["t1", "t2", "t1"]}
    )
    score = score_runs(runs(["b", "a"], window="w"), qrels, name="set").row(0, named=True)
    assert score["ndcg@10"] == pytest.approx((2 + 3 / math.log2(3)) / (3 + 2 / math.log2(3)))


def test_covered_topics_are_measured_against_what_five_places_can_cover() -> None:
    qrels = pl.DataFrame(
        {"window_id": ["w"] * 10, "doc_id": list("abcdefghij"), "rel": [1] * 10, "topic": list("abcdefghij")}
    )
    score = score_runs(runs(list("abcde"), window="w"), qrels, name="set").row(0, named=True)
    assert (score["ncov@5"], score["coverage@5"]) == (1.0, 0.5)


def test_a_window_without_an_answer_scores_zero_and_is_not_left_out() -> None:
    scores = score_runs(runs(["a"]), QRELS, name="set")
    assert scores["window_id"].to_list() == ["s-n2-001", "s-n2-002"]
    assert scores.row(1, named=True)["ncov@5"] == 0


@pytest.mark.parametrize(
    ("window_id", "group"),
    [
        ("mix-n5-017", "mix-n5"),
        ("de-003", "de"),
        ("optech-2022-07-27", "set"),
        ("q/66", "set"),
        ("Bmr012", "set"),
    ],
)
def test_the_group_is_the_prefix_of_the_id(window_id: str, group: str) -> None:
    assert name_group(window_id, "set") == group


def test_methods_are_compared_over_the_same_windows() -> None:
    both = pl.concat([runs(["a", "c"], "own"), runs(["b"], "base"), runs(["z"], "base", "s-n2-002")])
    table = compare_methods(score_runs(both, QRELS, name="set"), of="own")
    assert table["metric"].unique().sort().to_list() == sorted(METRICS)
    own = table.filter((pl.col("method") == "own") & (pl.col("metric") == "ncov@5")).row(0, named=True)
    base = table.filter((pl.col("method") == "base") & (pl.col("metric") == "ncov@5")).row(0, named=True)
    assert own["mean"] == pytest.approx(0.5)
    assert base["gain"] == pytest.approx(own["mean"] - base["mean"])
    assert base["gain_low"] <= base["gain"] <= base["gain_high"]
    assert table.equals(compare_methods(score_runs(both, QRELS, name="set"), of="own"))


def test_the_interval_holds_the_mean_of_19_in_20_resamples() -> None:
    scores = pl.DataFrame({"method": ["own"] * 100, "group": ["set"] * 100, "window_id": map(str, range(100)),
                           "ncov@5": [0.0, 1.0] * 50})  # fmt: skip
    row = compare_methods(scores, of="own", metrics=["ncov@5"]).row(0, named=True)
    # The quantiles of a binomial distribution of 100 throws of a coin; those of 9 in 10 are 42 and 58.
    assert (row["low"], row["high"]) == (pytest.approx(0.40, abs=0.005), pytest.approx(0.60, abs=0.005))
