import numpy as np
import pytest

from backstory.models.embeddings.hashing import HashingEmbedder


def similarity(left: str, right: str) -> float:
    one, two = HashingEmbedder().embed([left, right], task="query")
    return float(one @ two)


def test_texts_with_the_same_words_are_alike() -> None:
    assert similarity("Night train to Lisbon", "to LISBON, night train!") == pytest.approx(1)
    assert similarity("night train to Lisbon", "the night train") > similarity("night train", "kale soup")


def test_vectors_are_the_same_on_every_machine() -> None:
    (vector,) = HashingEmbedder().embed(["soup soup train"], task="document")

    places = {int(place): round(float(vector[place]), 6) for place in np.flatnonzero(vector)}
    assert places == {78: 0.447214, 197: 0.894427}


def test_every_ideograph_is_a_word() -> None:
    assert HashingEmbedder().count_tokens(["日本語", "night train", "東京 train", "", "!?"]).tolist() == [
        3,
        2,
        3,
        1,
        1,
    ]
