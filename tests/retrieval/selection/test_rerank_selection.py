"""The selection by judgements: every topic before any twice, and what errors of the rater may change."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.models.embeddings.protocol import Vectors
from backstory.models.reranker import PROBABILITY, RATING, Judgements, Topic
from backstory.models.reranking import Shortlist
from backstory.retrieval.selection.rerank_selection import Order, cover_topics, order_judged
from backstory.retrieval.selection.strategies import VectorSources

CHUNKS = ["a", "b", "c", "d"]


def order(rows: Sequence[Sequence[float]], count: int = 3) -> Order:
    topics = tuple(Topic(f"topic {place}", ()) for place in range(len(rows)))
    judged = Judgements(topics, np.array(rows, np.float64), RATING)
    listed = Shortlist([], CHUNKS, np.empty((0, len(CHUNKS))))
    return order_judged(judged, listed, count, NO_VECTORS)


def unused(ids: Sequence[str]) -> Vectors:
    raise AssertionError(ids)


NO_VECTORS = VectorSources(unused, unused)


def test_every_topic_is_served_before_any_twice() -> None:
    assert order([[5, 5, 5, 0], [0, 0, 0, 3]]).chunk_ids == ("a", "d", "b")


def test_no_better_document_of_a_served_topic_comes_before_another_topic() -> None:
    assert order([[3, 5, 5, 0], [0, 0, 0, 3]], count=2).chunk_ids == ("b", "d")
    assert order([[3, 0, 5, 0], [4, 0, 0, 4]], count=2).chunk_ids == ("a", "c")


def test_what_serves_no_topic_is_rejected() -> None:
    assert order([[2, 0, 5, 2], [0, 1, 0, 2]]) == Order(("c",), ("a", "b", "d"))
    assert order([[0, 0, 2, 2]]) == Order((), tuple(CHUNKS))


def test_equal_ratings_keep_the_order_of_the_selection() -> None:
    assert order([[5, 5, 5, 5]], count=4).chunk_ids == tuple(CHUNKS)


def test_a_document_that_is_said_to_serve_everything_does_not_beat_a_better_found_one() -> None:
    assert order([[5, 0, 0, 5], [0, 5, 0, 5], [0, 0, 0, 5]], count=1).chunk_ids == ("a",)


def test_without_judgements_the_order_is_kept() -> None:
    listed = Shortlist([], CHUNKS, np.empty((0, 4)))
    kept = order_judged(Judgements.withheld(4, RATING, "cut (length)"), listed, 2, NO_VECTORS)
    assert kept == Order(tuple(CHUNKS))


def test_query_chunks_about_the_same_count_less() -> None:
    # Two query chunks ask for a and b, another one for c, with less certainty.
    values = np.array([[0.9, 0.8, 0.1, 0.1], [0.8, 0.9, 0.1, 0.1], [0.1, 0.1, 0.5, 0.1]])
    rows = tuple(Topic("", (f"q{place}",)) for place in range(3))
    judged = Judgements(rows, values, PROBABILITY)
    listed = Shortlist(["q0", "q1", "q2"], CHUNKS, np.ones((3, 4)))
    vectors = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    chosen = order_judged(judged, listed, 2, VectorSources(lambda _: vectors, unused))
    assert chosen == Order(("a", "c"))


@given(
    st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5),
    st.integers(1, 8),
)
def test_a_rater_without_errors_serves_as_many_topics_as_there_are_places(
    relevant: list[list[bool]], count: int
) -> None:
    right = np.array(relevant)
    serving = np.flatnonzero(right.any(axis=0))
    if not serving.size:
        return
    evidence = right[:, serving].astype(np.float64)
    places = min(count, len(serving))
    chosen = cover_topics(evidence, places, weights=5 / (5 + serving))
    assert len(set(chosen.tolist())) == places
    covered = int(evidence[:, chosen].any(axis=1).sum())
    assert covered >= min(int(right.any(axis=1).sum()), places)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_longer_choice_begins_with_every_shorter_one(count: int) -> None:
    evidence = np.random.default_rng(7).choice([0.0, 0.6, 0.8, 1.0], size=(5, 4))
    weights = np.ones(4)
    whole = cover_topics(evidence, 4, weights=weights)
    assert cover_topics(evidence, count, weights=weights).tolist() == whole[:count].tolist()
