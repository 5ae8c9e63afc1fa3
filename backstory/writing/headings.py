"""Names of topics: the words that set a topic apart from the rest of its window."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from backstory.index.engines.words import Words

_SURFACE: Final = regex.compile(
    r"(?V1)[\p{Han}\p{Katakana}ー]{2,}"
    r"|(?<![\p{N}])\p{L}[[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}]]{2,}(?:['’\-][\p{L}\p{N}]{3,})*"
)
_ADDRESS: Final = regex.compile(r"\S*(?:://|www\.|@)\S*")
_TITLE_FACTOR: Final = 2.0
"""How much more a word counts that the title of the topic's document holds, too."""


@dataclass(frozen=True)
class Phrase:
    """A word, or two neighbouring words.

    Attributes:
        text: As most messages write it.
        terms: Its terms.
        weight: How well it names its topic.
    """

    text: str
    terms: frozenset[str]
    weight: float


def find_phrases(
    sentences: Sequence[str], titles: Iterable[str], weights: Mapping[str, float], words: Words, most: int
) -> list[Phrase]:
    """Find the phrases that name a topic best.

    Args:
        sentences: Sentences of the topic's messages.
        titles: Titles of the documents that serve it.
        weights: How rare each term is among the topics of the window.
        words: Splits texts into terms.
        most: Most phrases.

    Returns:
        Phrases without a term in common, best first.
    """
    in_titles = {term for title in titles for term in words.split(title)}
    surfaces: dict[frozenset[str], Counter[str]] = {}
    held: Counter[frozenset[str]] = Counter()
    for sentence in sentences:
        found = _split(sentence, words)
        held.update({terms for terms, _ in found})
        for terms, surface in found:
            surfaces.setdefault(terms, Counter())[surface] += 1
    phrases = [
        Phrase(_choose_surface(surfaces[terms]), terms, _weigh(terms, count, in_titles, weights))
        for terms, count in held.items()
    ]
    chosen: list[Phrase] = []
    for phrase in sorted(phrases, key=lambda phrase: (-phrase.weight, phrase.text)):
        if len(chosen) < most and all(phrase.terms.isdisjoint(other.terms) for other in chosen):
            chosen.append(phrase)
    return chosen


def capitalize(text: str) -> str:
    """Begin a text with a capital letter, and leave the rest."""
    return text[:1].upper() + text[1:]


def _split(sentence: str, words: Words) -> list[tuple[frozenset[str], str]]:
    """Give the words of a sentence that have terms, and the pairs of neighbours among them."""
    plain = _ADDRESS.sub(" | ", sentence)
    found: list[tuple[frozenset[str], str]] = []
    before: tuple[int, frozenset[str], str] | None = None
    for match in _SURFACE.finditer(plain):
        terms, surface = frozenset(words.split(match[0])), match[0]
        if not terms:
            before = None
            continue
        if surface.istitle() and not plain[: match.start()].strip():
            surface = surface.lower()  # the capital letter is that of the sentence
        found.append((terms, surface))
        if before is not None and plain[before[0] : match.start()] == " " and before[1].isdisjoint(terms):
            found.append((before[1] | terms, f"{before[2]} {surface}"))
        before = (match.end(), terms, surface)
    return found


def _weigh(terms: frozenset[str], count: int, in_titles: set[str], weights: Mapping[str, float]) -> float:
    rarity = sum(weights.get(term, 0.0) for term in sorted(terms)) / math.sqrt(len(terms))
    factor = _TITLE_FACTOR if terms & in_titles else 1.0
    # A pair that was written once is chance; a word that was written once is an aside.
    return rarity * factor * math.log(count + (0.2 if len(terms) > 1 else 1))


def _choose_surface(written: Counter[str]) -> str:
    """Choose the way most messages write a phrase; of equally many the one in small letters."""
    return max(written, key=lambda surface: (written[surface], surface.islower(), surface))
