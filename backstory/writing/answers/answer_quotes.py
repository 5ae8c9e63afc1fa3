"""The quotes that answer a question: neighbouring sentences of a passage, each with the probability that it answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from backstory.retrieval.evidence.shared_words import Values
from backstory.writing.answers.answer import Citation, Claim
from backstory.writing.answers.answer_features import (
    MOST_COMPARED,
    Compare,
    choose_candidates,
    lacks_number,
    measure_quote,
    measure_sentences,
)
from backstory.writing.answers.answer_model import AnswerModel
from backstory.writing.answers.answer_sentences import AnswerSentence

LONGEST: Final = 4
"""Most sentences of a quote."""
_MOST_CHARACTERS: Final = 500
_LEAST_GAIN: Final = 0.02
"""Least share of what all sentences promise that a further sentence brings into a quote."""
_USUAL_ODDS: Final = -1.2
"""Log odds of what a candidate promises on average."""
_ITEM: Final = re.compile(r"^(?:[-+*•]|\d{1,9}[.)])\s+")


@dataclass(frozen=True, eq=False)
class Quote:
    """Neighbouring sentences of one paragraph.

    Attributes:
        sentences: The sentences, in reading order.
        best: The one that answers best.
        probability: Probability that the quote answers the question; 0 if its passage lacks a number of the question,
            None if it was not estimated.
    """

    sentences: tuple[AnswerSentence, ...]
    best: AnswerSentence
    probability: float | None

    def as_citation(self) -> Citation:
        """Return the place of the quote."""
        return Citation.quoting(self.best.passage, self.sentences[0].start, self.sentences[-1].end)

    def as_claim(self) -> Claim:
        """Return the quote as a claim, which it supports itself."""
        text = " ".join(_ITEM.sub("", each.text) for each in self.sentences)
        cited = (self.as_citation(),)
        return Claim(text=text, citations=cited, supported=True, probability=self.probability)


def find_quotes(
    part: str, sentences: Sequence[AnswerSentence], compare: Compare, stemmer: str, model: AnswerModel
) -> list[Quote]:
    """Find the quote of each document that answers a question best.

    Args:
        part: The question.
        sentences: The sentences of its passages.
        compare: Compares the question with texts.
        stemmer: Stemmer of most of the documents.
        model: The models of answers.

    Returns:
        The quotes, best first, one of each document; empty without sentences.
    """
    candidates, shares = choose_candidates(part, sentences, stemmer)
    if not candidates:
        return []
    features = measure_sentences(part, candidates, shares, compare)
    odds = model.sentence.find_odds(features)
    found = []
    for span in choose_spans(candidates, odds):
        best_place = max(span.places, key=lambda place: (odds[place], -place))
        best = candidates[best_place]
        measured = measure_quote(features, span.places, best_place, span.share)
        is_other = lacks_number(part, best.passage)
        probability = 0.0 if is_other else round(float(model.quote.estimate(measured)[0]), 3)
        found.append(Quote(tuple(candidates[place] for place in span.places), best, probability))
    return found


def quote_alone(sentence: AnswerSentence, probability: float | None) -> Quote:
    """Return a quote of one sentence that is chosen because of others, such as an item of a list."""
    return Quote((sentence,), sentence, probability)


@dataclass(frozen=True)
class Span:
    """Neighbouring candidates.

    Attributes:
        places: Their positions among the candidates.
        share: Their share in what all candidates promise, from 0 to 1. Where there are fewer candidates than are
            compared at most, a usual one stands for each that is missing.
    """

    places: list[int]
    share: float


def choose_spans(candidates: Sequence[AnswerSentence], odds: Values) -> list[Span]:
    """Choose the span of each document that promises most.

    Args:
        candidates: The candidates, at least one.
        odds: Log odds of each, by the model of sentences, shape ``(candidates,)``.

    Returns:
        The spans, best first, one of each document.
    """
    missing = max(0, MOST_COMPARED - len(candidates))
    promise = np.exp(odds - odds.max())
    promise /= promise.sum() + missing * math.exp(_USUAL_ODDS - odds.max())
    best: dict[str, Span] = {}
    for first, sentence in enumerate(candidates):
        document = sentence.passage.document_id
        for places in _list_spans(candidates, first):
            span = Span(places, float(promise[places].sum()))
            if document not in best or _rate(span) > _rate(best[document]):
                best[document] = span
    return sorted(best.values(), key=lambda each: (-_rate(each), each.places))


def _rate(span: Span) -> float:
    """Rate a span by its share, of which each further sentence must bring some."""
    return span.share - _LEAST_GAIN * (len(span.places) - 1)


def _list_spans(candidates: Sequence[AnswerSentence], first: int) -> list[list[int]]:
    """List the spans that begin with a candidate: it alone, and with those that follow it in its paragraph."""
    spans = [[first]]
    start = candidates[first]
    for place in range(first + 1, min(first + LONGEST, len(candidates))):
        each = candidates[place]
        follows = (
            each.passage.short_id == start.passage.short_id and each.place == start.place + place - first
        )
        is_short = each.end - start.start <= _MOST_CHARACTERS
        if not (follows and each.paragraph == start.paragraph and is_short):
            break
        spans.append([*spans[-1], place])
    return spans
