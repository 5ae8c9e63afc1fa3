"""Shared words and phrases, against the plain computation by sets."""

from itertools import pairwise

import numpy as np
import pytest

from backstory.index.keywords import IndexedWords
from backstory.retrieval.evidence.shared_words import list_phrases, list_words, weigh_shared

WIDTH = 12
RARITY = np.linspace(0.05, 1.0, WIDTH)


def make_texts(seed: int) -> list[list[int]]:
    """Make texts of word numbers, some of them without words."""
    random = np.random.default_rng(seed)
    return [random.integers(0, WIDTH, length).tolist() for length in random.integers(0, 9, 7)]


def tabulate(texts: list[list[int]]) -> IndexedWords:
    term = np.array([term for terms in texts for term in terms], np.int64)
    return IndexedWords(np.cumsum([0, *map(len, texts)]), term, RARITY[term])


@pytest.mark.parametrize("of", ["words", "phrases"])
def test_the_weight_is_that_of_the_common_words(of: str) -> None:
    for seed in range(20):
        left, right = make_texts(seed), make_texts(seed + 100)
        random = np.random.default_rng(seed)
        left_rows = random.integers(-1, len(left), 30)
        right_rows = random.integers(0, len(right), 30)
        words = [tabulate(left), tabulate(right)]
        lists = [list_words(each) if of == "words" else list_phrases(each, WIDTH) for each in words]

        def weigh(terms: list[int]) -> dict[tuple[int, ...], float]:
            if of == "words":
                return {(term,): float(RARITY[term]) for term in terms}
            return {pair: float(RARITY[list(pair)].mean()) for pair in pairwise(terms)}

        sums, most = weigh_shared(lists[0], left_rows, lists[1], right_rows)
        for pair, (one, other) in enumerate(zip(left_rows, right_rows, strict=True)):
            ours, theirs = weigh(left[one]) if one >= 0 else {}, weigh(right[other])
            shared = [ours[key] for key in ours.keys() & theirs.keys()]
            assert sums[pair] == pytest.approx(sum(shared)), (seed, pair)
            assert most[pair] == pytest.approx(max(shared, default=0.0)), (seed, pair)
        for texts, listed in zip((left, right), lists, strict=True):
            assert listed.sum_rarity() == pytest.approx([sum(weigh(terms).values()) for terms in texts])
