"""Names of people in chats: compares them, and finds them in texts.

A name of several words is found anywhere, in every form of :mod:`backstory.ingest.privacy.forms`; so is a name of three
or more Chinese or Korean characters. A name of one word, and the first word of a longer name, are found only in
mentions (``@Anna``), because they are often ordinary words. In lines that the app writes, and in the names of files and
conversations, every whole name is found. A surname alone may be an ordinary word or somebody else's name, so it is
nobody's in messages. A document that calls a person by the full name once and by the surname from then on says whose it
is, unless it names another person with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import polars as pl
import regex

from backstory.ingest.privacy.forms import (
    DIGRAPH,
    INITIAL,
    LEAST_PHONE_DIGITS,
    Form,
    Vocabulary,
    contract,
    find_surname_start,
    fold,
    fold_name,
    form_of_word,
    is_full_name,
    is_phone,
    list_forms,
    spell,
)

Place = Literal["message", "app line", "identifier"]
"""The kind of a text: written by a person, written by the app, or the name of a file or conversation."""
_Part = Literal["part of a word"]

BLANK: Final = "\ufffc"
"""An object that a chat shows; so it is in no name."""
_INVISIBLE: Final = "\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_MARK: Final = re.compile(f"[{_INVISIBLE}{BLANK}]")
_PHONE: Final = re.compile(r"\+?[\d\s().\-\u2010\u2011]{7,}")

_MENTION: Final = r"@\u2068[^\u2069\n]{1,100}\u2069|@\+?\d{7,15}(?!\d)"
"""Pattern of what is a name or a number by its marks, whoever is known."""
_ANY_PHONE: Final = rf"\+\d(?:[\s().\-\u2010-\u2015/{_INVISIBLE}]{{0,3}}\d){{6,14}}(?!\d)"
_PATTERNS: Final = {"message": re.compile(_MENTION), "app line": re.compile(f"{_MENTION}|{_ANY_PHONE}")}
_MARKED: Final = rf"[@＠﹫~]|\+\d|{INITIAL}"
"""Pattern of texts in which letters alone do not show whether they hold a name."""
_GRAPHEME: Final = regex.compile(r"\X")
_LEAST_BURIED_LETTERS: Final = 8
"""Shorter names are often a part of other words in file names."""
NOTHING: Final = "\0"
"""In no text; Polars refuses an empty list of texts to search for."""


def normalize_name(name: str) -> str:
    """Normalize a name, so that it is equal in the exports of all platforms.

    It returns the name composed (NFC), in folded case, with single spaces, without invisible marks and without the
    tilde before an unsaved contact; of a phone number, a plus sign and its digits.
    """
    return _normalize(_plain(name))


def _normalize(plain: str) -> str:
    return unicodedata.normalize("NFC", plain.casefold())


def _plain(name: str) -> str:
    """Normalize a name, but keep its case."""
    plain = unicodedata.normalize("NFC", _MARK.sub("", name)).strip().removeprefix("~").strip()
    digits = "".join(character for character in plain if character.isdigit())
    if len(digits) >= LEAST_PHONE_DIGITS and _PHONE.fullmatch(plain):
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
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._people: dict[str, str] = {}
        """People by their names as they are written."""
        for name in sorted(filter(None, map(_plain, names))):
            self._people[name] = _normalize(name)
            words = [word for word in name.split(" ") if any(map(str.isalnum, word))]
            if 1 < len(words) < len(name.split(" ")):  # a name with an emoji is also found without it
                self._people.setdefault(" ".join(words), _normalize(name))
        self._normalized = {_normalize(name): person for name, person in self._people.items()}
        # Nobody's pseudonym follows from the name of a member who never wrote.
        self._with_members = dict.fromkeys(filter(None, map(_plain, members)), "") | self._people
        self._vocabularies: dict[str, Vocabulary] = {}
        self._aliases: Mapping[str, str] = {}
        self._aliases = {self.person(alias): self.person(name) for alias, name in (aliases or {}).items()}

    def person(self, written: str) -> str:
        """Return the person of a name or an alias: the person's normalized name.

        A name that several people could have is returned as it is.
        """
        letters, known = fold_name(written.removeprefix("@")), self._vocabulary("message")
        forms = known.forms.get(f"@{letters}", set()) | known.forms.get(letters, set())
        return self._choose(written, {form.person for form in forms})

    def list_names(self) -> list[str]:
        """List the normalized names of all people."""
        return sorted({*self._people.values()})

    @cached_property
    def full_names(self) -> list[str]:
        """The names of several words, in folded case."""
        return sorted({name.casefold() for name in self._people if is_full_name(name)})

    def find_in(self, texts: pl.Series, place: Place) -> Iterator[list[Found]]:
        """Find the names in each of many texts, faster than one by one; see :meth:`find`."""
        yield from (self.find(text, place) if text else [] for text in self._select(texts, place))

    def find(self, text: str, place: Place) -> list[Found]:
        """Find the names in a text, or in the name of a file without its escapes.

        It returns the names in the order of the text, without overlaps; where two overlap, the earlier and then the
        longer one.
        """
        matches = list(self._vocabulary(place).find(text))
        if place == "identifier":
            letters = [(*match.span(), match.group()) for match in _GRAPHEME.finditer(text)]
            matches += self._vocabulary("part of a word").find(text, letters)
        else:
            found_by_marks = _PATTERNS[place].finditer(text)
            matches += ((*match.span(), frozenset()) for match in found_by_marks)
        found = list[Found]()
        for start, end, people in matches:
            is_mention = text[start] in "@＠﹫" and end > start + 1
            person = self._choose(text[start:end], people)
            is_international = is_phone(person) and text[start - 1 : start] == "+"
            found.append(Found(start + is_mention - is_international, end, person))
        return take_apart(found)

    def replace(self, texts: pl.Series, place: Place, write: Callable[[str], str]) -> pl.Series:
        """Replace every name in texts; the name of a file that holds one loses its escapes."""
        replaced = list[str | None]()
        for text, read in zip(texts, self._select(texts, place), strict=True):
            written = replace_found(read, partial(self.find, place=place), write) if read else text
            replaced.append(text if written == read else written)
        return pl.Series(texts.name, replaced, dtype=pl.String)

    def _select(self, texts: pl.Series, place: Place) -> pl.Series:
        """Select quickly the texts in which :meth:`find` can find something, without escapes; null for the others."""
        if place == "identifier":
            texts = pl.Series([text and unquote(text) for text in texts], dtype=pl.String)
        letters = pl.Series([text and fold(text) for text in texts], dtype=pl.String)
        letters = letters.str.replace_all(DIGRAPH, "${1}${2}")
        # The first letter of a name may end what stands for an umlaut (`so Erik`).
        forms = {
            letters[letters[0] in "ae" :] or letters
            for letters, known in self._vocabulary(place).forms.items()
            if not all(form.is_handle for form in known)
        }
        is_marked = texts.str.contains(_MARKED) | letters.str.contains_any([NOTHING, *forms])
        return texts.set(~is_marked.fill_null(value=False), None)

    def _choose(self, written: str, people: Collection[str]) -> str:
        """Return whom a name means: one of the people whose name it may be, or nobody else than the name says."""
        name = normalize_name(written.removeprefix("@") or written)
        person = self._normalized.get(normalize_name(written)) or self._normalized.get(name)
        if person is None:
            letters = fold(written).removeprefix("@")
            known = [one for one in people if one]
            meant = [one for one in known if fold(one) == letters] or known
            person = meant[0] if len(meant) == 1 else None
        return self._aliases.get(person or name, person or name)

    def _vocabulary(self, place: Place | _Part) -> Vocabulary:
        if place not in self._vocabularies:
            self._vocabularies[place] = Vocabulary(self._list_forms(place))
        return self._vocabularies[place]

    def _list_forms(self, place: Place | _Part) -> Iterator[Form]:
        """List the forms of names to find in a kind of text, or in a part of a word of the name of a file."""
        if place == "part of a word":
            full = ((spell(name), person) for name, person in self._people.items() if is_full_name(name))
            spelled = (Form(letters, person) for spellings, person in full for letters in spellings)
            yield from (form for form in spelled if len(form.letters) >= _LEAST_BURIED_LETTERS)
            return
        if place == "identifier":
            yield from (form_of_word(name, person) for name, person in self._people.items())
        else:
            firsts = ((person.partition(" ")[0], person) for person in self.list_names() if " " in person)
            first_names = ((first, person) for first, person in firsts if first.isalpha() and len(first) > 1)
            for name, person in (*self._with_members.items(), *first_names):
                form = form_of_word(name, person)
                if form.letters.strip("@"):
                    yield form._replace(letters="@" + form.letters)
        for name, person in (self._with_members if place == "app line" else self._people).items():
            if is_full_name(name) or is_phone(name):
                yield from (form._replace(person=person) for form in list_forms(name))
            elif place == "app line":
                yield form_of_word(name, person, keep_capitals=True)


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


_LETTERS: Final = regex.compile(r"[\p{L}\p{M}]+")
_WORD: Final = regex.compile(r"[\p{L}\p{M}'’\-]+")
_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv", "phd", "md"))
_TITLES: Final = ("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "sir", "herr", "frau")
_GLUED_BEFORE: Final = regex.compile(r"(?:[\p{L}\p{N}_@＠]|\p{L}[-\u2010\u2011])$")
_BEFORE_PLURAL: Final = regex.compile(r"(?i)\b(?:the|die)\s$")
_GLUED_BEHIND: Final = regex.compile(r"[\p{L}\p{N}_@＠]|[-\u2010\u2011]\p{Lu}")
_ADDRESS: Final = regex.compile(r"(?:https?://|www\.)[^\s<>()\[\]]+")
_BEFORE: Final = regex.compile(r"(?<![\p{L}\p{N}])(?<word>[\p{L}\p{M}'’\-]+)(?<dot>\.?)[^\S\n]*\n?[^\S\n]*$")


def find_surnames(text: str, people: Mapping[str, str], found: Sequence[Found]) -> list[Found]:
    """Find surnames with a capital, whose ``people`` are given, beside the names that were found in a text.

    It returns both, in order and without overlaps.
    """
    places = _list_surnames(text, people) if people else ()
    return take_apart([*found, *(place for place in places if _is_capital(text, place))])


def _list_surnames(text: str, people: Mapping[str, str]) -> Iterator[Found]:
    """Yield where whole words of a text, but of its web addresses, are a surname."""
    forms = {Form(letters, person) for name, person in people.items() for letters in spell_surname(name)}
    plural = {form._replace(letters=f"{form.letters}s", ending=1) for form in forms}
    read = _ADDRESS.sub(lambda address: " " * len(address[0]), text)
    for start, end, meant in Vocabulary(forms | plural).find(read):
        before, letters = read[max(start - 5, 0) : start], fold_name(read[start:end])
        is_name = Form(letters, min(meant)) in forms or _BEFORE_PLURAL.search(before)
        if is_name and not (_GLUED_BEFORE.search(before) or _GLUED_BEHIND.match(read, end)):
            yield Found(start, end, min(meant))


def _is_capital(text: str, found: Found) -> bool:
    return any(map(str.isupper, text[found.start : found.end]))


def find_surname(person: str) -> str | None:
    """Return the surname of a person with its particles (``van gogh``), or None for a name without one."""
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
    for place in _list_surnames(text, {surname: surname for surname in people}):
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
