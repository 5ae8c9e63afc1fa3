"""Judging of hits: threshold, dedup, strategies, budget, and the original deduplication."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import deduplicate_by_document
from backstory.base.errors import InputError
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.selection.decisions import select_hits
from backstory.retrieval.selection.strategies import FindVectors, VectorSources
from backstory.settings.models import RAGSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Decisions
from tests.builders.hits import make_hits, ten_tokens, weigh_hits
from tests.errors import raises

Hit = tuple[str, str, str, float]  # query chunk, chunk, document, similarity
IDS = {chunk_id: chunk_id for chunk_id in ("a1", "b1", "c1")}
"""Chunks whose texts differ."""


def hits_of(rows: Sequence[Hit], window: str = "w") -> pl.DataFrame:
    names = ("query_chunk_id", "chunk_id", "document_id", "similarity")
    return make_hits((dict(zip(names, row, strict=True)) for row in rows), window_id=window)


def one_hot(chunk_ids: Sequence[str]) -> Vectors:
    """Give each chunk a direction named by its first letter; chunks of one letter and number are equal."""
    vectors = np.zeros((len(chunk_ids), 27), dtype=np.float32)
    for i, chunk_id in enumerate(chunk_ids):
        vectors[i, ord(chunk_id[0]) - ord("a")] = 1.0
        vectors[i, 26] = int(chunk_id[1:2] or 0) / 1000
    return vectors


def far_apart(query_chunk_ids: Sequence[str]) -> Vectors:
    """Give each query chunk a direction of its own."""
    return np.eye(max(len(query_chunk_ids), 1), dtype=np.float32)[: len(query_chunk_ids)]


def judge(
    rows: Sequence[Hit],
    settings: RAGSettings,
    *,
    min_similarity: float = 0.0,
    max_tokens: int = 1000,
    query_vectors: FindVectors | None = None,
    named: Sequence[bool] | None = None,
    shown: Sequence[str] = (),
) -> pl.DataFrame:
    decisions = select_hits(
        weigh_hits(hits_of(rows)),
        settings.model_copy(update={"min_similarity": min_similarity}),
        temperature=0.04,
        vectors=VectorSources(query_vectors or far_apart, one_hot),
        texts={chunk_id: chunk_id.removesuffix(" copy") for _, chunk_id, *_ in rows},
        entry_tokens=ten_tokens,
        max_tokens=max_tokens,
        named=None if named is None else pl.Series(named),
        shown={"w": shown},
    )
    return validate(decisions, Decisions)


def test_the_evidence_of_a_short_message_counts_as_far_as_it_is_probable() -> None:
    rows = [("q1", "a1", "a", 0.80), ("q2", "b1", "b", 0.79), ("q3", "c1", "c", 0.78)]
    probability = {"a1": 0.2, "b1": 0.12, "c1": 0.9}
    weighed = weigh_hits(hits_of(rows)).with_columns(
        probability=pl.col("chunk_id").replace_strict(probability, return_dtype=pl.Float64)
    )
    judged = [
        select_hits(
            weighed.with_columns(is_single=pl.lit(single)),
            RAGSettings(top_k=2, min_similarity=0.0),
            temperature=0.04,
            vectors=VectorSources(far_apart, one_hot),
            texts=IDS,
            entry_tokens=ten_tokens,
            max_tokens=1000,
        )
        for single in (False, True)
    ]
    assert [kept(decisions) for decisions in judged] == [["a1", "b1"], ["c1", "a1"]]


def kept(decisions: pl.DataFrame) -> list[str]:
    return decisions.filter("kept").sort("rank")["chunk_id"].unique(maintain_order=True).to_list()


def cause(decisions: pl.DataFrame, chunk_id: str) -> tuple[str, str | None]:
    row = decisions.filter(pl.col("chunk_id") == chunk_id).row(0, named=True)
    return row["cause"], row["because_of"]


ONE_DOMINANT_TOPIC: list[Hit] = [
    ("q1", "a1", "A", 0.95),
    ("q1", "b1", "B", 0.94),
    ("q1", "c1", "C", 0.93),
    ("q2", "d1", "D", 0.80),
    ("q2", "e1", "E", 0.70),
    ("q3", "f1", "F", 0.75),
]


def test_coverage_serves_every_query_chunk_before_any_twice() -> None:
    decisions = judge(ONE_DOMINANT_TOPIC, RAGSettings(top_k=3))
    assert kept(decisions) == ["d1", "a1", "f1"]


@pytest.mark.parametrize(("strategy", "first"), [("coverage", "b1"), ("similarity", "a1")])
def test_coverage_prefers_the_document_whose_title_is_named(
    strategy: Literal["coverage", "similarity"], first: str
) -> None:
    rows: list[Hit] = [("q1", "a1", "A", 0.85), ("q1", "b1", "B", 0.80)]
    decisions = judge(rows, RAGSettings(top_k=1, strategy=strategy), named=[False, True])
    assert kept(decisions) == [first]
    assert decisions["score"].to_list() == [0.85, 0.80]


def test_a_near_duplicate_passes_the_naming_of_its_title_on() -> None:
    rows: list[Hit] = [("q", "a1", "A", 0.84), ("q", "b1", "B", 0.86), ("q", "a2", "C", 0.80)]
    settings = RAGSettings(top_k=1, near_duplicate_similarity=0.95)
    assert kept(judge(rows, settings)) == ["b1"]
    assert kept(judge(rows, settings, named=[False, False, True])) == ["a1"]


def test_what_repeats_a_shown_chunk_takes_no_other_with_it() -> None:
    rows: list[Hit] = [("q1", "a1", "A", 0.9), ("q2", "b1", "B", 0.8), ("q2", "c1", "C", 0.7)]
    settings = RAGSettings(top_k=1, near_duplicate_similarity=0.95)
    decisions = judge(rows, settings, shown=["a9"])
    assert kept(decisions) == ["b1"]
    assert cause(decisions, "a1") == ("near_duplicate", "a9")


def test_similarity_lets_one_topic_take_every_place() -> None:
    decisions = judge(ONE_DOMINANT_TOPIC, RAGSettings(top_k=3, strategy="similarity"))
    assert kept(decisions) == ["a1", "b1", "c1"]


def test_coverage_fills_up_in_further_rounds() -> None:
    decisions = judge(ONE_DOMINANT_TOPIC, RAGSettings(top_k=6))
    assert kept(decisions)[:3] == ["d1", "a1", "f1"]
    assert set(kept(decisions)) == {"a1", "b1", "c1", "d1", "e1", "f1"}


def test_chunks_of_one_text_take_one_place() -> None:
    rows: list[Hit] = [
        ("q", "a1", "A", 0.9),
        ("q", "a1 copy", "B", 0.9),
        ("q", "a2", "C", 0.8),
        ("q", "b1", "D", 0.7),
    ]
    decisions = judge(rows, RAGSettings(top_k=3, strategy="similarity"))
    assert kept(decisions) == ["a1", "a2", "b1"]
    assert cause(decisions, "a1 copy") == ("near_duplicate", "a1")


def test_mmr_trades_relevance_for_difference() -> None:
    rows: list[Hit] = [("q", "a1", "A", 0.9), ("q", "a2", "B", 0.89), ("q", "z1", "Z", 0.5)]
    assert kept(judge(rows, RAGSettings(top_k=2, strategy="mmr", mmr_lambda=1.0))) == ["a1", "a2"]
    assert kept(judge(rows, RAGSettings(top_k=2, strategy="mmr", mmr_lambda=0.3))) == ["a1", "z1"]


def test_hits_below_the_threshold_are_dropped_with_their_cause() -> None:
    decisions = judge([("q", "a1", "A", 0.7), ("q", "b1", "B", 0.69)], RAGSettings(), min_similarity=0.7)
    assert kept(decisions) == ["a1"]
    assert cause(decisions, "b1") == ("below_threshold", None)


@pytest.mark.parametrize(("limit", "expected"), [(1, ["a1", "b1"]), (2, ["a1", "a2", "b1"])])
def test_at_most_n_chunks_of_a_document_are_kept(limit: int, expected: list[str]) -> None:
    rows: list[Hit] = [
        ("q", "a1", "A", 0.9),
        ("q", "a2", "A", 0.8),
        ("q", "a3", "A", 0.7),
        ("q", "b1", "B", 0.6),
    ]
    decisions = judge(rows, RAGSettings(dedup_max_per_doc=limit, strategy="similarity"))
    assert kept(decisions) == expected
    assert cause(decisions, "a3") == ("duplicate_document", "a1")


def test_dedup_can_be_switched_off() -> None:
    rows: list[Hit] = [("q", "a1", "A", 0.9), ("q", "a2", "A", 0.8)]
    assert kept(judge(rows, RAGSettings(dedup_strategy="none", strategy="similarity"))) == ["a1", "a2"]


def test_near_duplicates_give_way_to_the_better_chunk() -> None:
    rows: list[Hit] = [("q", "a1", "A", 0.9), ("q", "a2", "B", 0.8), ("q", "z1", "Z", 0.7)]
    decisions = judge(rows, RAGSettings(near_duplicate_similarity=0.99))
    assert kept(decisions) == ["a1", "z1"]
    assert cause(decisions, "a2") == ("near_duplicate", "a1")


def test_what_asked_for_a_near_duplicate_is_served_by_the_chunk_that_stands_for_it() -> None:
    rows: list[Hit] = [
        ("q1", "a1", "A", 0.9),
        ("q2", "a2", "B", 0.85),
        ("q3", "z1", "Z", 0.7),
        ("q3", "y1", "Y", 0.6),
    ]
    decisions = judge(rows, RAGSettings(top_k=2, near_duplicate_similarity=0.99))
    assert kept(decisions) == ["a1", "z1"]


def test_what_found_another_chunk_of_a_document_is_served_by_the_chunk_that_stands_for_it() -> None:
    rows: list[Hit] = [
        ("q1", "a1", "A", 0.9),
        ("q2", "b1", "B", 0.85),
        ("q3", "z1", "Z", 0.8),
    ]
    assert kept(judge(rows, RAGSettings(top_k=2))) == ["a1", "b1"]
    decisions = judge([*rows, ("q2", "c1", "A", 0.86)], RAGSettings(top_k=2))
    assert kept(decisions) == ["a1", "z1"]
    assert cause(decisions, "c1") == ("duplicate_document", "a1")


def test_query_chunks_that_ask_alike_are_one_part_of_the_window() -> None:
    # Two messages of one topic point to two documents, and a third message to another topic.
    rows: list[Hit] = [("m1", "a1", "A", 0.9), ("m2", "b1", "B", 0.89), ("n1", "c1", "C", 0.85)]
    assert kept(judge(rows, RAGSettings(top_k=2))) == ["a1", "b1"]
    assert kept(judge(rows, RAGSettings(top_k=2), query_vectors=one_hot)) == ["a1", "c1"]
    assert kept(judge(rows, RAGSettings(top_k=3), query_vectors=one_hot)) == ["a1", "c1", "b1"]


def test_the_token_budget_drops_what_comes_last() -> None:
    decisions = judge(ONE_DOMINANT_TOPIC, RAGSettings(top_k=3), max_tokens=25)
    assert kept(decisions) == ["d1", "a1"]
    assert cause(decisions, "f1") == ("over_budget", None)


def test_windows_are_judged_apart() -> None:
    frame = pl.concat([hits_of([("q1", "a1", "A", 0.9)], "w1"), hits_of([("q2", "a1", "A", 0.8)], "w2")])
    decisions = select_hits(
        weigh_hits(frame),
        RAGSettings(),
        temperature=0.04,
        vectors=VectorSources(far_apart, one_hot),
        texts=IDS,
        entry_tokens=ten_tokens,
        max_tokens=100,
    )
    assert decisions["kept"].to_list() == [True, True]
    assert decisions["rank"].to_list() == [1, 1]


def test_improbable_hits_are_dropped_with_a_higher_bar_in_short_windows() -> None:
    many = [(f"q{i}", "a1", "A", 0.9) for i in range(10)]
    for rows, probability, cause in (
        (many, 0.02, "kept"), (many, 0.019, "below_threshold"), (many[:9], 0.1, "kept"),
        (many[:9], 0.099, "below_threshold"),
    ):  # fmt: skip
        decisions = select_hits(
            weigh_hits(hits_of(rows)).with_columns(probability=pl.lit(probability)),
            RAGSettings(),
            temperature=0.04,
            vectors=VectorSources(far_apart, one_hot),
            texts=IDS,
            entry_tokens=ten_tokens,
            max_tokens=100,
        )
        assert set(decisions["cause"]) == {cause}
        assert set(decisions["probability"]) == {probability}


def test_the_prior_of_a_document_multiplies_its_evidence() -> None:
    rows = [("q1", "a1", "A", 0.82), ("q1", "b1", "B", 0.80)]
    for prior, first in ((1.0, "a1"), (3.0, "b1")):
        decisions = select_hits(
            weigh_hits(hits_of(rows)).with_columns(prior=pl.Series([1.0, prior])),
            RAGSettings(top_k=1),
            temperature=0.04,
            vectors=VectorSources(far_apart, one_hot),
            texts=IDS,
            entry_tokens=ten_tokens,
            max_tokens=100,
        )
        assert kept(decisions) == [first]


def test_no_hits_give_no_decisions() -> None:
    assert judge([], RAGSettings()).is_empty()


random_hits = st.lists(
    st.tuples(
        st.sampled_from(["q1", "q2", "q3"]),
        st.sampled_from(["a1", "a2", "b1", "c1", "d1", "e1"]),
        st.floats(-1, 1, width=32),
    ),
    unique_by=lambda hit: (hit[0], hit[1]),
    max_size=18,
)


@given(
    random_hits,
    st.sampled_from(["coverage", "similarity", "mmr"]),
    st.sampled_from([None, 0.99]),
    st.integers(1, 4),
)
def test_every_hit_is_judged_once_and_consistently(
    hits: list[tuple[str, str, float]], strategy: str, near: float | None, top_k: int
) -> None:
    rows = [(query, chunk, chunk[0].upper(), similarity) for query, chunk, similarity in hits]
    settings = RAGSettings.model_validate(
        {"strategy": strategy, "near_duplicate_similarity": near, "top_k": top_k}
    )
    decisions = judge(rows, settings, min_similarity=0.2, max_tokens=35)
    assert decisions.select("query_chunk_id", "chunk_id").rows() == [(row[0], row[1]) for row in rows]
    chosen = decisions.filter("kept")
    assert chosen["chunk_id"].n_unique() <= min(top_k, 3)
    assert chosen["document_id"].n_unique() == chosen["chunk_id"].n_unique()
    assert (chosen["similarity"] >= 0.2).all()
    ranks = chosen.select("chunk_id", "rank").unique()["rank"].sort().to_list()
    assert ranks == list(range(1, len(ranks) + 1))
    if any(row[3] >= 0.2 for row in rows):
        assert len(ranks) >= 1


def test_the_original_keeps_the_best_of_each_document() -> None:
    results: list[dict[str, object]] = [
        {"document_id": "post-123", "similarity": 0.85, "content": "chunk 1"},
        {"document_id": "post-456", "similarity": 0.88, "content": "chunk 0"},
        {"document_id": "post-123", "similarity": 0.90, "content": "chunk 0"},
        {"document_id": "post-123", "content": "no similarity"},
    ]
    assert [row["content"] for row in deduplicate_by_document(results)] == ["chunk 0", "chunk 0"]
    assert [row.get("similarity") for row in deduplicate_by_document(results, n=2)] == [0.9, 0.85, 0.88]
    assert [row.get("similarity") for row in deduplicate_by_document(results, n=3)] == [0.9, 0.85, None, 0.88]


def test_the_original_drops_results_without_a_document() -> None:
    results: list[dict[str, object]] = [{"similarity": 0.9}, {"document_id": None}, {"document_id": ""}]
    assert deduplicate_by_document(results) == []
    assert deduplicate_by_document([]) == []


def test_the_original_is_stable_and_leaves_its_input_alone() -> None:
    results = [{"document_id": "a", "similarity": 0.5, "place": place} for place in range(3)]
    assert [row["place"] for row in deduplicate_by_document(results, n=2)] == [0, 1]
    assert len(results) == 3


def test_the_original_refuses_to_keep_nothing() -> None:
    with raises(InputError, "out_of_range", "n"):
        deduplicate_by_document([], n=0)
