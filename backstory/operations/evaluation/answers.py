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
    """Score one answer by every measure, each from 0 to 1; None where nothing is expected.

    The documents of hits count once each, by their best place; those that a list of documents names come from the
    catalog, so such a question counts for lists alone. A citation is right if it shares a run of at least three words,
    and of half of the shorter one, with an expected sentence; so a copy of the sentence elsewhere is right as well.
    Under ``documents`` it is right also if its document is expected. Precision is that of answers that cite. A refusal
    says of every part that it is missing.
    """
    asks_for_documents = _asks_for_documents(question)
    searched = () if asks_for_documents else question.documents
    listed = question.documents if asks_for_documents else ()
    quotes, cited = question.all_quotes(), given.citations
    wanted = {uri for uris in question.documents for uri in _alternatives(uris)}
    found = list(dict.fromkeys(given.found))
    rank = next((rank for rank, uri in enumerate(found, start=1) if uri in wanted), None)
    # The catalog names the documents of a list; without it, the citations do.
    named = list(dict.fromkeys(given.listed or [place.uri for place in cited]))
    right = [_is_right(place, quotes) for place in cited]
    missing = _list_missing(question, given)
    told, untold = (
        [place for place, part in enumerate(question.parts) if bool(part.quotes) is is_told]
        for is_told in (True, False)
    )
    complete = [_is_among(uris, named) for uris in listed]
    if question.items:
        text = _join(given.text)
        complete = [_join(item) in text for item in question.items]
    is_refused = float(given.refused is not None)
    return {
        "class": None if question.kind is None else float(given.kind == question.kind),
        "recall@5": _share([_is_among(uris, found[:5]) for uris in searched]),
        "recall@10": _share([_is_among(uris, found[:10]) for uris in searched]),
        "reciprocal rank": (1 / rank if rank else 0.0) if searched else None,
        "citation precision, sentences": _share(right) if quotes else None,
        "citation precision, documents": _share(
            [place.uri in wanted or is_right for place, is_right in zip(cited, right, strict=True)]
        )
        if wanted
        else None,
        "citation recall": _share([_is_cited(quote, given) for quote in quotes]),
        "unanswerable refused": is_refused if question.answerable is False else None,
        "answerable refused": is_refused if question.answerable is True else None,
        "list completeness": _share(complete) if question.kind == "list" else None,
        "list precision": _share([uri in wanted for uri in named]) if listed else None,
        "parts answered": _share(
            [any(_is_cited(quote, given) for quote in question.parts[place].quotes) for place in told]
        ),
        "missing parts named": _share([place in missing for place in untold]),
        "other parts named missing": _share([place in missing for place in told]),
    }


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
    for name in scores[0]:
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
