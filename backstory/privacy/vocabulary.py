"""Vocabularies: the folded spellings of people's names that are found in one kind of text.

A name of several words matches as separate words and, unless it is short, as one word. An umlaut matches both stripped
and written out.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import regex

from backstory.privacy.folding import Word, fold, is_unspaced

_BETWEEN_PARTS: Final = re.compile(r"[\s_.\u00b7\u2022\u30fb]+")
_FULL_NAME: Final = regex.compile(r"[\p{Han}\p{Hangul}]{3,}")
_LEAST_JOINED_LETTERS = 6
"""Shorter names of several words are often an ordinary word when written as one (``Al So``)."""
_COMPARED_LETTERS = 128
_MOST_SPELLED_WORDS = 4


class Condition(NamedTuple):
    """Conditions for a match, beyond equal letters.

    Attributes:
        joints: Numbers of letters after which a word must end, for short names of several words.
        cased: The letters with their case, for names of one word in lines of the app.
    """

    joints: frozenset[int] = frozenset()
    cased: str | None = None


@dataclass(frozen=True)
class Vocabulary:
    """The folded names to find in one kind of text, each with its conditions, of which one must hold."""

    names: dict[str, set[Condition]] = field(default_factory=lambda: defaultdict(set))
    beginnings: set[str] = field(default_factory=set)

    def add(self, letters: str, condition: Condition) -> None:
        """Add a name to find."""
        if letters.removeprefix("@"):
            self.names[letters].add(condition)
            self.beginnings.update(
                letters[:end] for end in range(1, min(len(letters), _COMPARED_LETTERS) + 1)
            )


def find_in_words(
    text: str, words: list[Word], letters: list[str], vocabulary: Vocabulary
) -> Iterator[tuple[int, int]]:
    """Find the names of a vocabulary in the words of a text.

    Args:
        text: The text.
        words: Its words, in order.
        letters: The folded letters of each word.
        vocabulary: The names to find.

    Yields:
        The positions of the first and the last word of every name, the longest at each position.
    """
    names, beginnings = vocabulary.names, vocabulary.beginnings
    next_free = 0
    for first, beginning in enumerate(letters):
        if first < next_free or not beginning or beginning[:_COMPARED_LETTERS] not in beginnings:
            continue
        joined, ends, longest = "", set[int](), -1
        for at in range(first, len(letters)):
            if joined == "@" and words[at][0] != words[at - 1][1]:
                break
            joined += letters[at]
            ends.add(len(joined))
            if joined[:_COMPARED_LETTERS] not in beginnings:
                break
            if joined in names and letters[at]:
                written = text[words[first][0] : words[at][1]]
                if any(_holds(condition, ends, written) for condition in names[joined]):
                    longest = at
        if longest >= 0:
            yield first, longest
            next_free = longest + 1


def _holds(condition: Condition, ends: set[int], written: str) -> bool:
    return condition.joints <= ends and (
        condition.cased is None
        or condition.cased in (fold(written, keep_case=True), fold(written, keep_case=True, digraphs=True))
    )


def spell(name: str, *, keep_case: bool = False) -> set[str]:
    """Give the folded spellings of a name.

    Args:
        name: A name, without or with the ``@`` of a mention.
        keep_case: Whether the letters keep their case.

    Returns:
        Its letters without spaces and accents, with each umlaut both stripped and written out.
    """
    words = name.removeprefix("@").split(" ")
    forms = [
        sorted({fold(word, keep_case=keep_case), fold(word, keep_case=keep_case, digraphs=True)})
        for word in words
    ]
    if sum(len(form) > 1 for form in forms) > _MOST_SPELLED_WORDS:
        joined = " ".join(words)
        return {fold(joined, keep_case=keep_case), fold(joined, keep_case=keep_case, digraphs=True)}
    return {"".join(form) for form in itertools.product(*forms)}


def add_full_name(vocabulary: Vocabulary, name: str) -> None:
    """Add a name of several words, as separate words and, unless it is short, as one word.

    Args:
        vocabulary: Takes the name.
        name: A name for which :func:`is_full_name` is true.
    """
    words = _BETWEEN_PARTS.split(name)
    for digraphs in (False, True):
        folded = [fold(word, digraphs=digraphs) for word in words]
        ends = frozenset(itertools.accumulate(len(word) for word in folded if word))
        short = sum(map(len, folded)) < _LEAST_JOINED_LETTERS and not is_unspaced("".join(words))
        condition = Condition(ends) if short else Condition()
        vocabulary.add("".join(folded), condition)
        if not short:
            for letters in spell(name):
                vocabulary.add(letters, condition)


def is_full_name(name: str) -> bool:
    """Say whether a name has several words, so that it is not an ordinary word."""
    if is_phone(name):
        return False
    if _FULL_NAME.fullmatch(name):
        return True
    least = 1 if " " in name else 2  # initials joined by dots are often an ordinary word
    return sum(len(fold(part)) >= least for part in _BETWEEN_PARTS.split(name)) > 1


def is_phone(name: str) -> bool:
    """Say whether a normalized name is a phone number."""
    return name.startswith("+") and name[1:].isdigit()
