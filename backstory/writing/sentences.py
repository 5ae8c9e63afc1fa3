"""Sentences of messages and of earlier posts: their terms, and which of them say most."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import regex

from backstory.text.chunking.units import split_sentences
from backstory.text.words import Words, find_stemmer
from backstory.writing.material import WindowMessage

LONGEST: Final = 280
"""Longest quoted sentence, in user-perceived characters; a longer one is cut."""

_SHORT: Final = 40
"""Characters below which a sentence gains nothing by being shorter."""
_ANSWER_WITHIN: Final = timedelta(minutes=20)
_QUESTION: Final = re.compile(r"[?？؟]\W*\Z")
_BEGINNING: Final = regex.compile(rf"\X{{{LONGEST}}}")

_BLANK: Final = re.compile(r"\n\s*\n")
_NOT_PROSE: Final = re.compile(r"\s*(?:#|>|\||```|~~~|!\[|\*?\d{4}-\d\d-\d\d|(?:[-*_]\s*){3,}\Z)")
_ITEM: Final = re.compile(r"\s*(?:[-+*•]|\d{1,9}[.)])\s+")
_MARKUP: Final = re.compile(r"\*{1,3}|(?<!\w)_{1,2}|_{1,2}(?!\w)|`+|\\(?=[\W_])")
_MARKED_LINK: Final = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")


@dataclass(frozen=True)
class Sentence:
    """A sentence.

    Attributes:
        place: Position of its message or paragraph.
        number: Its position among the sentences of that message or paragraph.
        text: One line.
        terms: Its terms.
    """

    place: int
    number: int
    text: str
    terms: frozenset[str]

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        return bool(_QUESTION.search(self.text))


def replies(question: WindowMessage, answer: WindowMessage) -> bool:
    """Return whether a later message may answer another: somebody else sent it soon."""
    return question.author != answer.author and answer.sent_at - question.sent_at <= _ANSWER_WITHIN


def choose_words(language: str | None) -> Words:
    """Return the splitter of a language, ISO 639-1; without stems and stop words where there are none for it."""
    return Words(find_stemmer(language))


def split_messages(messages: Sequence[WindowMessage], words: Words) -> list[list[Sentence]]:
    """Split messages into sentences, one list per message."""
    return [_split(place, message.text, words) for place, message in enumerate(messages)]


def split_passage(passage: str, words: Words) -> list[Sentence]:
    """Split Markdown into the sentences of its own prose: no headings, quotes, tables, code, or markup."""
    paragraphs = ["\n".join(_unwrap(part)) for part in _BLANK.split(passage)]
    return [sentence for place, text in enumerate(paragraphs) for sentence in _split(place, text, words)]


def weigh_terms(groups: Sequence[Collection[str]]) -> dict[str, float]:
    """Weigh each term by its rarity among groups of terms, such as messages."""
    counts = Counter(term for group in groups for term in set(group))
    return {term: math.log(1 + len(groups) / count) for term, count in counts.items()}


def sum_weights(terms: Iterable[str], weights: Mapping[str, float]) -> float:
    """Add the weights of terms. The order of a set depends on the process, and so does a sum; hence the sorting."""
    return sum(weights.get(term, 0.0) for term in sorted(terms))


def choose_sentences(sentences: Sequence[Sentence], weights: Mapping[str, float], most: int) -> list[int]:
    """Choose the sentences that together say most, each for what the ones before it did not say.

    Args:
        sentences: Candidates.
        weights: Weight of each term.
        most: Most sentences.

    Returns:
        Positions in ``sentences``, best first; empty if no sentence holds a term with a weight.
    """
    chosen: list[int] = []
    said: set[str] = set()
    for _ in range(min(most, len(sentences))):
        gains = {
            place: sum_weights(sentence.terms - said, weights) / math.sqrt(max(len(sentence.text), _SHORT))
            for place, sentence in enumerate(sentences)
            if place not in chosen
        }
        best = max(gains, key=lambda place: (gains[place], -place))
        if not gains[best]:
            break
        chosen.append(best)
        said |= sentences[best].terms
    return chosen


def shorten(text: str) -> str:
    """Cut a text after :data:`LONGEST` characters, between words where it has spaces."""
    beginning = _BEGINNING.match(text)
    if beginning is None or beginning.end() == len(text):
        return text
    head, space, _ = beginning[0].rpartition(" ")
    return f"{(head if space else beginning[0]).rstrip()} …"


def _split(place: int, text: str, words: Words) -> list[Sentence]:
    lines = (" ".join(text[start:end].split()) for start, end in split_sentences(text, 0, len(text)))
    return [
        Sentence(place, number, line, frozenset(words.split(line)))
        for number, line in enumerate(line for line in lines if line)
    ]


def _unwrap(paragraph: str) -> list[str]:
    """Join the wrapped lines of a paragraph; items of a list stay apart."""
    joined: list[str] = []
    for line in paragraph.splitlines():
        if _NOT_PROSE.match(line):
            continue
        item = _ITEM.match(line)
        text = _MARKUP.sub("", _MARKED_LINK.sub(r"\1", line[item.end() :] if item else line)).strip()
        if joined and not item:
            joined[-1] = f"{joined[-1]} {text}"
        else:
            joined.append(text)
    return joined
