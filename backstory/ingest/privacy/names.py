"""Names of people in chats: compares them, and finds them in texts.

A name of several words is found anywhere in a text, in any spelling: in any case, with or without accents, with any
apostrophe, joined by ``_ . -`` or nothing, through tags, entities and escapes (:mod:`backstory.ingest.privacy.views`),
in other orders and with initials (:mod:`backstory.ingest.privacy.forms`). So is a name of three or more Chinese or
Korean characters. A name of one word, and the first word of a longer name, are found only in mentions (``@Anna``),
because they are often ordinary words. In lines that the app writes, and in the names of files and conversations, every
whole name is found. Names in another script or with typing errors are not found.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple

import polars as pl

from backstory.ingest.privacy.folding import Word, find_words, fold, places_of_letters
from backstory.ingest.privacy.forms import is_full_name, is_phone, list_forms, list_forms_of_word, spell
from backstory.ingest.privacy.phones import PhoneFinder
from backstory.ingest.privacy.possessives import end_possessive, write_possessive
from backstory.ingest.privacy.views import find_open_marks, list_views_of_names, spread_views
from backstory.ingest.privacy.vocabulary import Vocabulary, find_in_words

BLANK: Final = "\ufffc"
"""Separates the texts on both sides of a replaced name; so it is in no name."""
_MARKS = f"\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff{BLANK}"
_MARK: Final = re.compile(f"[{_MARKS}]")
_PHONE: Final = re.compile(r"\+?[\d\s().\-\u2010\u2011]{7,}")
_PHONE_GAP = r"[\s().\-\u2010\u2011/]{0,3}"
_LEAST_PHONE_DIGITS = 7

ISOLATED_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069"
NUMBER_MENTION: Final = r"@\+?\d{7,15}"
ANY_PHONE: Final = rf"\+\d(?:{_PHONE_GAP}\d){{6,14}}"
_CERTAIN: Final = re.compile(rf"{ISOLATED_MENTION}|{NUMBER_MENTION}(?!\d)")
_CERTAIN_IN_APP_LINE: Final = re.compile(rf"{_CERTAIN.pattern}|{ANY_PHONE}(?!\d)")

_LEAST_BURIED_LETTERS = 8
"""Shorter names are often a part of other words in file names."""
Place = Literal["message", "app line", "identifier"]
"""The kind of a text: written by a person, written by the app, or the name of a file or conversation."""


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

    def __init__(self, names: Iterable[str], members: Iterable[str] = ()) -> None:
        self._people: dict[str, str] = {}
        self._names: set[str] = set()
        for name in sorted(names):
            self._add(name)
        self._members = set(filter(None, map(plain_name, members))) - self._names
        self.phones = PhoneFinder(filter(is_phone, self._names))

    def person(self, written: str) -> str:
        """Return the person of a name.

        It returns the person's normalized name. A name that several people could have is returned as it is.
        """
        name = normalize_name(written.removeprefix("@"))
        return self._find_person(name) or name

    def list_people(self) -> list[str]:
        """List the normalized names of all people."""
        return sorted({*self._people.values()})

    def _find_person(self, name: str) -> str | None:
        known = self._people.get(name) or self._first_names.get(name)
        if known or is_phone(name):
            return known or self.phones.owner(name)
        spellings = sorted(spell(name))
        for people in (self._by_letters, self._first_names_by_letters):
            for letters in spellings:
                if person := people.get(letters):
                    return person
        return None

    def vocabulary(self, place: Place) -> Vocabulary:
        """Return the names to find in a kind of text; :mod:`backstory.ingest.privacy.leaks` searches for them."""
        return {"message": self._spoken, "app line": self._in_app_lines, "identifier": self._in_identifiers}[
            place
        ]

    @cached_property
    def buried(self) -> list[str]:
        """Folded names that are long enough to be found inside longer words of file names."""
        full = filter(is_full_name, self._names)
        forms = itertools.chain.from_iterable(spell(name, contracted=True) for name in full)
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
        """Select quickly the texts in which :meth:`find` can find something."""
        views, rows = spread_views(texts)
        matching = {rows[view] for view in self._list_views_that_may_hold(views, place)}
        return pl.Series([row in matching for row in range(len(texts))], dtype=pl.Boolean)

    def _list_views_that_may_hold(self, texts: pl.Series, place: Place) -> set[int]:
        selected = self.phones.may_hold(texts)
        if names := sorted(self.vocabulary(place).names):
            folded = pl.Series([None if text is None else fold(text) for text in texts], dtype=pl.String)
            selected.update(folded.str.contains_any(names).arg_true())
        if place != "identifier":
            certain = _CERTAIN if place == "message" else _CERTAIN_IN_APP_LINE
            selected.update(
                row for row, text in enumerate(texts) if text is not None and certain.search(text)
            )
            if self.unspeakable:
                selected.update(texts.is_not_null().arg_true())
        return selected

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
        found.sort(key=lambda match: (match.start, -match.end))
        apart: list[Found] = []
        for match in found:
            if not apart or match.start >= apart[-1].end:
                apart.append(match)
        return apart

    def replace(self, texts: pl.Series, place: Place, write: Callable[[str], str]) -> pl.Series:
        """Replace every name in texts. Marks of HTML and Markdown of which one half stands inside a name are kept."""
        selected = zip(texts, self.may_hold(texts, place), strict=True)
        replaced = [
            replace_found(
                text,
                lambda part: self.find(part, place),
                lambda found, written: _write(write(found.person), written, place),
                has_marks=place != "identifier",
            )
            if may_hold
            else text
            for text, may_hold in selected
        ]
        return pl.Series(texts.name, replaced, dtype=pl.String)

    def _find_in_view(self, text: str, place: Place) -> Iterator[tuple[int, int, str]]:
        """Find start, end and person of every name."""
        yield from self.phones.find(text)
        words = find_words(text)
        letters = [fold(word) for _, _, word in words]
        for first, last, form in find_in_words(text, words, letters, self.vocabulary(place)):
            start, end = words[first][0], words[last][1]
            name = normalize_name(text[start:end].removeprefix("@"))
            yield start, end, self._find_person(name) or self._by_forms.get(form.removeprefix("@"), name)
        for start, end in self._find_others(text, words, letters, place):
            yield start, end, self.person(text[start:end])

    def _find_others(
        self, text: str, words: list[Word], letters: list[str], place: Place
    ) -> Iterator[tuple[int, int]]:
        if place == "identifier":
            yield from self._find_buried(words, letters)
            return
        certain = _CERTAIN if place == "message" else _CERTAIN_IN_APP_LINE
        yield from (match.span() for match in certain.finditer(text))
        if self.unspeakable:
            for match in self.unspeakable.finditer(text):
                if place == "app line" or text[match.start()] == "@":
                    yield match.span()

    def _find_buried(self, words: list[Word], letters: list[str]) -> Iterator[tuple[int, int]]:
        joined = "".join(letters)
        if not any(name in joined for name in self.buried):
            return
        places = [place for word in words for place in places_of_letters(word)]
        for name in self.buried:
            for match in re.finditer(re.escape(name), joined):
                yield places[match.start()][0], places[match.end() - 1][1]

    @cached_property
    def _spoken(self) -> Vocabulary:
        vocabulary = Vocabulary()
        for name in {*self._names, *self._members, *self._first_names}:
            vocabulary.add(list_forms_of_word(name), "@")
        for name in filter(is_full_name, self._names):
            vocabulary.add(list_forms(name))
        return vocabulary

    @cached_property
    def _in_app_lines(self) -> Vocabulary:
        spoken = {letters: set(conditions) for letters, conditions in self._spoken.names.items()}
        vocabulary = Vocabulary(defaultdict(set, spoken))
        for name in filter(is_full_name, self._members):
            vocabulary.add(list_forms(name))
        for name in {*self._names, *self._members}:
            if not is_full_name(name):
                for cased, condition in list_forms_of_word(name, keep_case=True):
                    vocabulary.add([(fold(cased), condition._replace(cased=cased))])
        return vocabulary

    @cached_property
    def _in_identifiers(self) -> Vocabulary:
        vocabulary = Vocabulary()
        for name in self._names:
            vocabulary.add(list_forms_of_word(name))
            if is_full_name(name):
                vocabulary.add(list_forms(name))
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
        return _unambiguous(self._people, spell)

    @cached_property
    def _first_names_by_letters(self) -> dict[str, str]:
        return _unambiguous(self._first_names, spell)

    @cached_property
    def _by_forms(self) -> dict[str, str]:
        """People by those forms of their names that only one person has."""
        first_names = _unambiguous(self._first_names, lambda name: spell(name, contracted=True))
        return first_names | _unambiguous(self._people, _list_letters)

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


def replace_found(
    text: str, find: FindNames, write: Callable[[Found, str], str], *, has_marks: bool = True
) -> str:
    """Replace every name that is found in a text."""
    # Text beside a replaced name now stands alone, so it may be a name itself.
    hidden = [BLANK] * text.count(BLANK)
    while found := find(text):
        parts, retained, done, seen = list[str](), list[str](), 0, 0
        for match in found:
            start, end = match.start, match.end
            opening, closing = find_open_marks(text, start, end) if has_marks else ("", "")
            before = text[done:start] + opening + "@" * match.is_mention
            passed = seen + text.count(BLANK, done, start)
            retained += [
                *hidden[seen:passed],
                *_list_blanks(opening),
                write(match, text[start:end]),
                *_list_blanks(closing),
            ]
            parts += [before, BLANK, closing]
            seen, done = passed + text.count(BLANK, start, end), end
        text, hidden = "".join([*parts, text[done:]]), [*retained, *hidden[seen:]]
    pieces = text.split(BLANK)
    return "".join(itertools.chain.from_iterable(zip(pieces, [*hidden, ""], strict=True)))


def _list_letters(name: str) -> set[str]:
    forms = list_forms(name) if is_full_name(name) else ()
    return {*spell(name, contracted=True), *(letters for letters, _ in forms)}


def _write(name: str, written: str, place: Place) -> str:
    return write_possessive(name, written) if place == "message" else name


def _list_blanks(text: str) -> list[str]:
    return [BLANK] * text.count(BLANK)


def _unambiguous(people: Mapping[str, str], spell: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """Return people by those spellings of their names that only one person has."""
    owners: dict[str, set[str]] = defaultdict(set)
    for name, person in people.items():
        for letters in spell(name):
            owners[letters].add(person)
    return {letters: min(persons) for letters, persons in owners.items() if letters and len(persons) == 1}
