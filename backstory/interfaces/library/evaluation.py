"""Measures answers: what was found, what is cited, what is refused, how complete lists are, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator

from backstory.base.errors import InputError
from backstory.interfaces.library.results import Answer
from backstory.operations.scoring import bound_area, bound_mean
from backstory.writing.answers.answer import Citation, Kind, Turn

ALL: Final = "all"
"""Name of the group of all questions."""
Alternatives: TypeAlias = str | Annotated[tuple[str, ...], Field(min_length=1)]
"""One text, or several of which one is enough."""

_WORD: Final = re.compile(r"\w+")
_SHARED_WORDS: Final = 3
_SHARED_PART: Final = 0.5
"""Two sentences tell the same if they share a run of so many words, and of so great a part of the shorter one."""
_YES_OR_NO: Final = ("class", "unanswerable refused", "answerable refused")
_CONFIDENCES: Final = {"low": 1.0, "medium": 2.0, "high": 3.0}
_Z: Final = 1.959964
"""The normal quantile of 97.5 %."""


class ExpectedPart(BaseModel, frozen=True, extra="forbid"):
    """One of the things that a question asks for, and the sentences that tell it; none if the documents do not."""

    text: str
    quotes: tuple[Alternatives, ...]


class LabelledQuestion(BaseModel, frozen=True, extra="forbid"):
    """A question and what a good answer to it holds; what is not stated is not measured."""

    question: str
    history: tuple[Turn, ...] = ()
    """The conversation before it, oldest first."""
    group: str = ""
    """Name under which its figures are also shown apart."""
    kind: Kind | None = None
    answerable: bool | None = None
    """Whether the documents answer it, at least in part."""
    documents: tuple[Alternatives, ...] = ()
    """Paths of the documents that answer it."""
    quotes: tuple[Alternatives, ...] = ()
    """Sentences of the documents that answer it. Those of ``parts`` count as well."""
    parts: tuple[ExpectedPart, ...] = ()
    items: tuple[str, ...] = ()
    """Words that a complete list holds. A list question without items and quotes asks for its ``documents``."""
    note: str = ""
    """Why it is in the set; not measured."""

    @model_validator(mode="after")
    def _agree(self) -> LabelledQuestion:
        if not self.question.strip():
            raise ValueError("the question is blank")
        if self.answerable is False and (self.documents or self.all_quotes() or self.items):
            raise ValueError("a question that is not answerable has no documents, quotes or items")
        return self

    def all_quotes(self) -> tuple[Alternatives, ...]:
        """Return the quotes of the question and of its parts."""
        return (*self.quotes, *(quote for part in self.parts for quote in part.quotes))


def read_question_set(file: Path) -> list[LabelledQuestion]:
    """Read a set of questions: the fields of a :class:`LabelledQuestion` as a JSON object on each line of a file."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        what = f"{file} cannot be read as UTF-8 text ({error}); name a file with one question in JSON on each line"
        raise InputError(what, code="unreadable_file") from error
    questions = list[LabelledQuestion]()
    for place, line in enumerate(lines, start=1):
        try:
            questions += [LabelledQuestion.model_validate_json(line)] if line.strip() else []
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = next((f"{name}: " for name in first["loc"][:1]), "")
            what = f"{file}, line {place}: {field}{first['msg']}; write one JSON object on each line, with the fields "
            raise InputError(what + ", ".join(LabelledQuestion.model_fields), code="invalid_line") from error
    if not questions:
        what = f'{file} holds no question; write one on each line, such as {{"question": "…", "answerable": true}}'
        raise InputError(what, code="blank_text")
    return questions


@dataclass(frozen=True)
class AnswerScores:
    """How good the answers to a set of questions are, and what all cost together.

    ``answers`` has ``group`` ("all", and each group of the set), ``measure``, ``questions`` (how many state what is
    measured), ``mean``, and its 95 % interval ``low`` to ``high``: Wilson's (1927) for what is yes or no for each
    question, else a bootstrap over questions. A measure that no question counts for has no row.
    """

    answers: pl.DataFrame
    latency: Mapping[str, float]
    """Seconds of the clock, quantiles ``p50`` and ``p95`` over all questions."""
    tokens: int
    embedded_tokens: int

    def as_record(self) -> dict[str, Any]:
        """Return the scores as JSON-serializable data."""
        return {**vars(self), "answers": self.answers.to_dicts()}


def score_answers(questions: Sequence[LabelledQuestion], given: Sequence[Answer]) -> AnswerScores:
    """Compare the answers of questions, at least one, with what a good answer holds."""
    scored = [(one, answer, score_answer(one, answer)) for one, answer in zip(questions, given, strict=True)]
    rows: list[tuple[object, ...]] = []
    for group in [ALL, *dict.fromkeys(question.group for question in questions if question.group)]:
        members = [each for each in scored if group in (ALL, each[0].group)]
        for measure in members[0][2]:
            values = np.array([score[measure] for _, _, score in members if score[measure] is not None])
            if len(values):
                bounded = _bound_share(values) if measure in _YES_OR_NO else bound_mean(values)
                rows.append((group, measure, len(values), *bounded))
        stated = [(one, answer) for one, answer, _ in members if one.answerable is not None]
        answerable = np.array([float(bool(one.answerable)) for one, _ in stated])
        # How well confidence, and the best hit, tell answerable questions from others; a refusal has no confidence.
        rates = {
            "AUROC, confidence": [0.0 if one.refused else _CONFIDENCES[one.confidence] for _, one in stated],
            "AUROC, best passage": [
                max((hit.probability for hit in one.hits), default=0.0) for _, one in stated
            ],
        }
        areas = {measure: bound_area(np.array(values), answerable) for measure, values in rates.items()}
        rows += [(group, measure, len(stated), *area) for measure, area in areas.items() if area is not None]
    seconds = np.array([sum(answer.timings.to_dict().values()) for answer in given])
    texts = dict.fromkeys(("group", "measure"), pl.String)
    floats = dict.fromkeys(("mean", "low", "high"), pl.Float64)
    return AnswerScores(
        pl.DataFrame(rows, schema={**texts, "questions": pl.Int64, **floats}, orient="row"),
        {"p50": float(np.quantile(seconds, 0.5)), "p95": float(np.quantile(seconds, 0.95))},
        sum(answer.tokens for answer in given),
        sum(answer.embedded_tokens for answer in given),
    )


def score_answer(question: LabelledQuestion, given: Answer) -> dict[str, float | None]:
    """Score one answer by every measure, each from 0 to 1; None where nothing is expected.

    The documents of hits count once each, by their best place; a question for a list of documents counts for lists
    alone. A citation is right that tells an expected sentence, wherever it stands; under ``documents`` also one of an
    expected document. Precision is that of answers that cite.
    """
    is_list, quotes = question.kind == "list", question.all_quotes()
    cited = [place for claim in given.claims for place in claim.citations]
    # What is asked for may be the documents themselves, and not what they say.
    asks_for_documents = is_list and not (question.items or question.quotes)
    searched, listed = ((), question.documents) if asks_for_documents else (question.documents, ())
    wanted = {uri for uris in question.documents for uri in _alternatives(uris)}
    found = list(dict.fromkeys(hit.uri for hit in given.hits))
    ranks = [1 / rank for rank, uri in enumerate(found, start=1) if uri in wanted]
    # The catalog names the documents of a list; without it, the citations do.
    named = list(dict.fromkeys(entry.uri for entry in given.documents or cited))
    right = [_tell_one([place], quotes) for place in cited]
    right_or_near = [is_right or place.uri in wanted for place, is_right in zip(cited, right, strict=True)]
    told, untold = ([part for part in question.parts if bool(part.quotes) is it] for it in (True, False))
    missing = _list_missing(question, given)
    text = _join("\n".join(claim.text for claim in given.claims))
    complete = [_join(item) in text for item in question.items] or [_is_among(uris, named) for uris in listed]
    is_refused = float(given.refused is not None)
    return {
        "class": None if question.kind is None else float(given.kind == question.kind),
        "recall@5": _share([_is_among(uris, found[:5]) for uris in searched]),
        "recall@10": _share([_is_among(uris, found[:10]) for uris in searched]),
        "reciprocal rank": max(ranks, default=0.0) if searched else None,
        "citation precision, sentences": _share(right) if quotes else None,
        "citation precision, documents": _share(right_or_near) if wanted else None,
        "citation recall": _share([_tell_one(cited, [quote]) for quote in quotes]),
        "unanswerable refused": is_refused if question.answerable is False else None,
        "answerable refused": is_refused if question.answerable is True else None,
        "list completeness": _share(complete) if is_list else None,
        "list precision": _share([uri in wanted for uri in named]) if listed else None,
        "parts answered": _share([_tell_one(cited, part.quotes) for part in told]),
        "missing parts named": _share([part.text in missing for part in untold]),
        "other parts named missing": _share([part.text in missing for part in told]),
    }


def _list_missing(question: LabelledQuestion, given: Answer) -> set[str]:
    """List the parts that an answer says are missing: to each text, the one nearest by words; to a refusal, all."""
    if given.refused is not None:
        return {part.text for part in question.parts}
    words = {part.text: set(_WORD.findall(part.text.casefold())) for part in question.parts}
    named = set()
    for said in (set(_WORD.findall(text.casefold())) for text in given.not_found):
        shared = {part: len(said & its) / len(said | its) if said else 0.0 for part, its in words.items()}
        best = max(shared.values(), default=0.0)
        nearest = [part for part, share in shared.items() if share == best]
        named |= set(nearest) if best and len(nearest) == 1 else set()
    return named


def _alternatives(entry: Alternatives) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None


def _is_among(entry: Alternatives, uris: Sequence[str]) -> bool:
    return any(uri in uris for uri in _alternatives(entry))


def _tell_one(cited: Sequence[Citation], quotes: Sequence[Alternatives]) -> bool:
    """Return whether places tell one of some sentences."""
    texts = [text for quote in quotes for text in _alternatives(quote)]
    return any(share_words(place.quote, text) for place in cited for text in texts)


def _join(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def share_words(one: str, other: str) -> bool:
    """Tell whether two sentences share a run of three words and of half of the shorter one, whatever their marks."""
    words, others = (_WORD.findall(text.casefold()) for text in (one, other))
    run = SequenceMatcher(None, words, others, autojunk=False).find_longest_match().size
    shorter = min(len(words), len(others))
    return run >= max(min(_SHARED_WORDS, shorter), _SHARED_PART * shorter, 1)


def _bound_share(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return a share and the ends of its interval (Wilson, 1927), which is not empty at 0 or 1."""
    count, mean = len(values), float(values.mean())
    middle = mean + _Z**2 / (2 * count)
    half = _Z * float(np.sqrt(mean * (1 - mean) / count + _Z**2 / (4 * count**2)))
    scale = 1 + _Z**2 / count
    return mean, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
