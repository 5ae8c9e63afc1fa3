"""An answer without a model: the sentences of the passages that answer each part, word for word.

A sentence counts by the words of the part that it and its surroundings hold, by its cosine, and by whether it holds
what an English question asks for, such as a price. The weights and thresholds were set on
``tests/data/answers/examples_tune.jsonl``; docs/reference/assistant.md has the figures of the half that was held back.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.ids import is_written
from backstory.text.chunking.division import divide_text
from backstory.text.content_words import find_terms
from backstory.text.words import find_words
from backstory.writing.answers.answer import Citation, Claim, Kind, MadeAnswer, Part, Passage
from backstory.writing.answers.answer_kinds import counts_asked, holds_asked, list_numbers, list_wanted
from backstory.writing.sentences import Sentence as Digested
from backstory.writing.sentences import choose_sentences, weigh_terms

Compare: TypeAlias = Callable[[str, Sequence[str]], NDArray[np.float64]]
"""Returns the cosine of a question and each of some texts, shape ``(texts,)``."""

_FORMS: Final = ("sentence", "item", "row")
_MOST_COMPARED: Final = 32
"""Sentences of a part that are compared by their vectors: those that share most of its words."""

_NEAR, _HEADED, _COSINE, _PROBABILITY, _HOLDS, _ASKS, _WRITTEN = 0.3, 0.3, 1.4, 0.5, 0.35, 0.3, 0.3
"""Weights of what is measured; those of a question, and of a written post, count against a sentence.

Words of the sentence count among those near it, and again with its headings; by themselves they gain nothing.
"""
_NUMBER, _COUNTED = 0.3, 0.25
"""Weights of the numbers of the question in a sentence, and of a number beside the noun that "how many" asks for."""
_CLOSE: Final = 0.05
"""A further sentence scores at most so much below the best one."""
_CLOSE_IN_LIST: Final = 0.25

_LEAST_NEAR: Final = 0.4
"""Least share of the part's words, by rarity, in a sentence that answers it and those beside it."""
_NEAR_ALONE: Final = 0.9
"""The same for a sentence that holds no such word itself, only those beside it do."""
_UNLIKELY, _LEAST_NEAR_UNLIKELY = 0.3, 0.75
"""Least share where the passage is probably about something else."""
_TITLED, _SURE = 0.6, 0.85
"""Share of the part's words in a passage with its title, and probability of the passage, that suffice where no form can
tell an answer."""

_SHORT_FORMS: Final = (
    "summarize summary sum recap overview gist key main points tldr tl dr brief short outline digest post document "
    "report article letter give write main takeaways"
)
_LEAST_ABOUT: Final = 0.6
"""Least share of the words of a question in the document that a summary is asked of."""
_MOST_OF_SUMMARY: Final = 6
_MOST: Final = {"list": 12, "compare": 2}
_MOST_OF_LOOKUP: Final = 2
_LEAST_ITEMS: Final = 3
_MOST_NEAREST: Final = 3
_NOT_JUDGED: Final = (
    "no model has judged whether these sentences answer the question: read them where they stand, or name a model in "
    "`answers.provider`"
)
_TOLD_ALONE: Final = 0.5
"""A sentence beside a list that holds so much of the part tells it itself, and the list something else."""

_REFERENCE: Final = re.compile(r"^> |\]\(")
"""A line of a written post that only names other posts."""
_ITEM: Final = re.compile(r"^(?:[-+*•]|\d{1,9}[.)])\s+")
_ENDS: Final = "\"'”’»)*_ "


@dataclass(frozen=True)
class _Sentence:
    """A sentence of a passage.

    Attributes:
        passage: The passage.
        start: First character in the passage.
        end: Character after the last one.
        text: The sentence on one line.
        own: Its terms.
        near: Its terms and those of the sentences beside it.
        around: Its terms, and those of the headings and the title above it.
        is_item: Whether it is an item of a list, or a row of a table.
    """

    passage: Passage
    start: int
    end: int
    text: str
    own: frozenset[str]
    near: frozenset[str]
    around: frozenset[str]
    is_item: bool

    @property
    def asks(self) -> bool:
        """Whether it is a question, which answers none."""
        return self.text.rstrip(_ENDS).endswith(("?", "？"))


@dataclass(frozen=True)
class _Judged:
    """How well a sentence answers a part.

    Attributes:
        sentence: The sentence.
        score: The higher, the better.
        own: Share of the part's words, by rarity, in the sentence.
        near: The same with the sentences beside it.
        around: The same with the headings and the title, too.
        holds: Whether it holds a thing of the kind that is asked for; None if form does not tell.
        lacks_number: Whether its passage lacks a number of the part.
    """

    sentence: _Sentence
    score: float
    own: float
    near: float
    around: float
    holds: bool | None
    lacks_number: bool

    @property
    def answers(self) -> bool:
        """Whether it answers the part, as far as form and words tell."""
        if self.lacks_number or self.holds is False:
            return False
        if self.sentence.passage.probability < _UNLIKELY and self.near < _LEAST_NEAR_UNLIKELY:
            return False
        if self.holds is None and self.around >= _TITLED and self.sentence.passage.probability >= _SURE:
            return True
        return self.near >= (_LEAST_NEAR if self.own else _NEAR_ALONE)


class ExtractiveAnswerer:
    """Chooses sentences; the same passages and question always give the same ones."""

    id = "extractive:1"

    def __init__(self, compare: Compare, stemmer: str) -> None:
        """Set what compares texts.

        Args:
            compare: Compares a question with texts.
            stemmer: Stemmer of most of the documents.
        """
        self._compare = compare
        self._stemmer = stemmer

    def answer(
        self,
        question: str,  # noqa: ARG002 - the parts say all that it asks
        parts: Sequence[str],
        passages: Sequence[Passage],
        *,
        kind: Kind,
    ) -> MadeAnswer:
        """Choose the sentences that answer each part; see :class:`backstory.writing.answers.answer.Answerer`."""
        sentences = _list_sentences(passages, self._stemmer)
        if kind == "summarize":
            return self._summarize(parts, sentences)
        ranked = [self._rank(part, sentences, kind) for part in parts]
        chosen = [_choose(judged, kind) for judged in ranked]
        found = {
            (each.sentence.passage.id, each.sentence.start): each.sentence for some in chosen for each in some
        }
        made = tuple(Part(part, bool(some)) for part, some in zip(parts, chosen, strict=True))
        claims = tuple(_claim(sentence) for sentence in found.values())
        if claims:
            return MadeAnswer(claims, made, notes=(_NOT_JUDGED,))
        return MadeAnswer((), made, "not_in_documents", nearest=_list_nearest(ranked))

    def _summarize(self, parts: Sequence[str], sentences: Sequence[_Sentence]) -> MadeAnswer:
        """Choose the sentences that say most of the document that the question names, or is about."""
        wanted = list_wanted(" ".join(parts), self._stemmer) - find_terms([_SHORT_FORMS], self._stemmer)
        about: dict[str, list[_Sentence]] = {}
        for sentence in sentences:
            about.setdefault(sentence.passage.document_id, []).append(sentence)

        def share(some: Sequence[_Sentence]) -> float:
            held = len(wanted & frozenset().union(*(each.around for each in some))) / max(1, len(wanted))
            return held - _WRITTEN * is_written(some[0].passage.uri)

        best = max(about.values(), key=share, default=[])
        if not best or share(best) < _LEAST_ABOUT:
            return MadeAnswer((), tuple(Part(part, is_found=False) for part in parts), "not_in_documents")
        told = [
            Digested(place, 0, each.text, each.own)
            for place, each in enumerate(best)
            if not each.asks and each.own
        ]
        weights = weigh_terms([each.terms for each in told])
        chosen = sorted(choose_sentences(told, weights, _MOST_OF_SUMMARY))
        claims = tuple(_claim(best[told[place].place]) for place in chosen)
        return MadeAnswer(claims, tuple(Part(part, is_found=True) for part in parts))

    def _rank(self, part: str, sentences: Sequence[_Sentence], kind: Kind) -> list[_Judged]:
        """Order sentences by how well they answer a part, best first."""
        return sorted(
            self._judge(part, sentences, kind),
            key=lambda each: (-each.score, each.sentence.passage.id, each.sentence.start),
        )

    def _judge(self, part: str, sentences: Sequence[_Sentence], kind: Kind) -> list[_Judged]:
        wanted = list_wanted(part, self._stemmer)
        counts = Counter(term for sentence in sentences for term in sentence.around)
        weights = {term: math.log(1 + len(sentences) / max(counts[term], 0.5)) for term in wanted}
        total = sum(weights[term] for term in sorted(weights)) or 1.0

        def share(terms: frozenset[str]) -> float:
            return sum(weights[term] for term in sorted(wanted & terms)) / total

        own = [share(sentence.own) for sentence in sentences]
        near = [share(sentence.near) for sentence in sentences]
        around = [share(sentence.near | sentence.around) for sentence in sentences]
        if kind == "list":  # the heading says what the items are
            near = around
        order = sorted(range(len(sentences)), key=lambda place: (-own[place] - around[place], place))
        compared = order[:_MOST_COMPARED]
        cosines = np.zeros(len(sentences))
        if compared:
            texts = [f"{sentences[place].passage.title}: {sentences[place].text}" for place in compared]
            cosines[compared] = self._compare(part, texts)
        numbers = list_numbers(part)
        found = []
        for place, sentence in enumerate(sentences):
            holds = holds_asked(part, sentence.text)
            score = (
                _NEAR * near[place]
                + _HEADED * share(sentence.around)
                + _COSINE * float(cosines[place])
                + _PROBABILITY * sentence.passage.probability
                + _HOLDS * (0.5 if holds is None else holds)
                + _NUMBER * (len(numbers & set(find_words(sentence.text))) / len(numbers) if numbers else 0.0)
                + _COUNTED * counts_asked(part, sentence.text)
                - _ASKS * sentence.asks
                - _WRITTEN * is_written(sentence.passage.uri)
            )
            lacks = bool(numbers) and bool(numbers - _find_numbers(sentence.passage))
            found.append(_Judged(sentence, score, own[place], near[place], around[place], holds, lacks))
        return found


def _list_sentences(passages: Sequence[Passage], stemmer: str) -> list[_Sentence]:
    """List the sentences, items and rows of passages, each text once."""
    found: dict[str, _Sentence] = {}
    for passage in passages:
        above = find_terms([passage.title, passage.heading], stemmer)
        pieces = [piece for piece in divide_text(passage.text, passage.title) if piece.form in _FORMS]
        lines = [" ".join(passage.text[piece.start : piece.end].split()) for piece in pieces]
        terms = [frozenset(find_terms([line], stemmer)) for line in lines]
        for place, (piece, line) in enumerate(zip(pieces, lines, strict=True)):
            leads_on = line.rstrip(_ENDS).endswith((":", "："))
            if leads_on or (is_written(passage.uri) and _REFERENCE.search(line)):
                continue
            near: frozenset[str] = frozenset().union(*terms[max(0, place - 1) : place + 2])
            sentence = _Sentence(
                passage,
                piece.start,
                piece.end,
                line,
                own=terms[place],
                near=near,
                around=terms[place] | above,
                is_item=piece.form in ("item", "row"),
            )
            found.setdefault(line, sentence)
    return list(found.values())


def _choose(judged: Sequence[_Judged], kind: Kind) -> list[_Judged]:
    """Choose the sentences that answer a part, in reading order; none if none does."""
    answering = [each for each in judged if each.answers]
    if not answering or (kind != "list" and answering[0].score < judged[0].score - _CLOSE_IN_LIST):
        return []
    best = answering[0]
    if kind == "list" and (items := _list_items(best, judged)):
        return items
    most = _MOST.get(kind, 1 if best.holds else _MOST_OF_LOOKUP)
    close = _CLOSE_IN_LIST if kind == "list" else _CLOSE
    taken = [each for each in answering if each.score >= best.score - close][:most]
    place = {each.sentence.passage.id: rank for rank, each in reversed(list(enumerate(taken)))}
    return sorted(taken, key=lambda each: (place[each.sentence.passage.id], each.sentence.start))


def _list_nearest(ranked: Sequence[Sequence[_Judged]]) -> tuple[Citation, ...]:
    """List the sentences that come nearest to an answer, one of a document, those of each part in turn."""
    found: dict[str, Citation] = {}
    for judged in (each for some in zip_longest(*ranked) for each in some if each is not None):
        if not judged.sentence.asks:
            found.setdefault(judged.sentence.passage.document_id, _cite(judged.sentence))
    return tuple(found.values())[:_MOST_NEAREST]


def _list_items(best: _Judged, judged: Sequence[_Judged]) -> list[_Judged]:
    """List all items of the passage that answers best, if it holds a list that the part asks for."""
    if not best.sentence.is_item and best.own >= _TOLD_ALONE:
        return []
    items = [
        each
        for each in judged
        if each.sentence.passage.id == best.sentence.passage.id and each.sentence.is_item
    ]
    return sorted(items, key=lambda each: each.sentence.start) if len(items) >= _LEAST_ITEMS else []


def _find_numbers(passage: Passage) -> set[str]:
    return set(find_words(f"{passage.title} {passage.heading} {passage.uri} {passage.text}"))


def _claim(sentence: _Sentence) -> Claim:
    return Claim(_ITEM.sub("", sentence.text), (_cite(sentence),), is_supported=True)


def _cite(sentence: _Sentence) -> Citation:
    passage = sentence.passage
    quote = passage.text[sentence.start : sentence.end]
    start = passage.char_start + sentence.start
    return Citation(passage, quote, start, start + len(quote))
