"""Vocabularies: the forms of people's names that are found in one kind of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from backstory.ingest.privacy.folding import Word, places_of_letters
from backstory.ingest.privacy.forms import Condition, Form, Written

_COMPARED_LETTERS = 128


class Match(NamedTuple):
    """A name in words of a text: the first and the last of them, and the folded letters."""

    first: int
    last: int
    letters: str


@dataclass(frozen=True)
class Vocabulary:
    """The folded names to find in one kind of text, each with its conditions, of which one must hold."""

    names: dict[str, set[Condition]] = field(default_factory=lambda: defaultdict(set))

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """The letters with which the names begin; made when a text is searched, after the last name was added."""
        return frozenset(
            letters[:end]
            for letters in self.names
            for end in range(1, min(len(letters), _COMPARED_LETTERS) + 1)
        )

    def add(self, forms: Iterable[Form], prefix: str = "") -> None:
        """Add forms of a name to find, each behind a prefix."""
        for letters, condition in forms:
            if letters:
                self.names[prefix + letters].add(condition)


def find_in_words(
    text: str, words: list[Word], letters: list[str], vocabulary: Vocabulary
) -> Iterator[Match]:
    """Find the names of a vocabulary in the words of a text.

    It yields every name, the longest at each position.
    """
    names, beginnings = vocabulary.names, vocabulary.beginnings
    next_free = 0
    for first, beginning in enumerate(letters):
        if first < next_free or not beginning or beginning[:_COMPARED_LETTERS] not in beginnings:
            continue
        joined, ends, longest = "", set[int](), None
        for at in range(first, len(letters)):
            if joined == "@" and words[at][0] != words[at - 1][1]:
                break
            joined += letters[at]
            ends.add(len(joined))
            if joined[:_COMPARED_LETTERS] not in beginnings:
                break
            if (
                joined in names
                and letters[at]
                and _is_met(names[joined], text, words[first : at + 1], frozenset(ends))
            ):
                longest = Match(first, at, joined)
        if longest is not None:
            yield longest
            next_free = longest.last + 1


def _is_met(conditions: set[Condition], text: str, words: list[Word], ends: frozenset[int]) -> bool:
    if Condition() in conditions:
        return True
    written = Written(text, [place for word in words for place in places_of_letters(word)], ends)
    return any(written.meets(condition) for condition in conditions)
