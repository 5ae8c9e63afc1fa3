"""Measures answers: what was found, what is cited, what is refused, how complete lists are, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.operations.evaluation.question_set import Alternatives, LabelledQuestion
from backstory.operations.evaluation.scoring import bound_mean, resample_windows
from backstory.writing.answers.answer import Kind, Refusal

ALL: Final = "all"
"""Name of the group of all questions."""

_WORD: Final = re.compile(r"\w+")
_SHARED_WORDS: Final = 3
_SHARED_PART: Final = 0.5
"""Two sentences tell the same if they share a run of so many words, and of so great a part of the shorter one."""
_CONFIDENCES: Final = {"low": 1.0, "medium": 2.0, "high": 3.0}
_Z: Final = 1.959964
"""The normal quantile of 97.5 %."""


@dataclass(frozen=True)
class GivenCitation:
    """A place that an answer cites: the path of a document, and words of it."""

    uri: str
    quote: str


@dataclass(frozen=True, kw_only=True)
class GivenAnswer:
    """What the library answered to one question, as far as it is measured.

    Attributes:
        kind: The class that was told of the question.
        refused: Why there is no answer; None if there is one.
        confidence: ``high``, ``medium`` or ``low``.
        text: The statements, joined.
        citations: What they cite, in their order.
        found: Paths of the documents of the hits, best first; a path may be there more than once.
        probability: The highest probability of a hit; 0 without hits.
        listed: Paths of the documents that the catalog named.
        not_found: Parts of the question that are said to be missing.
        seconds: Time of the answer, seconds of the clock.
        tokens: Tokens that calls of a model read and wrote.
        embedded_tokens: Tokens that the embedder read to compare sentences.
    """

    kind: Kind
    refused: Refusal | None
    confidence: str
    text: str = ""
    citations: tuple[GivenCitation, ...] = ()
    found: tuple[str, ...] = ()
    probability: float = 0.0
    listed: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()
    seconds: float = 0.0
    tokens: int = 0
    embedded_tokens: int = 0


@dataclass(frozen=True)
class AnswerScores:
    """How good the answers to a set of questions are.

    Attributes:
        table: ``group`` ("all", and each group of the set), ``measure``, ``questions`` (how many state what is
            measured), ``mean``, and its 95 % interval ``low`` to ``high``. Measures that are yes or no for each
            question have Wilson's interval (1927), the others a bootstrap interval over questions.
        latency: Seconds of the clock, quantiles ``p50`` and ``p95`` over all questions.
        tokens: Tokens of models of all answers together.
        embedded_tokens: Tokens of the embedder of all answers together.
    """

    table: pl.DataFrame
    latency: Mapping[str, float]
    tokens: int
    embedded_tokens: int

    def as_record(self) -> dict[str, Any]:
        """Return the scores as JSON-serializable data."""
        return {
            "answers": self.table.to_dicts(),
            "latency": dict(self.latency),
            "tokens": self.tokens,
            "embedded_tokens": self.embedded_tokens,
        }


def score_answers(questions: Sequence[LabelledQuestion], given: Sequence[GivenAnswer]) -> AnswerScores:
    """Compare the answers of questions, at least one, with what a good answer holds.

    A question that does not state what a measure compares with does not count for it, and a measure that no question
    counts for has no row.
    """
    scores = [score_answer(each, answer) for each, answer in zip(questions, given, strict=True)]
    groups = [ALL, *dict.fromkeys(question.group for question in questions if question.group)]
    rows = [row for group in groups for row in _tabulate(group, questions, given, scores)]
    seconds = np.array([answer.seconds for answer in given])
    texts = dict.fromkeys(("group", "measure"), pl.String)
    floats = dict.fromkeys(("mean", "low", "high"), pl.Float64)
    return AnswerScores(
        pl.DataFrame(rows, schema={**texts, "questions": pl.Int64, **floats}, orient="row"),
        {"p50": float(np.quantile(seconds, 0.5)), "p95": float(np.quantile(seconds, 0.95))},
        sum(answer.tokens for answer in given),
        sum(answer.embedded_tokens for answer in given),
    )


def score_answer(question: LabelledQuestion, given: GivenAnswer) -> dict[str, float | None]:
    """Score one answer under every measure of :data:`MEASURES`, each from 0 to 1; None where nothing is expected."""
    return {name: measure(question, given) for name, measure in MEASURES.items()}


def _tell_kind(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    return None if question.kind is None else float(given.kind == question.kind)


def _recall_at(depth: int) -> Callable[[LabelledQuestion, GivenAnswer], float | None]:
    """Measure the share of the expected documents among the first ones that were found."""

    def measure(question: LabelledQuestion, given: GivenAnswer) -> float | None:
        if _asks_for_documents(question):
            return None
        first = list(dict.fromkeys(given.found))[:depth]
        return _share([_is_among(uris, first) for uris in question.documents])

    return measure


def _reciprocal_rank(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    if not question.documents or _asks_for_documents(question):
        return None
    wanted = {uri for uris in question.documents for uri in _alternatives(uris)}
    ranks = [rank for rank, uri in enumerate(dict.fromkeys(given.found), start=1) if uri in wanted]
    return 1 / ranks[0] if ranks else 0.0


def _cite_sentences(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    quotes = question.all_quotes()
    return _share([_is_right(cited, quotes) for cited in given.citations]) if quotes else None


def _cite_documents(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    if not question.documents:
        return None
    wanted = {uri for uris in question.documents for uri in _alternatives(uris)}
    quotes = question.all_quotes()
    return _share([cited.uri in wanted or _is_right(cited, quotes) for cited in given.citations])


def _cover_quotes(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    return _share([_is_cited(quote, given) for quote in question.all_quotes()])


def _refuse(*, answerable: bool) -> Callable[[LabelledQuestion, GivenAnswer], float | None]:
    def measure(question: LabelledQuestion, given: GivenAnswer) -> float | None:
        return float(given.refused is not None) if question.answerable is answerable else None

    return measure


def _complete_list(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    if question.kind != "list":
        return None
    if question.items:
        text = _join(given.text)
        return _share([_join(item) in text for item in question.items])
    if not _asks_for_documents(question):
        return None
    return _share([_is_among(uris, _name_documents(given)) for uris in question.documents])


def _precise_list(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    """Measure the share of the named documents that belong into a list of documents."""
    if not _asks_for_documents(question):
        return None
    wanted = {uri for uris in question.documents for uri in _alternatives(uris)}
    return _share([uri in wanted for uri in _name_documents(given)])


def _answer_parts(question: LabelledQuestion, given: GivenAnswer) -> float | None:
    told = [part for part in question.parts if part.quotes]
    return _share([any(_is_cited(quote, given) for quote in part.quotes) for part in told])


def _name_missing(*, told: bool) -> Callable[[LabelledQuestion, GivenAnswer], float | None]:
    """Measure the share of the parts that are said to be missing, of those that the documents tell or lack."""

    def measure(question: LabelledQuestion, given: GivenAnswer) -> float | None:
        named = _list_missing(question, given)
        return _share(
            [place in named for place, part in enumerate(question.parts) if bool(part.quotes) is told]
        )

    return measure


MEASURES: Final[Mapping[str, Callable[[LabelledQuestion, GivenAnswer], float | None]]] = {
    "class": _tell_kind,
    "recall@5": _recall_at(5),
    "recall@10": _recall_at(10),
    "reciprocal rank": _reciprocal_rank,
    "citation precision, sentences": _cite_sentences,
    "citation precision, documents": _cite_documents,
    "citation recall": _cover_quotes,
    "unanswerable refused": _refuse(answerable=False),
    "answerable refused": _refuse(answerable=True),
    "list completeness": _complete_list,
    "list precision": _precise_list,
    "parts answered": _answer_parts,
    "missing parts named": _name_missing(told=False),
    "other parts named missing": _name_missing(told=True),
}
"""What is measured of each answer.

The documents of hits count once each, by their best place; those that a list of documents names come from the catalog,
so such a question counts for lists alone. A citation is right if it shares a run of at least three
words, and of half of the shorter one, with an expected sentence; so a copy of the sentence elsewhere is right as well.
Under ``documents`` it is right also if its document is expected. Precision is that of answers that cite. A refusal
says of every part that it is missing.
"""
_YES_OR_NO: Final = ("class", "unanswerable refused", "answerable refused")


def _alternatives(entry: Alternatives) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _asks_for_documents(question: LabelledQuestion) -> bool:
    """Tell whether the documents themselves are what is asked for, and not what they say."""
    return question.kind == "list" and bool(question.documents) and not (question.items or question.quotes)


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None


def _is_among(entry: Alternatives, uris: Sequence[str]) -> bool:
    return any(uri in uris for uri in _alternatives(entry))


def _name_documents(given: GivenAnswer) -> list[str]:
    """List the documents that an answer names: those of the catalog, and the cited ones if it gave none."""
    return list(dict.fromkeys(given.listed or [cited.uri for cited in given.citations]))


def _is_right(cited: GivenCitation, quotes: Sequence[Alternatives]) -> bool:
    return any(share_words(cited.quote, text) for quote in quotes for text in _alternatives(quote))


def _is_cited(quote: Alternatives, given: GivenAnswer) -> bool:
    return any(_is_right(cited, [quote]) for cited in given.citations)


def _split(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _join(text: str) -> str:
    return f" {' '.join(_split(text))} "


def share_words(one: str, other: str) -> bool:
    """Tell whether two sentences share a run of three words and of half of the shorter one, whatever their marks."""
    words = _split(one), _split(other)
    run = SequenceMatcher(None, *words, autojunk=False).find_longest_match().size
    shorter = min(map(len, words))
    return run >= max(min(_SHARED_WORDS, shorter), _SHARED_PART * shorter, 1)


def _list_missing(question: LabelledQuestion, given: GivenAnswer) -> set[int]:
    """List the places of the parts that an answer says are missing: to each text, the one part nearest by words."""
    if given.refused is not None:
        return set(range(len(question.parts)))
    parts = [set(_split(part.text)) for part in question.parts]
    named = set()
    for text in given.not_found:
        words = set(_split(text))
        shared = [len(words & part) / len(words | part) if words else 0.0 for part in parts]
        best = max(shared, default=0.0)
        if best > 0 and shared.count(best) == 1:
            named.add(shared.index(best))
    return named


def _tabulate(
    group: str,
    questions: Sequence[LabelledQuestion],
    given: Sequence[GivenAnswer],
    scores: Sequence[Mapping[str, float | None]],
) -> list[tuple[object, ...]]:
    """Average the measures over the questions of a group."""
    members = [place for place, question in enumerate(questions) if group in (ALL, question.group)]
    rows: list[tuple[object, ...]] = []
    for name in MEASURES:
        known = [value for place in members if (value := scores[place][name]) is not None]
        if known:
            values = np.array(known)
            bounded = _bound_share(values) if name in _YES_OR_NO else bound_mean(values)
            rows.append((group, name, len(values), *bounded))
    stated = [place for place in members if questions[place].answerable is not None]
    labels = np.array([questions[place].answerable for place in stated], dtype=bool)
    for name, rate in _RATES.items():
        rates = np.array([rate(given[place]) for place in stated])
        if labels.any() and not labels.all():
            rows.append(
                (group, name, len(stated), area_under_curve(rates, labels), *_resample(rates, labels))
            )
    return rows


_RATES: Final[Mapping[str, Callable[[GivenAnswer], float]]] = {
    "AUROC, confidence": lambda given: _CONFIDENCES[given.confidence] if given.refused is None else 0.0,
    "AUROC, best passage": lambda given: given.probability,
}
"""By what answerable questions are told from the others: the confidence, with refusals below all, and the best hit."""


def area_under_curve(rates: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Compute the area under the receiver operating characteristic, ties counted as one half (Mann and Whitney, 1947).

    Both have the shape ``(questions,)``. The labels mark the class that should have the higher rates.
    """
    high, low = rates[labels][:, None], rates[~labels][None, :]
    return float(((high > low) + 0.5 * (high == low)).mean())


def _resample(rates: NDArray[np.float64], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Compute the bootstrap interval of the area; resamples without one of the classes are left out."""
    areas = [
        area_under_curve(rates[sample], labels[sample])
        for sample in resample_windows(len(labels))
        if labels[sample].any() and not labels[sample].all()
    ]
    low, high = np.quantile(areas, [0.025, 0.975]).tolist()
    return low, high


def _bound_share(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return a share and the ends of its interval (Wilson, 1927), which is not empty at 0 or 1."""
    count, mean = len(values), float(values.mean())
    middle = mean + _Z**2 / (2 * count)
    half = _Z * float(np.sqrt(mean * (1 - mean) / count + _Z**2 / (4 * count**2)))
    scale = 1 + _Z**2 / count
    return mean, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
