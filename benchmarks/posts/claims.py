"""The claims of a post, and what supports them: a proxy without a model that judges."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from backstory.models.embeddings.protocol import Vectors
from backstory.text.chunking.units import split_sentences
from backstory.text.words import Words
from backstory.writing.material import ContextMaterial, WindowMaterial
from backstory.writing.sentences import split_passage, sum_weights, weigh_terms

SHARED_WORDS: Final = 0.75
"""Share of the weight of a claim's words that a sentence must hold to support it."""
SAME_MEANING: Final = 0.85
"""Cosine from which on a sentence supports a claim whose words it does not hold."""

_NEAREST: Final = 3
"""Sentences whose meaning is compared with that of a claim, those with most of its words."""
_FEWEST_TERMS: Final = 3
"""Fewest terms of a claim; shorter sentences state too little to be judged."""
_ABOUT_THE_POST: Final = re.compile(r"#{1,6}\s|\*[^*]+\*\s*\Z")
_MARKS: Final = re.compile(r"^(?:>\s?|[-+*]\s+|\d{1,9}[.)]\s+)+")
_SPEAKER: Final = re.compile(r"^\*\*[^*\n]{1,80}\*\*(?: (?:\d\d? \w+ \d{4} )?\d\d:\d\d)?:\s*")
_CITED: Final = re.compile(r"\[\d{1,4}\]")
_MARKUP: Final = re.compile(r"\\(?=[\W_])|\*+|`+")

Embed = Callable[[list[str]], Vectors]


@dataclass(frozen=True)
class Source:
    """A sentence that a writer was shown.

    Attributes:
        text: The sentence.
        terms: Its terms.
        message: Position of its message; None for a sentence of a document.
    """

    text: str
    terms: frozenset[str]
    message: int | None


def find_claims(text: str) -> list[str]:
    """Split a post into its sentences, without headings, lines in italics, speakers, citations and markup."""
    claims = []
    for line in text.splitlines():
        if not line.strip() or _ABOUT_THE_POST.match(line):
            continue
        plain = _MARKUP.sub("", _CITED.sub("", _SPEAKER.sub("", _MARKS.sub("", line.strip()))))
        claims += [plain[start:end] for start, end in split_sentences(plain, 0, len(plain))]
    return claims


def list_sources(window: WindowMaterial, context: ContextMaterial, words: Words) -> list[Source]:
    """List the sentences of a window, and those and the titles of the documents of its context."""
    sources = [
        Source(text, frozenset(words.split(text)), place)
        for place, message in enumerate(window.messages)
        for start, end in split_sentences(message.text, 0, len(message.text))
        for text in [" ".join(message.text[start:end].split())]
    ]
    for citation in context.citations:
        sources.append(Source(citation.title, frozenset(words.split(citation.title)), None))
        sources += [Source(one.text, one.terms, None) for one in split_passage(citation.passage, words)]
    return sources


def support_claims(
    claims: Sequence[str], sources: Sequence[Source], words: Words, embed: Embed
) -> list[Source | None]:
    """Find the sentence that supports each claim.

    Args:
        claims: From :func:`find_claims`.
        sources: From :func:`list_sources`.
        words: Splits the claims into terms, as it split the sources.
        embed: Gives one unit vector per text.

    Returns:
        For each claim with at least three terms the sentence that holds most of its words, or else is nearest in
        meaning, or None if no sentence is near enough.
    """
    weights = weigh_terms([source.terms for source in sources])
    rarest = max(weights.values(), default=1.0)
    holders: dict[str, list[int]] = defaultdict(list)
    for place, source in enumerate(sources):
        for term in source.terms:
            holders[term].append(place)
    found: list[Source | None] = []
    open_claims: dict[int, tuple[str, list[Source]]] = {}
    for claim in claims:
        terms = frozenset(words.split(claim))
        if len(terms) < _FEWEST_TERMS:
            continue
        known = {term: weights.get(term, rarest) for term in terms}  # a word that no source holds is as rare
        nearest = _find_nearest(terms, sources, holders, known)
        shared = sum_weights(terms & nearest[0].terms, known) if nearest else 0.0
        supported = shared >= SHARED_WORDS * sum_weights(terms, known)
        if nearest and not supported:
            open_claims[len(found)] = (claim, nearest[:_NEAREST])
        found.append(nearest[0] if supported else None)
    for place, source in _compare_meaning(open_claims, embed).items():
        found[place] = source
    return found


def _find_nearest(
    terms: frozenset[str],
    sources: Sequence[Source],
    holders: Mapping[str, Sequence[int]],
    weights: Mapping[str, float],
) -> list[Source]:
    """Order the sentences that share a word with a claim by the weight of all shared words."""
    places = sorted({place for term in terms for place in holders.get(term, ())})
    places.sort(key=lambda place: -sum_weights(terms & sources[place].terms, weights))
    return [sources[place] for place in places]


def _compare_meaning(
    open_claims: Mapping[int, tuple[str, Sequence[Source]]], embed: Embed
) -> dict[int, Source]:
    texts = [
        text for claim, nearest in open_claims.values() for text in (claim, *(one.text for one in nearest))
    ]
    if not texts:
        return {}
    vectors = embed(texts)
    supported: dict[int, Source] = {}
    row = 0
    for place, (_, nearest) in open_claims.items():
        cosines = vectors[row + 1 : row + 1 + len(nearest)] @ vectors[row]
        best = int(np.argmax(cosines))
        if cosines[best] >= SAME_MEANING:
            supported[place] = nearest[best]
        row += 1 + len(nearest)
    return supported
