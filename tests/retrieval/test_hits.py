"""Query plans: which queries are asked for each window."""

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

from backstory.base.errors import InputError
from backstory.retrieval.hits import Queries, mean_vectors, plan_queries
from backstory.settings.models import RAGSettings
from tests.errors import raises

VECTORS = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32)


def windows() -> pl.DataFrame:
    start = datetime(2025, 1, 15, tzinfo=UTC)
    return pl.DataFrame(
        {
            "window_id": ["big", "small"],
            "conversation_id": ["garden", "moths"],
            "started_at": [start] * 2,
            "message_count": [200, 3],
        }
    )


def chunks() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "chunk_id": ["b0", "b1", "s0"],
            "window_id": ["big", "big", "small"],
            "text": ["one", "two", "three"],
        }
    )


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("chunked", ["b0", "b1", "s0"]),
        ("hybrid", ["b0", "b1", "s0", "big#window", "small#window"]),
        ("adaptive", ["b0", "b1", "small#window"]),
    ],
)
def test_a_plan_decides_what_is_asked(plan: str, expected: list[str]) -> None:
    settings = RAGSettings.model_validate({"plan": plan, "adaptive_max_messages": 100})
    queries = plan_queries(windows(), chunks(), VECTORS, settings)
    assert queries.frame["query_chunk_id"].to_list() == expected
    assert queries.vectors.shape == (len(expected), 2)


def test_a_whole_window_is_asked_with_the_mean_of_its_chunks_and_all_its_text() -> None:
    queries = plan_queries(windows(), chunks(), VECTORS, RAGSettings(plan="hybrid"))
    assert queries.vectors[3].tolist() == pytest.approx([2**-0.5, 2**-0.5])
    assert queries.frame["text"][3] == "one\n\ntwo"


def test_means_are_unit_vectors_and_opposite_vectors_have_none() -> None:
    keys, means = mean_vectors(
        pl.Series(["b", "a", "b", "c", "c"]),
        np.array([[3, 0], [0, 2], [0, 3], [1, 0], [-1, 0]], dtype=np.float32),
    )
    assert keys.to_list() == ["b", "a", "c"]
    assert np.linalg.norm(means, axis=1).tolist() == pytest.approx([1, 1, 0])


def test_no_windows_ask_nothing() -> None:
    queries = plan_queries(windows(), chunks().clear(), VECTORS[:0], RAGSettings(plan="hybrid"))
    assert len(queries.frame) == 0


def test_a_query_of_other_settings_is_named() -> None:
    frame = pl.DataFrame({"query_chunk_id": ["a"], "window_id": ["w"], "text": ["t"], "as_of": [None]})
    queries = Queries(frame, np.ones((1, 4), np.float32))
    assert queries.vectors_of(["a", "a"]).shape == (2, 4)
    with raises(InputError, "unknown_query"):
        queries.vectors_of(["w#whole"])
