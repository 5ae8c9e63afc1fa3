"""Names of topics: the things that the messages of a topic talk about, in their own words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from backstory.text.people import is_pseudonym
from backstory.text.words import Words
from backstory.writing.determiners import HOLLOW

_SURFACE: Final = regex.compile(
    r"(?V1)[\p{Han}\p{Katakana}ー]{2,}"
    r"|\p{L}[[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}]]*(?:['’\-][\p{L}\p{N}]+)*"
)
_RUN: Final = regex.compile(r"\S+")
_ADDRESS: Final = regex.compile(r"://|www\.|@|\p{N}\p{L}")
_MARK: Final = regex.compile(r"(?:\A| )\{\p{L}[^{}\n]{0,30}\}(?!\w)")
"""Mark of a transcript in place of what is no word, such as "{gap}" or "{vocalsound}"."""
_ELISION: Final = regex.compile(r"(?<!\p{L})(\p{L}{1,2})['’](?=\p{L})")
_APART: Final = " | "
"""What stands in place of what is no word, so that the words around it are no neighbours."""
_LETTERS: Final = 3
_MOST_WORDS: Final = 3
_TITLE_FACTOR: Final = 2.0
"""How much more a word counts that the title of the topic's document holds, too."""
_DESCRIBED: Final = 0.5
"""Weight of a place in which a word may describe a noun; a place in which it must be a noun counts 1."""
_NOUN_SHARE: Final = 0.3
"""Share of a word's places that are those of nouns, from which on it is taken for one."""
_LESS_LONELY: Final = 2
"""Sentences of a topic that hold a word, from which on it may describe another word in a name."""
_SAID_OFTEN: Final = 3
"""Times that several words are written together, from which on they name a thing."""


@dataclass(frozen=True)
class Phrase:
    """One to three neighbouring words.

    Attributes:
        text: As most messages write it.
        terms: Its terms.
        weight: How well it names its topic.
        count: How often it is written.
    """

    text: str
    terms: frozenset[str]
    weight: float
    count: int

    @property
    def tells(self) -> bool:
        """Whether it has several words that are a name with its capital letters, or that are said again and again."""
        words = self.text.split(" ")
        return len(words) > 1 and (self.count >= _SAID_OFTEN or all(word[0].isupper() for word in words))


@dataclass(frozen=True)
class _Word:
    """A word of a sentence that has terms.

    Attributes:
        text: As it is written.
        terms: Its terms.
        joined: Whether only a space separates it from the word with terms before it.
        introduced: Whether an introducer stands before it, or before the words to which it is joined.
        first: Whether it begins the sentence, or a part of it.
    """

    text: str
    terms: frozenset[str]
    joined: bool
    introduced: bool
    first: bool

    @property
    def is_name(self) -> bool:
        """Whether it has a capital letter that is its own."""
        return self.text[0].isupper() and not self.first and not self.text.isupper()


def find_phrases(
    sentences: Sequence[str],
    titles: Iterable[str],
    weights: Mapping[str, float],
    words: Words,
    introducers: frozenset[str],
    most: int,
) -> list[Phrase]:
    """Find the phrases that name a topic best.

    A phrase occurs in the messages as it is. Its strongest word mostly stands where nouns stand: after an introducer,
    or inside a sentence with a capital letter. In a language without known introducers, any word may be the strongest.

    Args:
        sentences: Sentences of the topic's messages.
        titles: Titles of the documents that serve it.
        weights: How rare each term is among the topics of the window.
        words: Splits texts into terms.
        introducers: Words that stand before nouns, from :func:`backstory.writing.determiners.list_introducers`.
        most: Most phrases.

    Returns:
        Phrases without a term in common, best first.
    """
    split = [_split(sentence, words, introducers) for sentence in sentences]
    in_titles = {term for title in titles for term in words.split(title)}
    counts = Counter(terms for sentence in split for terms in {word.terms for word in sentence})
    shares = _share_of_nouns(split) if introducers else dict.fromkeys(counts, 1.0)

    def weigh(terms: frozenset[str]) -> float:
        rarity = sum(weights.get(term, 0.0) for term in sorted(terms)) / math.sqrt(len(terms))
        factor = _TITLE_FACTOR if terms & in_titles else 1.0
        certainty = min(shares[terms] / _NOUN_SHARE, 1.0) ** 2
        return rarity * factor * certainty * math.log(1 + counts[terms])

    runs = _count_runs(split, counts, shares)
    chosen: list[Phrase] = []
    for terms in sorted(counts, key=lambda terms: (-weigh(terms), sorted(terms))):
        if len(chosen) == most or (chosen and not weigh(terms)):
            break
        if all(terms.isdisjoint(other.terms) for other in chosen):
            chosen.append(_choose_phrase(terms, runs, weigh(terms), chosen))
    return chosen


def drop_marks(text: str) -> str:
    """Leave out the marks of a transcript, which are no words that somebody said."""
    return _MARK.sub("", text).strip() if "{" in text else text


def capitalize(text: str) -> str:
    """Begin a text with a capital letter, and leave the rest."""
    return text[:1].upper() + text[1:]


def _split(sentence: str, words: Words, introducers: frozenset[str]) -> list[_Word]:
    """Return the words of a sentence that have terms."""
    plain = _ELISION.sub(r"\1 ", _RUN.sub(_hide_address, _MARK.sub(_APART, sentence)))
    found: list[_Word] = []
    before: regex.Match[str] | None = None
    joins = False
    for match in _SURFACE.finditer(plain):
        follows = before is not None and plain[before.end() : match.start()] == " "
        terms = frozenset(words.split(match[0])) if len(match[0]) >= _LETTERS else frozenset[str]()
        if match[0].casefold() in introducers | HOLLOW or is_pseudonym(match[0]):
            terms = frozenset()
        if terms:
            is_joined = joins and follows
            introduced = (is_joined and found[-1].introduced) or (
                follows and before is not None and before[0].casefold() in introducers
            )
            found.append(_Word(match[0], terms, is_joined, introduced, first=not follows))
        before, joins = match, bool(terms)
    return found


def _hide_address(run: regex.Match[str]) -> str:
    # One expression for run and mark would look through a long run from each of its characters.
    return _APART if _ADDRESS.search(run[0]) else run[0]


def _share_of_nouns(split: Sequence[Sequence[_Word]]) -> dict[frozenset[str], float]:
    """Return the share of the places of each word in which it must be, or may be, a noun."""
    places: Counter[frozenset[str]] = Counter()
    nouns: dict[frozenset[str], float] = {}
    for sentence in split:
        for place, word in enumerate(sentence):
            places[word.terms] += 1
            goes_on = place + 1 < len(sentence) and sentence[place + 1].joined
            alone = not word.joined and not goes_on
            value = 1.0 if word.is_name or (word.introduced and alone) else _DESCRIBED * word.introduced
            nouns[word.terms] = nouns.get(word.terms, 0.0) + value
    return {terms: value / places[terms] for terms, value in nouns.items()}


def _count_runs(
    split: Sequence[Sequence[_Word]],
    counts: Mapping[frozenset[str], int],
    shares: Mapping[frozenset[str], float],
) -> dict[tuple[frozenset[str], ...], Counter[str]]:
    """Count how each run of neighbouring words is written.

    Of several words, each must occur in several sentences of the topic, and mostly where nouns stand.
    """
    runs: dict[tuple[frozenset[str], ...], Counter[str]] = {}
    for sentence in split:
        for run in _list_runs(sentence):
            if len(run) == 1 or all(
                counts[word.terms] >= _LESS_LONELY and shares[word.terms] >= _NOUN_SHARE for word in run
            ):
                written = " ".join(word.text for word in run)
                if run[0].first and run[0].text.istitle():
                    written = written[0].lower() + written[1:]  # the capital letter is that of the sentence
                runs.setdefault(tuple(word.terms for word in run), Counter())[written] += 1
    return runs


def _list_runs(sentence: Sequence[_Word]) -> Iterator[Sequence[_Word]]:
    for start in range(len(sentence)):
        for end in range(start + 1, min(start + _MOST_WORDS, len(sentence)) + 1):
            if end - start > 1 and not sentence[end - 1].joined:
                break
            yield sentence[start:end]


def _choose_phrase(
    terms: frozenset[str],
    runs: Mapping[tuple[frozenset[str], ...], Counter[str]],
    weight: float,
    chosen: Sequence[Phrase],
) -> Phrase:
    """Choose the longest run that holds a word and was written more than once, or else the word alone."""
    taken = frozenset[str]().union(*(phrase.terms for phrase in chosen))
    fitting = [
        run
        for run, written in runs.items()
        if terms in run
        and (len(run) == 1 or written.total() > 1)
        and taken.isdisjoint(frozenset().union(*run))
        and len(set(run)) == len(run)
    ]
    best = max(fitting, key=lambda run: (len(run), runs[run].total(), [sorted(terms) for terms in run]))
    written = runs[best]
    text = max(written, key=lambda surface: (written[surface], surface.islower(), surface))
    return Phrase(text, frozenset[str]().union(*best), weight, written.total())
