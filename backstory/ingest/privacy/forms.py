"""Forms of a name: in which orders and abbreviations people write it, and where their letters are that name.

Texts and names are compared by their letters alone: ``O'Brien``, ``O’Brien`` and ``OBRIEN`` are equal, and so are
``Müller`` and ``Mueller`` (:func:`contract`). :func:`find_words` finds the boundaries of words separately. Other orders
(``Lind, Anna``) and initials (``A. Lind``, ``alind``) of a name of several words are forms, too, where capitals, a dot
or the length tell them from ordinary words (``how long will it``).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, Literal, NamedTuple

import regex

from backstory.text.words import PLAIN_LETTERS

_UNSPOKEN: Final = {*range(0x2B9, 0x2E0), 0xFFFD}  # apostrophes, accents, and what could not be decoded

UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts that write words without spaces between them, as a class of the ``regex`` package."""

_INSIDE: Final = r"[\p{M}\p{Cf}]*+"
_RUN: Final = "{1,1000}"  # longer ones are cut, since the engine keeps every turn of a loop in memory
_ESCAPED_SPACE: Final = "%20"
_WORD: Final = regex.compile(
    rf"{_ESCAPED_SPACE}"
    r"|[@＠﹫]\p{Cf}*+(?:~[\s\p{Cf}]*+)?"
    rf"|(?=[{UNSPACED}])\X"
    rf"|(?:\p{{Lu}}{_INSIDE})?(?:\p{{Ll}}{_INSIDE}){_RUN}+"
    rf"|(?:\p{{Lu}}{_INSIDE}){_RUN}(?!\p{{Ll}})"
    rf"|(?:(?![{UNSPACED}])[\p{{Lt}}\p{{Lm}}\p{{Lo}}]{_INSIDE}){_RUN}+"
    rf"|(?:(?![{UNSPACED}])\p{{N}}{_INSIDE}){_RUN}+"
    rf"|\p{{So}}{_INSIDE}"
    r"|[\p{M}\p{Cf}]++"
)
_WHOLLY_UNSPACED: Final = regex.compile(rf"[{UNSPACED}]+")
DIGRAPH: Final = "([aou])e|(a)a"
"""Pattern of two letters that may stand for one with an umlaut or a ring, of which the first one counts."""
_UMLAUTS: Final = str.maketrans({
    "ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Å": "Aa", "Ø": "Oe",
})  # fmt: skip
# Vowel signs of Indic and Thai scripts are letters, accents are not.
_SIGNIFICANT: Final = regex.compile(
    r"[[@\p{L}\p{N}\p{So}[[\p{Mn}\p{Mc}]&&\p{ccc=0}]]--\p{Default_Ignorable_Code_Point}]", regex.VERSION1
)
_OTHER_ASCII: Final = bytes(point for point in range(128) if not chr(point).isalnum() and chr(point) != "@")
_SMALL_ASCII: Final = bytes(range(256)).lower()

Word = tuple[int, int, str]
"""Start and end of a word in its text, and the word as written."""

_LEAST_HANDLE_LETTERS: Final = 8
"""Shorter joined forms with an initial or in another order are often ordinary words (``Amy Cross``: ``across``), and
are found only in a mention or an address."""

_LEAST_JOINED_LETTERS: Final = 6
"""Shorter names of several words are often an ordinary word when written as one (``Al So``)."""
_LEAST_UNDOTTED_LETTERS: Final = 6
"""Shorter surnames are often ordinary words behind an initial that is one (``A Long Way``)."""
LEAST_PHONE_DIGITS: Final = 7
_COMPARED_LETTERS: Final = 128

_BETWEEN_PARTS: Final = re.compile(r"[\s_.\u00b7\u2022\u30fb]+")
_FULL_NAME: Final = regex.compile(r"[\p{Han}\p{Hangul}]{3,}")
_SIBILANT: Final = ("s", "x", "z", "ch", "sh")
_PARTICLES: Final = frozenset(
    re.findall(
        r"\w+",
        "af al av bin da das de degli dei del della den der des di do dos du el ibn la las le lo los ten ter van vom "
        "von y zu zum zur",
    )
)
"""Words that begin a surname of several words."""

_GAP: Final = "[ \u00a0._-]"
_CONSONANT: Final = "[b-df-hj-np-tv-xz]"
INITIAL: Final = (
    rf"[\p{{L}}\p{{M}}]{_GAP}{{1,2}}"
    rf"(\p{{L}}[._-]{{1,2}}[ \u00a0]?\p{{L}}|\p{{Lu}}[ \u00a0]\p{{Lu}}|{_CONSONANT}[ \u00a0]\p{{L}})"
)
"""Pattern of an initial behind a word: with a dot or the like, a capital before another one, or a consonant."""
_INITIAL: Final = regex.compile(INITIAL)
_PART: Final = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}\p{Cf}'’\-]*")
"""Pattern of a part of a name: a word, with its hyphens and apostrophes."""
_APART: Final = regex.compile(r"[\s<>]")
_MENTION: Final = regex.compile(r"[@＠﹫~][\p{Cf}\p{Mn}]*$")
_HANDLE: Final = regex.compile(r"[\p{Cf}\p{Mn}]*[@＠﹫]")


def fold(text: str) -> str:
    """Keep the letters, digits, emoji and ``@`` of a text, in one spelling.

    It returns the letters without case, accents, spaces, punctuation and invisible characters. Folding the parts of a
    text gives the same letters as folding the whole.
    """
    text = text.replace(_ESCAPED_SPACE, " ")
    if text.isascii():
        return text.encode().translate(_SMALL_ASCII, _OTHER_ASCII).decode()
    return unicodedata.normalize("NFC", text).translate(_LETTERS)


def contract(letters: str) -> str:
    """Return folded letters with one for each that may stand for an umlaut or a ring: ``a`` for ``ae`` and ``aa``."""
    return re.sub(DIGRAPH, r"\1\2", letters)


def spell(name: str) -> frozenset[str]:
    """Return the folded letters of a name, with umlauts stripped and written out."""
    composed = unicodedata.normalize("NFC", name)
    return frozenset({fold(composed), fold(composed.translate(_UMLAUTS))})


@lru_cache(maxsize=1 << 16)
def fold_word(word: str) -> str:
    """Return the contracted letters of a word."""
    return contract(fold(word))


def find_words(text: str) -> list[Word]:
    """Find the positions where a word may begin and end.

    It returns runs of letters, cut also where a capital follows a small letter (``AnnaLind``) and between letters and
    digits; emoji, the ``@`` of a mention, and the characters of scripts without spaces, each by itself.
    """
    return [(match.start(), match.end(), match.group()) for match in _WORD.finditer(text)]


def is_unspaced(text: str) -> bool:
    """Return whether a text is written wholly in scripts that put no spaces between words."""
    return _WHOLLY_UNSPACED.fullmatch(text) is not None


class _Letters(dict[int, str]):
    """The folded form of each character, for ``str.translate``; filled on demand."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        spelled = PLAIN_LETTERS.get(character) or unicodedata.normalize("NFKD", character)
        small = _SIGNIFICANT.findall(unicodedata.normalize("NFKD", spelled.casefold()))
        self[point] = "".join(PLAIN_LETTERS.get(one) or str(unicodedata.decimal(one, one)) for one in small)
        if point in _UNSPOKEN:
            self[point] = ""
        return self[point]


_LETTERS: Final = _Letters()


class Form(NamedTuple):
    """Contracted letters of a name, and the conditions under which they are the name.

    Attributes:
        letters: The letters of all words.
        person: Whose name it is; empty if nobody's pseudonym follows from it.
        words: The fewest words that have the letters.
        is_capital: Whether every word but a particle begins with a capital, if its script has any.
        dot: The place of the word that a dot must follow: 0 for the first, -1 for the last one.
        ending: Length of an ending such as the s of a genitive, which must not be a word by itself.
        is_joined: Whether no space and no tag may be inside.
        is_handle: Whether it must stand in a mention or an address (``@alind``, ``alind@example.org``).
        spellings: The folded spellings that need no accent; empty for any.
    """

    letters: str
    person: str = ""
    words: int = 1
    is_capital: bool = False
    dot: Literal[0, -1] | None = None
    ending: int = 0
    is_joined: bool = False
    is_handle: bool = False
    spellings: frozenset[str] = frozenset()

    def is_met(self, text: str, words: Sequence[Word]) -> bool:
        """Return whether some words of a text, which have the letters, meet the conditions."""
        start, end = words[0][0], words[-1][1]
        written = text[start:end]
        if len(words) < self.words or len(fold_word(words[-1][2])) <= self.ending:
            return False
        if (self.is_capital and not _is_capital(written)) or (self.is_joined and _APART.search(written)):
            return False
        if self.dot is not None and not text.startswith(".", words[self.dot][1]):
            return False
        before = text[max(start - 4, 0) : start]
        if self.is_handle and not (_HANDLE.match(text, end) or _MENTION.search(before)):
            return False
        letters = "".join(fold(word) for _, _, word in words).removeprefix("@")
        return not (self.spellings and written.isascii()) or letters in self.spellings


def _is_capital(written: str) -> bool:
    parts = _PART.findall(written)
    return not any(part[0].islower() for part in parts if fold(part) not in _PARTICLES)


def fold_name(name: str) -> str:
    """Return the letters of a name as its words in a text have them."""
    return "".join(fold_word(word) for _, _, word in find_words(name))


def form_of_word(name: str, person: str = "", *, keep_capitals: bool = False) -> Form:
    """Return the form of a name that is found where a name must stand, as in a mention.

    `Mueller` may be written `Müller`; without an accent it would be another name (`Michael`, `Michal`).
    """
    name = name.removeprefix("@")
    return Form(
        fold_name(name), person, is_capital=keep_capitals and _is_capital(name), spellings=spell(name)
    )


@lru_cache(maxsize=1 << 12)
def list_forms(name: str) -> tuple[Form, ...]:
    """List the forms of a name of several words, or of a phone number, in which it is found in any text."""
    if is_phone(name):
        return tuple(map(Form, _list_numbers(name[1:])))
    words = [word for word in _BETWEEN_PARTS.split(name) if fold(word)]
    letters = list(map(fold_name, words))
    forms = [*_with_endings(_full(letters))]
    if len(words) > 1 and all(word[0].lower() != word[0].upper() for word in words):
        forms += _list_rarer(letters, find_surname_start([word.lower() for word in words]))
    return tuple(dict.fromkeys(forms))


def is_full_name(name: str) -> bool:
    """Return whether a name has several words, so that it is not an ordinary word."""
    if is_phone(name):
        return False
    if _FULL_NAME.fullmatch(name):
        return True
    least = 1 if " " in name else 2  # initials joined by dots are often an ordinary word
    return sum(len(fold(part)) >= least for part in _BETWEEN_PARTS.split(name)) > 1


def is_phone(name: str) -> bool:
    """Return whether a normalized name is a phone number."""
    return name.startswith("+") and name[1:].isdigit()


def _list_numbers(digits: str) -> Iterator[str]:
    """Yield a phone number in international and in national form: without its country code, of one to three digits."""
    yield from (digits, f"00{digits}")
    for end in (1, 2, 3):
        country, rest = digits[:end], digits[end:]
        if len(rest) >= LEAST_PHONE_DIGITS:
            with_trunk = f"{country}0{rest}"  # +44 (0) 7700 900123
            yield from (rest, f"0{rest}", f"8{rest}", with_trunk, f"00{with_trunk}")


def _full(letters: Sequence[str]) -> Form:
    joined = "".join(letters)
    is_short = len(joined) < _LEAST_JOINED_LETTERS and not is_unspaced(joined)
    return Form(joined, words=len(letters) if is_short else 1)


def _with_endings(form: Form) -> Iterator[Form]:
    yield form
    for ending in ("s", "es") if form.letters.endswith(_SIBILANT) else ("s",):
        yield form._replace(letters=form.letters + ending, ending=len(ending))


def _list_rarer(letters: Sequence[str], cut: int) -> Iterator[Form]:
    """Yield the forms in other orders, and with initials of the words before the surname, which begins at ``cut``."""
    for place in range(1, len(letters)):
        turned = "".join([*letters[place:], *letters[:place]])
        yield Form(turned, words=len(letters), is_capital=True)
        yield _joined(turned)
    surname, first = "".join(letters[cut:]), letters[0][:1]
    dot: Literal[0] | None = None if len(surname) >= _LEAST_UNDOTTED_LETTERS else 0
    yield from _with_endings(Form(first + surname, words=2, is_capital=True, dot=dot))
    yield Form(surname + first, words=2, is_capital=True, dot=-1)
    for initials in {first, "".join(word[:1] for word in letters[:cut])}:
        yield _joined(initials + surname)
        yield _joined(surname + initials, is_handle=initials == "s")  # `carpenters`
    if cut > 1:  # `Anna Lind`, of `Anna Maria Lind`
        yield from _with_endings(_full([letters[0], surname]))


def find_surname_start(words: Sequence[str]) -> int:
    """Return at which of the words of a name its surname begins, with its particles (``van gogh``)."""
    start = len(words) - 1
    while start > 1 and words[start - 1] in _PARTICLES:
        start -= 1
    return start


def _joined(letters: str, *, is_handle: bool = False) -> Form:
    return Form(letters, is_joined=True, is_handle=is_handle or len(letters) < _LEAST_HANDLE_LETTERS)


class Vocabulary:
    """The forms of names to find in one kind of text, by their letters."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self.forms: dict[str, set[Form]] = defaultdict(set)
        for form in forms:
            if form.letters:
                self.forms[form.letters].add(form)
                self.forms[contract(form.letters)].add(form)  # as one word (`lindaek`)
        self._most_letters = max(map(len, self.forms), default=0)
        self._beginnings = {
            letters[:end]
            for letters in self.forms
            for end in range(1, min(len(letters), _COMPARED_LETTERS) + 1)
        }

    def find(
        self, text: str, words: Sequence[Word] | None = None
    ) -> Iterator[tuple[int, int, frozenset[str]]]:
        """Find names in a text, the longest at each word, and who may be meant by each.

        Initials between words are passed over, but in ``words`` that are given.
        """
        initials = set[int]()
        if words is None:
            words = find_words(text)
            initials = {match.start(1) for match in _INITIAL.finditer(text, overlapped=True)}
        letters = [fold_word(word) for _, _, word in words]
        readings: list[Sequence[int]] = [range(len(words))]
        if initials:
            readings.append([place for place, word in enumerate(words) if word[0] not in initials])
        next_free = 0
        for first, beginning in enumerate(letters):
            if first < next_free or not beginning or beginning[:_COMPARED_LETTERS] not in self._beginnings:
                continue
            matches = [
                match
                for reading in readings
                for match in self._list_matches(text, words, letters, first, reading)
            ]
            if matches:
                last, people = max(matches, key=itemgetter(0))
                yield words[first][0], words[last][1], people
                next_free = last + 1

    def _list_matches(
        self, text: str, words: Sequence[Word], letters: Sequence[str], first: int, reading: Sequence[int]
    ) -> Iterator[tuple[int, frozenset[str]]]:
        """Yield the place of the last word, and the people, of each name that begins with a word."""
        used, joined = list[Word](), ""
        for position in range(bisect_right(reading, first) - 1, len(reading)):
            place = max(first, reading[position])  # an initial may begin a name
            joined += letters[place]
            is_apart = letters[first] == "@" and len(used) == 1 and words[place][0] != used[0][1]
            is_long = len(joined) > self._most_letters
            if is_apart or is_long or joined[:_COMPARED_LETTERS] not in self._beginnings:
                return
            used.append(words[place])
            forms = self.forms.get(joined, ()) if letters[place] else ()
            if people := frozenset(form.person for form in forms if form.is_met(text, used)):
                yield place, people
