"""Names of people in chats: compares them, and finds them in texts.

A name of several words is found anywhere in a text, in any spelling: in any case, with or without accents, with any
apostrophe, joined by ``_ . -`` or nothing, in other orders and with initials (:mod:`backstory.ingest.privacy.forms`).
So is a name of three or more Chinese or Korean characters. A name of one word, and the first word of a longer name, are
found only in mentions (``@Anna``), because they are often ordinary words. In lines that the app writes, and in the
names of files and conversations, every whole name is found. Names in another script, with typing errors, inside of
entities and escapes (``&#xE4;``), or cut by a tag (``<b>Anna</b> Lind``) are not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import polars as pl
import regex

from backstory.ingest.privacy.folding import DIGRAPH, contract, find_words, fold, fold_word
from backstory.ingest.privacy.forms import (
    INITIAL,
    Condition,
    Form,
    Vocabulary,
    fold_name,
    form_of_word,
    is_full_name,
    is_phone,
    list_forms,
    spell,
)
from backstory.ingest.privacy.phones import NUMBER, PhoneFinder

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
"""Pattern of what is a name or a number by its marks, whoever is known."""
_ANY_PHONE: Final = rf"\+\d(?:{_PHONE_GAP}\d){{6,14}}(?!\d)"
_GRAPHEME: Final = regex.compile(r"\X")
_LEAST_BURIED_LETTERS: Final = 8
"""Shorter names are often a part of other words in file names."""
_NOTHING: Final = "\0"
"""No letters hold it; Polars refuses an empty list of texts to search for."""


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
    """A name in a text, from ``start`` to ``end``, without the ``@`` of a mention, and its person."""

    start: int
    end: int
    person: str


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
        self._aliases: Mapping[str, str] = {}
        self._aliases = {self.person(alias): self.person(name) for alias, name in aliases.items()}

    def person(self, written: str, letters: str = "") -> str:
        """Return the person of a name or an alias: the person's normalized name.

        A name that several people could have is returned as it is. ``letters``: those of the form that was found, if it
        was found in a text.
        """
        name = normalize_name(written.removeprefix("@"))
        person = self._people.get(name)
        if person is None and is_phone(name):
            person = self._phones.owner(name)
        elif person is None:
            keys = (fold(name), fold_name(name), letters.removeprefix("@"))
            owners = (known[key] for known in self._owners for key in keys if key in known)
            person = next((min(people) for people in owners if len(people) == 1), None)
        return self._aliases.get(person or name, person or name)

    def list_names(self) -> list[str]:
        """List the normalized names of all people."""
        return sorted({*self._people.values()})

    @cached_property
    def full_names(self) -> list[str]:
        """The names of several words, in folded case."""
        return sorted({name.casefold() for name in self._names if is_full_name(name)})

    def may_hold(self, texts: pl.Series, place: Place) -> pl.Series:
        """Select quickly the texts in which :meth:`find` can find something."""
        selected = texts.str.contains("[@＠﹫]")
        if self._phones.is_any or place == "app line":
            selected |= texts.str.contains(NUMBER)
        if place != "identifier" and self._unspeakable:
            selected |= texts.str.contains_any(self._unspeakable)
        elif place == "identifier":
            texts = pl.Series([text and unquote(text) for text in texts], dtype=pl.String)
        # The first letter of a name may end what stands for an umlaut (`so Erik`).
        forms = {name[name[0] in "ae" :] or name for name in self._vocabulary(place).names}
        surnames = {fold_word(find_words(name)[-1][2])[1:] for name in self.full_names}
        letters = pl.Series([text and fold(text) for text in texts], dtype=pl.String)
        letters = letters.str.replace_all(DIGRAPH, "${1}${2}")
        selected |= letters.str.contains_any([_NOTHING, *forms])
        with_initials = letters.str.contains_any([_NOTHING, *surnames])
        selected |= with_initials & texts.str.contains(INITIAL)
        return selected.fill_null(value=False)

    def find(self, text: str, place: Place) -> list[Found]:
        """Find names.

        It returns the names in the order of the text, without overlaps; where two overlap, the earlier and then the
        longer one. Places in the name of a file count the characters of the name without escapes.
        """
        return self._find(unquote(text) if place == "identifier" else text, place)

    def replace(self, texts: pl.Series, place: Place, write: Callable[[str], str]) -> pl.Series:
        """Replace every name in texts; the name of a file that holds one loses its escapes."""
        replaced = list[str | None]()
        for text, may_hold in zip(texts, self.may_hold(texts, place), strict=True):
            if may_hold and place == "identifier" and self.find(text, place):
                text = unquote(text)
            replaced.append(
                replace_found(text, partial(self._find, place=place), write) if may_hold else text
            )
        return pl.Series(texts.name, replaced, dtype=pl.String)

    def _find(self, text: str, place: Place) -> list[Found]:
        words = find_words(text)
        found = [Found(*span) for span in self._phones.find(text)]
        for match in self._vocabulary(place).find(text, words):
            start, end = words[match.first][0], words[match.last][1]
            found.append(self._make_found(text, start, end, match.letters))
        if pattern := self._patterns.get(place):
            found += (self._make_found(text, *match.span()) for match in pattern.finditer(text))
        if place == "identifier":
            letters = [(*match.span(), match.group()) for match in _GRAPHEME.finditer(text)]
            for match in self._long_names.find(text, letters):
                start, end = letters[match.first][0], letters[match.last][1]
                found.append(self._make_found(text, start, end, match.letters))
        return take_apart(found)

    def _make_found(self, text: str, start: int, end: int, letters: str = "") -> Found:
        is_mention = text[start] in "@＠﹫" and end > start + 1  # `@@` is a name, too
        return Found(start + is_mention, end, self.person(text[start:end], letters))

    def _vocabulary(self, place: Place) -> Vocabulary:
        if place not in self._vocabularies:
            self._vocabularies[place] = Vocabulary(self._list_forms(place))
        return self._vocabularies[place]

    def _list_forms(self, place: Place) -> Iterator[Form]:
        """List the forms of names to find in a kind of text."""
        if place == "identifier":
            yield from map(form_of_word, self._names)
        else:
            for name in {*self._names, *self._members, *self._first_names}:
                letters, condition = form_of_word(name)
                if letters:
                    yield "@" + letters, condition
        full = self._names
        if place == "app line":
            full = self._names | self._members
            yield from (form_of_word(name, keep_capitals=True) for name in full if not is_full_name(name))
        for name in filter(is_full_name, full):
            yield from list_forms(name)

    @cached_property
    def _long_names(self) -> Vocabulary:
        """Names that are long enough to be found inside longer words of the names of files, letter by letter."""
        spelled = (letters for name in self.full_names for letters in spell(name))
        return Vocabulary(
            (letters, Condition()) for letters in spelled if len(letters) >= _LEAST_BURIED_LETTERS
        )

    @cached_property
    def _unspeakable(self) -> list[str]:
        """Names without a letter, digit or emoji."""
        names = (name for name in {*self._names, *self._members} if not fold(name).strip("@"))
        return sorted(names, key=len, reverse=True)

    @cached_property
    def _patterns(self) -> dict[Place, re.Pattern[str]]:
        """The patterns of what is a name by its marks, and of names without letters."""
        written = "|".join(map(re.escape, self._unspeakable)) or "(?!)"
        mention = rf"{_MENTION}|@[{_MARKS}]*(?:~\s*)?(?:{written})(?!\S)"
        in_app_line = rf"{_ANY_PHONE}|(?<!\S)(?:{written})(?!\S)"
        return {"message": re.compile(mention), "app line": re.compile(f"{mention}|{in_app_line}")}

    @cached_property
    def _first_names(self) -> dict[str, set[str]]:
        """People by the first word of their name."""
        people = defaultdict[str, set[str]](set)
        for person in self._people.values():
            first, _, others = person.partition(" ")
            if others and first.isalpha() and len(first) > 1:
                people[first].add(person)
        return people

    @cached_property
    def _owners(self) -> list[dict[str, set[str]]]:
        """The people of letters: of their whole names, of their first names, and of all forms; the first counts."""
        by_name, by_first, by_form = (defaultdict[str, set[str]](set) for _ in range(3))
        for first, people in self._first_names.items():
            by_first[fold(first)] |= people
            by_form[fold_name(first)] |= people
        for name, person in self._people.items():
            by_name[fold(name)].add(person)
            for letters, _ in (form_of_word(name), *(list_forms(name) if is_full_name(name) else ())):
                by_form[letters].add(person)
                by_form[contract(letters)].add(person)
        return [by_name, by_first, by_form]

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


def replace_found(text: str, find: Callable[[str], Sequence[Found]], write: Callable[[str], str]) -> str:
    """Replace every name that is found in a text; what stands beside one is searched by itself."""
    found = find(text) if text else ()
    if not found:
        return text
    parts, done = list[str](), 0
    for match in found:
        parts += (replace_found(text[done : match.start], find, write), write(match.person))
        done = match.end
    return "".join([*parts, replace_found(text[done:], find, write)])
