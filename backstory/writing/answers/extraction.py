"""An answer without a model: the sentences of the passages that answer each part, word for word."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.text.chunking.division import divide_text
from backstory.text.content_words import find_terms
from backstory.text.words import find_words
from backstory.writing.answers.answer import Citation, Claim, Kind, MadeAnswer, Part, Passage
from backstory.writing.answers.answer_kinds import holds_asked, list_numbers, list_wanted

Compare: TypeAlias = Callable[[str, Sequence[str]], NDArray[np.float64]]
"""Returns the cosine of a question and each of some texts, shape ``(texts,)``."""

_MOST_COMPARED: Final = 48
"""Sentences of a part that are compared by their vectors: those that share most of its words."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a passage.

    Attributes:
        passage: The passage.
        start: First character in the passage.
        end: Character after the last one.
        text: The sentence on one line.
        own: Its terms.
        near: Its terms and those of the sentences beside it.
        around: Its terms, and those of the headings and the title above it.
        asks: Whether it is a question.
    """

    passage: Passage
    start: int
    end: int
    text: str
    own: frozenset[str]
    near: frozenset[str]
    around: frozenset[str]
    asks: bool


def list_sentences(passages: Sequence[Passage], stemmer: str) -> list[Sentence]:
    """List the sentences, items and rows of passages, each once."""
    found: dict[str, Sentence] = {}
    for passage in passages:
        above = find_terms([passage.title, passage.heading], stemmer)
        pieces = [
            piece for piece in divide_text(passage.text, passage.title) if piece.form in ("sentence", "item", "row")
        ]
        lines = [" ".join(passage.text[piece.start : piece.end].split()) for piece in pieces]
        terms = [frozenset(find_terms([line], stemmer)) for line in lines]
        for place, (piece, line) in enumerate(zip(pieces, lines, strict=True)):
            beside = terms[max(0, place - 1) : place + 2]
            near = frozenset().union(*beside)
            found.setdefault(
                line,
                Sentence(
                    passage,
                    piece.start,
                    piece.end,
                    line,
                    own=terms[place],
                    near=near,
                    around=terms[place] | above,
                    asks=line.rstrip("\"'”’»)*_ ").endswith(("?", "？")),
                ),
            )
    return list(found.values())


def measure(part: str, sentences: Sequence[Sentence], compare: Compare, stemmer: str) -> NDArray[np.float64]:
    """Measure how well sentences answer a part, shape ``(sentences, features)``."""
    wanted = list_wanted(part, stemmer)
    counts = Counter(term for sentence in sentences for term in sentence.own | sentence.around)
    weights = {term: math.log(1 + len(sentences) / max(counts[term], 0.5)) for term in wanted}
    total = sum(weights.values()) or 1.0

    def share(terms: frozenset[str]) -> float:
        return sum(weights[term] for term in sorted(wanted & terms)) / total

    own = [share(sentence.own) for sentence in sentences]
    near = [share(sentence.near) for sentence in sentences]
    around = [share(sentence.near | sentence.around) for sentence in sentences]
    order = sorted(range(len(sentences)), key=lambda place: (-(own[place] + around[place]), place))[:_MOST_COMPARED]
    cosines = np.zeros(len(sentences))
    cosines[order] = compare(part, [f"{sentences[place].passage.title}: {sentences[place].text}" for place in order])
    numbers = list_numbers(part)
    held = {id(p): set(find_words(f"{p.title} {p.heading} {p.uri} {p.text}")) for p in {id(s.passage): s.passage for s in sentences}.values()}
    rows = []
    for place, sentence in enumerate(sentences):
        holds = holds_asked(part, sentence.text)
        rows.append([own[place], near[place], around[place], cosines[place], sentence.passage.probability,
            0.5 if holds is None else float(holds), float(bool(numbers - held[id(sentence.passage)])), float(sentence.asks)])
    return np.array(rows)
