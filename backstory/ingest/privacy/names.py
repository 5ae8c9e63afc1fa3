"""Names of people in chats: compares them, and finds them in texts.

A name of several words is found anywhere in a text, in any spelling: in any case, with or without accents, with any
apostrophe, joined by ``_ . -`` or nothing, through tags, entities and escapes (:mod:`backstory.ingest.privacy.views`),
in other orders and with initials (:mod:`backstory.ingest.privacy.forms`). So is a name of three or more Chinese or
Korean characters. A name of one word, and the first word of a longer name, are found only in mentions (``@Anna``),
because they are often ordinary words. In lines that the app writes, and in the names of files and conversations, every
whole name is found. Names in another script or with typing errors are not found.
"""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import polars as pl
import regex

from backstory.ingest.privacy.folding import find_words, fold, places_of_letters
from backstory.ingest.privacy.forms import (
    Form,
    Vocabulary,
    is_full_name,
    is_phone,
    list_forms,
    list_forms_of_word,
    spell,
)
from backstory.ingest.privacy.phones import PhoneFinder
from backstory.ingest.privacy.views import find_open_marks, list_views_of_names, spread_views

Place = Literal["message", "app line", "identifier"]
"""The kind of a text: written by a person, written by the app, or the name of a file or conversation."""

BLANK: Final = "\ufffc"
"""An object that a chat shows; so it is in no name."""
_MARKS = f"\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff{BLANK}"
_MARK: Final = re.compile(f"[{_MARKS}]")
_PHONE: Final = re.compile(r"\+?[\d\s().\-\u2010\u2011]{7,}")
_PHONE_GAP = r"[\s().\-\u2010\u2011/]{0,3}"
_LEAST_PHONE_DIGITS = 7

_MENTION: Final = r"@\u2068[^\u2069\n]{1,100}\u2069|@\+?\d{7,15}(?!\d)"
_MARKED: Final[dict[Place, re.Pattern[str]]] = {
    "message": re.compile(_MENTION),
    "app line": re.compile(rf"{_MENTION}|\+\d(?:{_PHONE_GAP}\d){{6,14}}(?!\d)"),
}
"""What is a name or a number by its marks, whoever is known."""
_LEAST_BURIED_LETTERS = 8
"""Shorter names are often a part of other words in file names."""


def normalize_name(name: str) -> str:
    """Normalize a name, so that it is equal in the exports of all platforms.

    It returns the name composed (NFC), in folded case, with single spaces, without invisible marks and without the
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
    """A name in a text, from ``start`` to ``end``, its person, and whether it begins with the ``@`` of a mention."""

    start: int
    end: int
    person: str
    is_mention: bool


FindNames = Callable[[str], Sequence[Found]]


class NameFinder:
    """Finds people's names in texts."""

    def __init__(
        self,
        names: Iterable[str],
        members: Iterable[str] = (),
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._people: dict[str, str] = {}
        self._names: set[str] = set()
        for name in sorted(names):
            self._add(name)
        self._members = set(filter(None, map(plain_name, members))) - self._names
        self._phones = PhoneFinder(filter(is_phone, self._names))
        self._vocabularies: dict[Place, Vocabulary] = {}
        self._aliases = {self.person(alias): self.person(name) for alias, name in aliases.items()}

    def person(self, written: str) -> str:
        """Return the person of a name.

        It returns the person's normalized name. A name that several people could have is returned as it is.
        """
        return self._identify(normalize_name(written.removeprefix("@")))

    def resolve(self, person: str) -> str:
        """Return the person whose alias a person's name is, or the person itself."""
        return self._aliases.get(person, person)

    def list_people(self) -> list[str]:
        """List the normalized names of all people."""
        return sorted({*self._people.values()})

    @cached_property
    def full_names(self) -> list[str]:
        """The names of several words, in folded case."""
        return sorted({name.casefold() for name in self._names if is_full_name(name)})

    def may_hold(self, texts: pl.Series, place: Place) -> pl.Series:
        """Select quickly the texts in which :meth:`find` can find something."""
        views, rows = spread_views(texts)
        selected = self._phones.may_hold(views)
        written = views.to_list()
        if names := sorted(self._vocabulary(place).names):
            folded = pl.Series([text and fold(text) for text in written], dtype=pl.String)
            selected.update(folded.str.contains_any(names).arg_true())
        for pattern in self._list_patterns(place):
            selected.update(view for view, text in enumerate(written) if text and pattern.search(text))
        matching = {rows[view] for view in selected}
        return pl.Series([row in matching for row in range(len(texts))], dtype=pl.Boolean)

    def find(self, text: str, place: Place) -> list[Found]:
        """Find names.

        It returns the names in the order of the text, in messages with the ending of a possessive, without overlaps;
        where two overlap, the earlier and then the longer one.
        """
        found = []
        for view in list_views_of_names(text):
            for start, end, person in self._find_in_view(view.text, place):
                # `Sanders'` as a whole, since the ending of another name is another.
                last = end_possessive(view.text, start, end) if place == "message" else end
                found.append(Found(*view.place(start, last), person, view.text[start] in "@＠﹫"))
        return take_apart(found)

    def replace(self, texts: pl.Series, place: Place, write: Callable[[str], str]) -> pl.Series:
        """Replace every name in texts; a tag stays if its other half stands outside of the name."""

        def write_found(found: Found, written: str) -> str:
            name = write(found.person)
            return write_possessive(name, written) if place == "message" else name

        replaced = [
            replace_found(text, lambda part: self.find(part, place), write_found) if may_hold else text
            for text, may_hold in zip(texts, self.may_hold(texts, place), strict=True)
        ]
        return pl.Series(texts.name, replaced, dtype=pl.String)

    def _identify(self, name: str, form: str = "") -> str:
        if is_phone(name):
            return self._people.get(name) or self._phones.owner(name) or name
        if name in self._owners:
            return self._owners[name]
        owners = (self._owners.get(letters) for letters in (*sorted(spell(name)), form))
        return next(filter(None, owners), name)

    def _find_in_view(self, text: str, place: Place) -> Iterator[tuple[int, int, str]]:
        """Find start, end and person of every name."""
        yield from self._phones.find(text)
        words = find_words(text)
        for match in self._vocabulary(place).find(text, words):
            start, end = words[match.first][0], words[match.last][1]
            name = normalize_name(text[start:end].removeprefix("@"))
            yield start, end, self._identify(name, match.letters.removeprefix("@"))
        for pattern in self._list_patterns(place):
            for found in pattern.finditer(text):
                yield *found.span(), self.person(found.group())
        if place == "identifier":
            yield from self._find_buried(text)

    def _find_buried(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Find long names inside longer words."""
        joined = fold(text)
        for name in self._buried:
            if name in joined:
                places = [place for word in find_words(text) for place in places_of_letters(word)]
                for match in re.finditer(re.escape(name), joined):
                    start, end = places[match.start()][0], places[match.end() - 1][1]
                    yield start, end, self.person(text[start:end])

    def _vocabulary(self, place: Place) -> Vocabulary:
        if place not in self._vocabularies:
            self._vocabularies[place] = Vocabulary(self._list_forms(place))
        return self._vocabularies[place]

    def _list_forms(self, place: Place) -> Iterator[Form]:
        """List the forms of names to find in a kind of text."""
        names = self._names
        if place == "identifier":
            yield from itertools.chain.from_iterable(map(list_forms_of_word, names))
        else:
            for name in {*names, *self._members, *self._first_names}:
                forms = list_forms_of_word(name)
                yield from (("@" + letters, condition) for letters, condition in forms if letters)
        if place == "app line":
            names = names | self._members
            for name in names:
                if not is_full_name(name):
                    for cased, condition in list_forms_of_word(name, keep_case=True):
                        yield fold(cased), condition._replace(cased=cased)
        yield from itertools.chain.from_iterable(map(list_forms, filter(is_full_name, names)))

    def _list_patterns(self, place: Place) -> list[re.Pattern[str]]:
        """List the patterns of what is a name by its marks, and of names without letters."""
        return [pattern for pattern in (_MARKED.get(place), self._unspeakable.get(place)) if pattern]

    @cached_property
    def _buried(self) -> list[str]:
        """Folded names that are long enough to be found inside longer words of file names."""
        forms = {letters for name in self.full_names for letters in spell(name, contracted=True)}
        return sorted(letters for letters in forms if len(letters) >= _LEAST_BURIED_LETTERS)

    @cached_property
    def _unspeakable(self) -> dict[Place, re.Pattern[str]]:
        """Names without a letter, digit or emoji, in mentions and, in lines of the app, between spaces."""
        names = sorted(
            (name for name in {*self._names, *self._members} if not fold(name)), key=len, reverse=True
        )
        if not names:
            return {}
        mention, written = rf"@[{_MARKS}]*(?:~\s*)?", "|".join(map(re.escape, names))
        return {
            "message": re.compile(rf"{mention}(?:{written})(?!\S)"),
            "app line": re.compile(rf"(?:{mention}|(?<!\S))(?:{written})(?!\S)"),
        }

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
    def _owners(self) -> dict[str, str]:
        """The person of each form of a name that only one person has; a form that is closer to the name counts more."""
        return (
            _unambiguous(self._people, _list_letters)
            | _unambiguous(self._first_names, lambda name: spell(name, contracted=True))
            | _unambiguous(self._first_names, spell)
            | _unambiguous(self._people, spell)
            | self._first_names
            | self._people
        )

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


def take_apart(found: Iterable[Found]) -> list[Found]:
    """Return names in order and without overlaps; where two overlap, the earlier and then the longer one."""
    apart = list[Found]()
    for match in sorted(found, key=lambda match: (match.start, -match.end)):
        if not apart or match.start >= apart[-1].end:
            apart.append(match)
    return apart


def replace_found(text: str, find: FindNames, write: Callable[[Found, str], str]) -> str:
    """Replace every name that is found in a text.

    What is left beside a replaced name stands alone, and may be a name itself.
    """
    found = find(text) if text else ()
    if not found:
        return text
    bounds = itertools.pairwise([0, *(place for match in found for place in match[:2]), len(text)])
    rest = [text[start:end] for start, end in bounds][::2]
    if find(BLANK.join(rest)):
        rest = [replace_found(piece, find, write) for piece in rest]
    parts = [rest[0]]
    for match, behind in zip(found, rest[1:], strict=True):
        marks = find_open_marks(text, match.start, match.end)
        opening, closing = (replace_found(mark, find, write) for mark in marks)
        name = write(match, text[match.start : match.end])
        parts.append(f"{opening}{'@' * match.is_mention}{name}{closing}{behind}")
    return "".join(parts)


def _list_letters(name: str) -> set[str]:
    forms = list_forms(name) if is_full_name(name) else ()
    return {*spell(name, contracted=True), *(letters for letters, _ in forms)}


def _unambiguous(people: Mapping[str, str], spell: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """Return people by those spellings of their names that only one person has."""
    owners: dict[str, set[str]] = defaultdict(set)
    for name, person in people.items():
        for letters in spell(name):
            owners[letters].add(person)
    return {letters: min(persons) for letters, persons in owners.items() if letters and len(persons) == 1}


_ENDING: Final = regex.compile(r"(?<mark>['’ʼ])[sS]$")
_AFTER: Final = regex.compile(r"['’ʼ][sS](?![\p{L}\p{N}])|(?<=[sxzSXZ])['’ʼ](?=\s+[\p{L}\p{N}\[*_`\"“(])")
_QUOTED: Final = regex.compile(r"(?<![\p{L}\p{N}])['‘](?!\s)[^'’\n]*$")
_READ_BEFORE: Final = 200
"""Characters before a name in which a quotation may begin."""


def end_possessive(text: str, start: int, end: int) -> int:
    """Return where a name from ``start`` to ``end`` ends with the ending of its possessive, if it has one.

    An apostrophe alone counts before a word, unless it may close a quotation.
    """
    found = _AFTER.match(text, end)
    is_alone = found is not None and found.end() - found.start() == 1
    if found is None or (is_alone and _QUOTED.search(text[max(start - _READ_BEFORE, 0) : start])):
        return end
    return int(found.end())


def has_possessive(written: str) -> bool:
    """Return whether a word ends with an apostrophe and an s."""
    return _ENDING.search(written) is not None


def write_possessive(shown: str, written: str) -> str:
    """Return another name in place of a written one, with the ending of a possessive if that has one."""
    plain = html.unescape(written)
    if ending := _ENDING.search(plain):
        return f"{shown}{ending['mark']}s"
    return f"{shown}{plain[-1]}s" if plain[-1:] in ("'", "’", "ʼ") else shown
