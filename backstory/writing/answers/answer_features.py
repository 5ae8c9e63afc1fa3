"""What is measured of a sentence and of a quote before a question: the features of the models of answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.ids import is_written
from backstory.retrieval.evidence.shared_words import Values
from backstory.retrieval.found import Hit
from backstory.text.words import find_words
from backstory.writing.answers.answer_kinds import list_numbers, list_wanted
from backstory.writing.answers.answer_sentences import AnswerSentence
from backstory.writing.answers.asked_values import find_asked_value, states_value

Compare: TypeAlias = Callable[[str, Sequence[str]], NDArray[np.float64]]
"""Returns how far the cosine of a question and each of some texts lies above chance, shape ``(texts,)``."""

MOST_COMPARED: Final = 32
"""Sentences of a question that are compared by their vectors: those that share most of its words."""
_TINY: Final = 1e-6
_FEW_WORDS: Final = 0.1
_UNSURE: Final = 0.01
"""Least distance of a share from 0 and 1, whose odds would decide alone."""


def choose_candidates(
    part: str, sentences: Sequence[AnswerSentence], stemmer: str
) -> tuple[list[AnswerSentence], dict[str, Values]]:
    """Choose the sentences that share most of the words of a question, and measure these words.

    Args:
        part: The question.
        sentences: The sentences of its passages.
        stemmer: Stemmer of most of the documents.

    Returns:
        At most :data:`MOST_COMPARED` sentences, in their order, and the share of the question's words, by rarity, that
        each of them has ``own``, ``near``, ``headed`` and ``told``.
    """
    wanted = list_wanted(part, stemmer)
    counts = Counter(term for each in sentences for term in wanted & (each.own | each.told))
    weights = {term: math.log(1 + len(sentences) / max(counts[term], 0.5)) for term in sorted(wanted)}
    total = sum(weights.values()) or 1.0

    def share(terms: frozenset[str]) -> float:
        return sum(weight for term, weight in weights.items() if term in terms) / total

    shares = {
        name: np.array([share(getattr(each, name)) for each in sentences])
        for name in ("own", "near", "headed", "told")
    }
    probability = np.array([each.passage.probability for each in sentences])
    promise = (shares["own"] + shares["near"] + probability) / 2 + shares["told"]
    places = np.sort(np.argsort(-promise, kind="stable")[:MOST_COMPARED])
    return [sentences[place] for place in places], {name: each[places] for name, each in shares.items()}


def measure_sentences(
    part: str, sentences: Sequence[AnswerSentence], shares: Mapping[str, Values], compare: Compare
) -> dict[str, Values]:
    """Measure sentences before a question.

    Args:
        part: The question.
        sentences: The candidates, from :func:`choose_candidates`, at least one.
        shares: The words that they share.
        compare: Compares the question with texts.

    Returns:
        The values of each feature, shape ``(sentences,)``.
    """
    compared = compare(part, [*(each.titled for each in sentences), *(each.text for each in sentences)])
    titled, alone = compared[: len(sentences)], compared[len(sentences) :]
    value = find_asked_value(part)
    holds = np.array([value is not None and states_value(value, part, each.text) for each in sentences])
    return {
        "own": np.log(_FEW_WORDS + shares["own"]),
        "headed": shares["headed"],
        "told": shares["told"],
        "titled": _standardize(titled),
        "alone": _standardize(alone),
        "beside": _standardize(_average_beside(sentences, titled)),
        "holds": holds.astype(np.float64),
        "lacks": (~holds & (value is not None)).astype(np.float64),
        "asks": np.array([each.asks for each in sentences], np.float64),
        "written": np.array([is_written(each.passage.uri) for each in sentences], np.float64),
        "rank": np.log1p(np.array([each.rank for each in sentences], np.float64)),
    }


def measure_quote(
    features: Mapping[str, Values], places: Sequence[int], best: int, share: float
) -> dict[str, Values]:
    """Measure a quote of neighbouring sentences.

    Args:
        features: From :func:`measure_sentences`.
        places: Positions of the sentences of the quote.
        best: Position of the one that answers best.
        share: Share of the quote in what all candidates promise, from 0 to 1.

    Returns:
        One value of each feature, shape ``(1,)``.
    """
    chosen = list(places)
    values = {
        "share": math.log((share + _UNSURE) / (1 - share + _UNSURE)),
        "told": features["told"][best],
        "holds": features["holds"][chosen].max(),
        "lacks": features["lacks"][chosen].min(),
    }
    return {name: np.array([value], np.float64) for name, value in values.items()}


def lacks_number(part: str, passage: Hit) -> bool:
    """Tell whether a passage, with its title and its path, lacks a number of a question."""
    told = f"{passage.title} {passage.heading} {passage.uri} {passage.text}"
    return bool(list_numbers(part) - set(find_words(told)))


def _standardize(values: Values) -> Values:
    standard: Values = (values - values.mean()) / (values.std() + _TINY)
    return standard


def _average_beside(sentences: Sequence[AnswerSentence], values: Values) -> Values:
    """Average the values of each sentence and of those beside it in its section."""
    known = {(each.section, each.place): value for each, value in zip(sentences, values, strict=True)}
    return np.array(
        [
            np.mean(
                [known[key] for step in (-1, 0, 1) if (key := (each.section, each.place + step)) in known]
            )
            for each in sentences
        ]
    )
