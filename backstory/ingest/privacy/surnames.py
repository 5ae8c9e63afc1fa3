"""Surnames that stand alone in a document which also holds the full name of their person.

A surname may be an ordinary word or somebody else's name, so it is nobody's in messages. A document that calls a person
by the full name once and by the surname from then on says whose it is, unless it names another person with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import regex

from backstory.ingest.privacy.folding import contract, find_words, fold
from backstory.ingest.privacy.forms import Form, Vocabulary, find_surname_start, fold_name, is_phone
from backstory.ingest.privacy.names import Found, take_apart

_LETTERS: Final = regex.compile(r"[\p{L}\p{M}]+")
_WORD: Final = regex.compile(r"[\p{L}\p{M}'’\-]+")
_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv", "phd", "md"))
_TITLES: Final = ("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "sir", "herr", "frau")
_GLUED_BEFORE: Final = regex.compile(r"(?:[\p{L}\p{N}_@＠]|\p{L}[-\u2010\u2011])$")
_GLUED_BEHIND: Final = regex.compile(r"[\p{L}\p{N}_@＠]|[-\u2010\u2011]\p{Lu}")
_ADDRESS: Final = regex.compile(r"(?:https?://|www\.)[^\s<>()\[\]]+")
_BEFORE: Final = regex.compile(r"(?<![\p{L}\p{N}])(?<word>[\p{L}\p{M}'’\-]+)(?<dot>\.?)[^\S\n]*\n?[^\S\n]*$")


class SurnameFinder:
    """Finds surnames of people that stand alone, written with a capital."""

    def __init__(self, people: Mapping[str, str]) -> None:
        self._vocabulary = Vocabulary(
            Form(letters, person) for surname, person in people.items() for letters in spell_surname(surname)
        )

    def find(self, text: str, found: Sequence[Found]) -> list[Found]:
        """Find surnames beside the names that were found in a text; return both, in order and apart."""
        return take_apart([*found, *filter(partial(_is_capital, text), self.list_places(text))])

    def list_places(self, text: str) -> Iterator[Found]:
        """Yield where whole words of a text, but of its web addresses, are a surname."""
        read = _ADDRESS.sub(lambda address: " " * len(address[0]), text)
        for start, end, people in self._vocabulary.find(read, find_words(read)):
            if not _GLUED_BEFORE.search(read[max(start - 2, 0) : start]) and not _GLUED_BEHIND.match(
                read, end
            ):
                yield Found(start, end, min(people))


def _is_capital(text: str, found: Found) -> bool:
    return any(map(str.isupper, text[found.start : found.end]))


def find_surname(person: str) -> str | None:
    """Return the surname of a person with its particles (``van gogh``), or None for a name without one."""
    if is_phone(person):
        return None
    words = [word.strip(".,") for word in person.split(" ")]
    words = [word for word in words if _WORD.fullmatch(word) and fold(word)]
    while words and words[-1].replace(".", "") in _SUFFIXES:
        words.pop()
    if len(words) < 2 or len(fold(words[-1])) < 2 or words[-1].upper() == words[-1]:
        return None
    return " ".join(words[find_surname_start(words) :])


def spell_surname(surname: str) -> set[str]:
    """Return the letters of a surname, with and without its particles."""
    letters = {fold_name(surname), fold_name(surname.split(" ")[-1])}
    return letters | set(map(contract, letters))


def list_clear_surnames(
    text: str, people: Mapping[str, str], found: Sequence[Found], stop_words: Collection[str]
) -> set[str]:
    """List the surnames that, alone in a document, can be only one person's, and are no ordinary word in it."""
    # `In Lind's words`: a word that the document also writes in small letters only begins a sentence.
    ordinary = {*stop_words, *_TITLES, *(word for word in _LETTERS.findall(text) if word.islower())}
    in_names = {place for match in found for place in range(match.start, match.end)}
    capitals, small, shared = Counter[str](), Counter[str](), set[str]()
    for place in SurnameFinder({surname: surname for surname in people}).list_places(text):
        surname = place.person
        if not _is_capital(text, place):
            small[surname] += 1
        elif place.start not in in_names:
            capitals[surname] += 1
            if _follows_first_name(text, place.start, people[surname], ordinary):
                shared.add(surname)
    unclear = {surname for surname, times in capitals.items() if small[surname] >= times}
    return {*people} - shared - unclear


def _follows_first_name(text: str, start: int, person: str, ordinary: Collection[str]) -> bool:
    before = _BEFORE.search(text[max(start - 80, 0) : start])
    if before is None or not before["word"][:1].isupper():
        return False
    word = before["word"]
    if before["dot"]:
        return len(fold(word)) == 1
    is_of_person = fold(word) in map(fold, person.split(" "))
    is_abbreviation = word.isupper() and len(word) > 1
    is_possessive = word.lower().endswith(("'s", "’s"))
    return not (is_of_person or is_abbreviation or is_possessive or word.lower() in ordinary)
