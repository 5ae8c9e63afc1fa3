"""Names of people in chats: compares them, and finds them in texts.

A name of several words is found anywhere in a text, in any spelling: in any case, with or without accents, with any
apostrophe, joined by ``_ . -`` or nothing. So is a name of three or more Chinese or Korean characters. A name of one
word, and the first word of a longer name, are found only in mentions (``@Anna``), because they are often ordinary
words. In lines that the app writes, and in the names of files and conversations, every whole name is found. Names in
another script, with typing errors, or with their words in another order are not found.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple

import polars as pl

from backstory.privacy.folding import Word, find_words, fold, places_of_letters
from backstory.privacy.phones import PhoneFinder
from backstory.privacy.vocabulary import (
    Condition,
    Vocabulary,
    add_full_name,
    find_in_words,
    is_full_name,
    is_phone,
    spell,
)

_MARKS = "\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_MARK: Final = re.compile(f"[{_MARKS}]")
_PHONE: Final = re.compile(r"\+?[\d\s().\-\u2010\u2011]{7,}")
_PHONE_GAP = r"[\s().\-\u2010\u2011/]{0,3}"
_LEAST_PHONE_DIGITS = 7

ISOLATED_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069"
NUMBER_MENTION: Final = r"@\+?\d{7,15}"
ANY_PHONE: Final = rf"\+\d(?:{_PHONE_GAP}\d){{6,14}}"
_CERTAIN: Final = re.compile(rf"{ISOLATED_MENTION}|{NUMBER_MENTION}(?!\d)")
_CERTAIN_IN_APP_LINE: Final = re.compile(rf"{_CERTAIN.pattern}|{ANY_PHONE}(?!\d)")

_UMLAUT: Final = r"[äöüåøÄÖÜÅØ\x{300}-\x{30a}%]"
_LEAST_BURIED_LETTERS = 8
"""Shorter names are often a part of other words in file names."""
Place = Literal["message", "app line", "identifier"]
"""The kind of a text: written by a person, written by the app, or the name of a file or conversation."""


def normalize_name(name: str) -> str:
    """Normalize a name, so that it is equal in the exports of all platforms.

    Args:
        name: As an export of any platform writes it.

    Returns:
        The name composed (NFC), in folded case, with single spaces, without direction marks and without the
        tilde before an unsaved contact; of a phone number, a plus sign and its digits.
    """
    return unicodedata.normalize("NFC", plain_name(name).casefold())


def plain_name(name: str) -> str:
    """Normalize like :func:`normalize_name`, but keep the case."""
    plain = unicodedata.normalize("NFC", _MARK.sub("", name)).strip().removeprefix("~").strip()
    digits = "".join(character for character in plain if character.isdigit())
    if len(digits) >= _LEAST_PHONE_DIGITS and _PHONE.fullmatch(plain):
        return f"+{digits if plain.startswith('+') else digits.removeprefix('00')}"
    return " ".join(plain.split())


class Found(NamedTuple):
    """A name in a text, from ``start`` to ``end``, and its person. A mention begins at its ``@``."""

    start: int
    end: int
    person: str


class NameFinder:
    """Finds people's names in texts.

    Args:
        names: Names as exports write them.
        members: Names of members who did not write. They are found only in mentions and in lines of the app.
    """

    def __init__(self, names: Iterable[str], members: Iterable[str] = ()) -> None:
        self._people: dict[str, str] = {}
        self._names: set[str] = set()
        for name in sorted(names):
            self._add(name)
        self._members = set(filter(None, map(plain_name, members))) - self._names
        self.phones = PhoneFinder(filter(is_phone, self._names))

    def person(self, written: str) -> str:
        """Give the person of a name.

        Args:
            written: An author, or a name as found in a text.

        Returns:
            The person's normalized name. A name that several people could have is returned as it is.
        """
        name = normalize_name(written.removeprefix("@"))
        known = self._people.get(name) or self._first_names.get(name)
        if known:
            return known
        if is_phone(name):
            return self.phones.owner(name) or name
        letters = [fold(name, digraphs=digraphs).removeprefix("@") for digraphs in (False, True)]
        for people in (self._by_letters, self._first_names_by_letters):
            for spelling in letters:
                if person := people.get(spelling):
                    return person
        return name

    def vocabulary(self, place: Place) -> Vocabulary:
        """Give the names to find in a kind of text, for the independent search of :mod:`backstory.privacy.leaks`."""
        return {"message": self._spoken, "app line": self._in_app_lines, "identifier": self._in_identifiers}[
            place
        ]

    @cached_property
    def buried(self) -> list[str]:
        """Folded names that are long enough to be found inside longer words of file names."""
        forms = itertools.chain.from_iterable(spell(name) for name in self._names if is_full_name(name))
        return sorted({letters for letters in forms if len(letters) >= _LEAST_BURIED_LETTERS})

    @cached_property
    def unspeakable(self) -> re.Pattern[str] | None:
        """Names without a letter, digit or emoji, in mentions and, in lines of the app, between spaces."""
        names = sorted(
            (name for name in {*self._names, *self._members} if not fold(name)), key=len, reverse=True
        )
        if not names:
            return None
        written = "|".join(map(re.escape, names))
        return re.compile(rf"(?:@[{_MARKS}]*(?:~\s*)?|(?<!\S))(?:{written})(?!\S)")

    def may_hold(self, texts: pl.Series, place: Place) -> pl.Series:
        """Select quickly the texts in which :meth:`find` can find something.

        Args:
            texts: Any texts, or nulls.
            place: Their kind.

        Returns:
            One boolean per text.
        """
        names = sorted(self.vocabulary(place).names)
        selected = self.phones.may_hold(texts)
        if names:
            selected |= _contains_any(texts, names, digraphs=False) | _contains_any(
                texts, names, digraphs=True
            )
        if place != "identifier":
            selected |= texts.str.contains(f"{ISOLATED_MENTION}|{NUMBER_MENTION}").fill_null(value=False)
        if place == "app line":
            selected |= texts.str.contains(ANY_PHONE).fill_null(value=False)
        if self.unspeakable and place != "identifier":
            selected |= texts.is_not_null()
        return selected

    def find(self, text: str, place: Place) -> list[Found]:
        """Find names.

        Args:
            text: Any text.
            place: Its kind.

        Returns:
            The names in the order of the text, without overlaps; where two overlap, the earlier and then the
            longer one.
        """
        found = [Found(*match) for match in self.phones.find(text)]
        for start, end in self._find_spans(text, place):
            found.append(Found(start, end, self.person(text[start:end])))
        found.sort(key=lambda match: (match.start, -match.end))
        apart: list[Found] = []
        for match in found:
            if not apart or match.start >= apart[-1].end:
                apart.append(match)
        return apart

    def replace(self, texts: pl.Series, place: Place, write: Callable[[str], str]) -> pl.Series:
        """Replace every name in texts.

        Args:
            texts: Any texts, or nulls.
            place: Their kind.
            write: Gives the replacement for a person's normalized name.

        Returns:
            The texts; those without a name are unchanged.
        """
        selected = zip(texts, self.may_hold(texts, place), strict=True)
        replaced = [self._replace(text, place, write) if may_hold else text for text, may_hold in selected]
        return pl.Series(texts.name, replaced, dtype=pl.String)

    def _replace(self, text: str, place: Place, write: Callable[[str], str]) -> str:
        found = self.find(text, place)
        if not found:
            return text
        parts, done = [], 0
        for start, end, person in found:
            # Text beside a replaced name now stands alone, so it may be a name itself.
            parts.append(self._replace(text[done:start], place, write))
            parts.append(f"@{write(person)}" if text[start] in "@＠﹫" else write(person))
            done = end
        return "".join([*parts, self._replace(text[done:], place, write)])

    def _find_spans(self, text: str, place: Place) -> Iterator[tuple[int, int]]:
        vocabulary = self.vocabulary(place)
        words = find_words(text)
        plain = [fold(word) for _, _, word in words]
        spelled = [fold(word, digraphs=True) for _, _, word in words]
        for letters in (plain, spelled) if spelled != plain else (plain,):
            for first, last in find_in_words(text, words, letters, vocabulary):
                yield words[first][0], words[last][1]
            if place == "identifier":
                yield from self._find_buried(words, letters, digraphs=letters is spelled)
        if place != "identifier":
            certain = _CERTAIN if place == "message" else _CERTAIN_IN_APP_LINE
            yield from (match.span() for match in certain.finditer(text))
            if self.unspeakable:
                for match in self.unspeakable.finditer(text):
                    if place == "app line" or text[match.start()] == "@":
                        yield match.span()

    def _find_buried(
        self, words: list[Word], letters: list[str], *, digraphs: bool
    ) -> Iterator[tuple[int, int]]:
        joined = "".join(letters)
        if not any(name in joined for name in self.buried):
            return
        places = [place for word in words for place in places_of_letters(word, digraphs=digraphs)]
        for name in self.buried:
            for match in re.finditer(re.escape(name), joined):
                yield places[match.start()][0], places[match.end() - 1][1]

    @cached_property
    def _spoken(self) -> Vocabulary:
        vocabulary = Vocabulary()
        for name in {*self._names, *self._members, *self._first_names}:
            for letters in spell(name):
                vocabulary.add(f"@{letters}", Condition())
        for name in self._names:
            if is_full_name(name):
                add_full_name(vocabulary, name)
        return vocabulary

    @cached_property
    def _in_app_lines(self) -> Vocabulary:
        vocabulary = Vocabulary(
            defaultdict(
                set, {letters: set(conditions) for letters, conditions in self._spoken.names.items()}
            ),
            set(self._spoken.beginnings),
        )
        for name in {*self._names, *self._members}:
            if is_full_name(name):
                add_full_name(vocabulary, name)
            else:
                for cased in spell(name, keep_case=True):
                    vocabulary.add(fold(cased), Condition(cased=cased))
        return vocabulary

    @cached_property
    def _in_identifiers(self) -> Vocabulary:
        vocabulary = Vocabulary()
        for name in self._names:
            for letters in spell(name):
                vocabulary.add(letters, Condition())
        return vocabulary

    @cached_property
    def _first_names(self) -> dict[str, str]:
        """People by the first word of their name; a word that several people share maps to itself."""
        longer = sorted(person for person in set(self._people.values()) if " " in person)
        firsts = Counter(person.split(" ")[0] for person in longer)
        people = {person.split(" ")[0]: person for person in longer}
        return {
            first: person if firsts[first] == 1 else first
            for first, person in people.items()
            if first.isalpha() and len(first) > 1
        }

    @cached_property
    def _by_letters(self) -> dict[str, str]:
        return _unambiguous(self._people)

    @cached_property
    def _first_names_by_letters(self) -> dict[str, str]:
        return _unambiguous(self._first_names)

    def _add(self, written: str) -> None:
        name = plain_name(written)
        if not name:
            return
        person = normalize_name(written)
        self._names.add(name)
        self._people[person] = person
        words = [word for word in name.split(" ") if any(map(str.isalnum, word))]
        if 1 < len(words) < len(name.split(" ")):  # a name with an emoji is also found without it
            self._names.add(" ".join(words))
            self._people.setdefault(normalize_name(" ".join(words)), person)


def _contains_any(texts: pl.Series, names: list[str], *, digraphs: bool) -> pl.Series:
    if digraphs:  # most texts have no umlaut, so no second spelling
        texts = texts.set(~texts.str.contains(_UMLAUT).fill_null(value=False), None)
    folded = [None if text is None else fold(text, digraphs=digraphs) for text in texts]
    return pl.Series(folded, dtype=pl.String).str.contains_any(names).fill_null(value=False)


def _unambiguous(people: dict[str, str]) -> dict[str, str]:
    """Give people by those spellings of their names that only one person has."""
    owners: dict[str, set[str]] = defaultdict(set)
    for name, person in people.items():
        for letters in spell(name):
            owners[letters].add(person)
    return {letters: min(persons) for letters, persons in owners.items() if letters and len(persons) == 1}
