"""Surnames that stand alone in a document which also holds the full name of their person.

A surname may be an ordinary word or somebody else's name, so it is nobody's in messages. A document that calls a person
by the full name once and by the surname from then on says whose it is, unless it names another person with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import regex

from backstory.ingest.privacy.folding import find_words, fold
from backstory.ingest.privacy.forms import PARTICLES, Condition, Vocabulary, is_phone, spell
from backstory.ingest.privacy.names import Found, end_possessive, has_possessive, take_apart
from backstory.ingest.privacy.views import list_views

_LEAST_LETTERS = 2
_READ_BEFORE = 80
"""Characters before a surname in which its first name is looked for."""
_LETTERS: Final = regex.compile(r"[\p{L}\p{M}]+")
_WORD: Final = regex.compile(r"[\p{L}\p{M}'’\-]+")
_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv", "phd", "md"))
_TITLES: Final = frozenset(
    ("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "sir", "herr", "frau")
)
_GLUED_BEFORE: Final = regex.compile(r"(?:[\p{L}\p{N}_@＠]|\p{L}[-\u2010\u2011])$")
_GLUED_BEHIND: Final = regex.compile(r"[\p{L}\p{N}_@＠]|[-\u2010\u2011]\p{Lu}")
_ADDRESS: Final = regex.compile(r"(?:https?://|www\.)[^\s<>()\[\]]+")
_BEFORE: Final = regex.compile(r"(?<![\p{L}\p{N}])(?<word>[\p{L}\p{M}'’\-]+)(?<dot>\.?)[^\S\n]*\n?[^\S\n]*$")


class _Place(NamedTuple):
    start: int
    end: int
    letters: str


class SurnameFinder:
    """Finds surnames of people that stand alone, written with a capital, and their possessives."""

    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = {
            letters: person for surname, person in people.items() for letters in spell_surname(surname)
        }
        self._vocabulary = Vocabulary((letters, Condition()) for letters in self._people)

    def find(self, text: str, found: Sequence[Found]) -> list[Found]:
        """Find surnames beside the names that were found in a text.

        It returns these and the surnames with the ending of a possessive, in order and apart.
        """
        names = list(found)
        for view in list_views(text) if self._people else []:
            for start, end, letters in self.list_places(view.text):
                place = view.place(start, end_possessive(view.text, start, end))
                names.append(Found(*place, self._people[letters], is_mention=False))
        return take_apart(names)

    def list_places(self, text: str, *, small: bool = False) -> Iterator[_Place]:
        """Yield where whole words of a text are a surname, with a capital or all in small letters."""
        words = find_words(text)
        addresses = [match.span() for match in _ADDRESS.finditer(text)]
        for match in self._vocabulary.find(text, words):
            start, end = words[match.first][0], words[match.last][1]
            is_small = not any(map(str.isupper, text[start:end]))
            if (
                is_small == small
                and not _GLUED_BEFORE.search(text[max(start - 2, 0) : start])
                and not _GLUED_BEHIND.match(text, end)
                and not any(first <= start < last for first, last in addresses)
            ):
                yield _Place(start, end, match.letters)


def find_surname(person: str) -> str | None:
    """Return the surname of a person with its particles (``van gogh``), or None for a name without one."""
    if is_phone(person):
        return None
    words = [word for word in person.split(" ") if _WORD.fullmatch(word.strip(".,")) and fold(word)]
    words = [word.strip(".,") for word in words]
    while words and words[-1].replace(".", "") in _SUFFIXES:
        words.pop()
    if len(words) < 2 or len(fold(words[-1])) < _LEAST_LETTERS or words[-1].upper() == words[-1]:
        return None
    cut = len(words) - 1
    while cut > 1 and words[cut - 1] in PARTICLES:
        cut -= 1
    return " ".join(words[cut:])


def spell_surname(surname: str) -> set[str]:
    """Return the folded spellings of a surname, with and without its particles."""
    return spell(surname, contracted=True) | spell(surname.split(" ")[-1], contracted=True)


def list_clear_surnames(
    text: str, people: Mapping[str, str], found: Sequence[Found], stop_words: Collection[str]
) -> set[str]:
    """List the surnames that, alone in a document, can be only one person's, and are no ordinary word in it."""
    seen = list_views(text)[-1]
    # `In Lind's words`: a word that the document also writes in small letters only begins a sentence.
    ordinary = {*stop_words, *_TITLES, *(word for word in _LETTERS.findall(seen.text) if word.islower())}
    finder = SurnameFinder(people)
    by_letters = {letters: surname for surname in people for letters in spell_surname(surname)}
    starts = [match.start for match in found]
    capitals, shared = Counter[str](), set[str]()
    for start, _, letters in finder.list_places(seen.text):
        place = seen.place(start, start + 1)[0]
        before = bisect_right(starts, place) - 1
        if before >= 0 and place < found[before].end:
            continue
        surname = by_letters[letters]
        capitals[surname] += 1
        if _follows_first_name(seen.text, start, people[surname], ordinary):
            shared.add(surname)
    small = Counter(by_letters[letters] for _, _, letters in finder.list_places(seen.text, small=True))
    return {
        surname
        for surname in people
        if surname not in shared and (not capitals[surname] or small[surname] < capitals[surname])
    }


def _follows_first_name(text: str, start: int, person: str, ordinary: Collection[str]) -> bool:
    before = _BEFORE.search(text[max(start - _READ_BEFORE, 0) : start])
    if before is None or not before["word"][:1].isupper():
        return False
    word = before["word"]
    if before["dot"]:
        return len(fold(word)) == 1
    is_of_person = fold(word) in map(fold, person.split(" "))
    is_abbreviation = word.isupper() and len(word) > 1
    return not (is_of_person or is_abbreviation or has_possessive(word) or word.lower() in ordinary)
