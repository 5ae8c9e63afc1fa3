"""What must hold of every embedder, whatever model stands behind it."""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory.base.errors import InputError
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.models.embeddings.local_embedder import LocalEmbedder
from backstory.models.embeddings.protocol import Embedder
from backstory.models.embeddings.service_embedder import GeminiEmbedder, ServiceEmbedder
from tests.errors import raises
from tests.long_tests import some

TEXTS = [
    "Shall we take the night train to Lisbon in May?",
    "The borrow checker rejects the second mutable reference.",
    "Caldo verde: kale, potatoes, chouriço.",
    "日本語のメッセージ 🙂",
    "ok",
    " ".join(["a longer message about trains and soup"] * 20),
]


@pytest.fixture(params=["local", "gemini", "openai", "multilingual", "hashing"])
def embedder(
    request: pytest.FixtureRequest,
    granite: LocalEmbedder,
    connect: Callable[..., GeminiEmbedder],
    connect_openai: Callable[..., ServiceEmbedder],
    tiny_e5: LocalEmbedder,
) -> Embedder:
    makers: dict[str, Callable[[], Embedder]] = {
        "local": lambda: granite,
        "gemini": connect,
        "openai": connect_openai,
        "multilingual": lambda: tiny_e5,
        "hashing": HashingEmbedder,
    }
    return makers[request.param]()


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    vectors = embedder.embed([], task="query")

    assert vectors.shape == (0, embedder.dimension)
    assert vectors.dtype == np.float32
    assert embedder.count_tokens([]).shape == (0,)
    assert embedder.plan_batches(embedder.count_tokens([])) == []


def test_rows_are_of_length_one(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, task="document")

    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_text_has_the_same_vector_in_any_order_and_alone(embedder: Embedder) -> None:
    forwards = embedder.embed(TEXTS, task="document")
    backwards = embedder.embed(TEXTS[::-1], task="document")

    alone = np.concatenate([embedder.embed([text], task="document") for text in TEXTS])

    np.testing.assert_allclose(forwards, backwards[::-1], atol=1e-6)
    np.testing.assert_allclose(forwards, alone, atol=1e-6)
    assert len(np.unique(forwards.round(4), axis=0)) == len(TEXTS)


def test_a_text_over_the_limit_is_refused_and_counted(embedder: Embedder) -> None:
    text = "word " * (embedder.max_input_tokens + 1)
    count = embedder.count_tokens([text])[0]

    with raises(InputError, "too_long", 1, 1, count, embedder.max_input_tokens):
        embedder.embed(["fine", text], task="document")


@pytest.mark.parametrize("character", ["a", "["])
def test_a_very_long_word_is_over_the_limit(embedder: Embedder, character: str) -> None:
    counts = embedder.count_tokens(["pump", character * some(1_000_000), "pump"])

    assert counts[1] > embedder.max_input_tokens
    assert counts[0] == counts[2] == embedder.count_tokens(["pump"])[0]


def test_the_longest_text_within_the_limit_is_embedded(embedder: Embedder) -> None:
    limit = embedder.max_input_tokens
    above = bisect_right(
        range(limit + 1), limit, key=lambda number: embedder.count_tokens(["word " * number])[0]
    )

    vectors = embedder.embed(["word " * (above - 1)], task="document")

    assert vectors.shape == (1, embedder.dimension)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.integers(0, 600), max_size=300))
def test_batches_hold_each_position_exactly_once(embedder: Embedder, counts: list[int]) -> None:
    batches = embedder.plan_batches(np.array(counts, np.int64))

    assert sorted(position for batch in batches for position in batch) == list(range(len(counts)))
    assert all(len(batch) for batch in batches)


def test_the_id_names_provider_and_width(embedder: Embedder) -> None:
    provider, *_, width = embedder.id.split(":")

    assert provider in ("local", "gemini", "openai", "hashing")
    assert int(width) == embedder.dimension
    assert embedder.workers >= 1
    assert 0 <= embedder.default_min_similarity < 1
    assert 0 < embedder.default_query_tokens < embedder.max_input_tokens
