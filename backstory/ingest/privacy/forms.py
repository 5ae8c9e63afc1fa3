"""Forms of a name: in which spellings, orders and abbreviations people write it, each with its conditions.

An umlaut matches both stripped and written out (``Müller``: ``Muller``, ``Mueller``), and a name that writes it out
matches with the umlaut. Of a name of several words, other orders (``Lind, Anna``) and initials (``A. Lind``,
``alind``) are forms, too, where capitals, a dot or the length tell them from ordinary words (``how long will it``).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import regex

from backstory.ingest.privacy.folding import Word, fold, is_unspaced, places_of_letters

LEAST_HANDLE_LETTERS: Final = 8
"""Shorter joined forms with an initial or in another order are often ordinary words (``Amy Cross``: ``across``), and
are found only in a mention or an address."""

_LEAST_JOINED_LETTERS = 6
"""Shorter names of several words are often an ordinary word when written as one (``Al So``)."""
_LEAST_UNDOTTED_LETTERS = 6
"""Shorter surnames are often ordinary words behind an initial that is one (``A Long Way``)."""
_MOST_SPELLINGS = 32
_COMPARED_LETTERS = 128

_BETWEEN_PARTS: Final = re.compile(r"[\s_.\u00b7\u2022\u30fb]+")
_FULL_NAME: Final = regex.compile(r"[\p{Han}\p{Hangul}]{3,}")
_LONG: Final = {
    "ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Å": "Aa", "Ø": "Oe",
}  # fmt: skip
_DIGRAPH: Final = re.compile(r"[aou]e|aa", re.IGNORECASE)
_SIBILANT: Final = ("s", "x", "z", "ch", "sh")
PARTICLES: Final = frozenset(
    re.findall(
        r"\w+",
        "af al av bin da das de degli dei del della den der des di do dos du el ibn la las le lo los ten ter van vom "
        "von y zu zum zur",
    )
)
"""Words that begin a surname of several words."""


class Condition(NamedTuple):
    """Conditions for a match, beyond equal letters. Letters are counted from 0.

    Attributes:
        joints: Numbers of letters after which a word must end.
        ending: Length of an ending such as the s of a genitive, which must not be a word by itself.
        capitals: Letters that must be capitals.
        dot: Number of letters after which a dot must follow.
        is_joined: Whether no space may be inside.
        is_handle: Whether it must stand in a mention or an address (``@alind``, ``alind@example.org``).
        has_accent: Whether it must hold a letter beyond ASCII.
        cased: The letters with their case, for names of one word in lines of the app.
    """

    joints: frozenset[int] = frozenset()
    ending: int = 0
    capitals: frozenset[int] = frozenset()
    dot: int | None = None
    is_joined: bool = False
    is_handle: bool = False
    has_accent: bool = False
    cased: str | None = None

    def is_met(self, text: str, words: Sequence[Word]) -> bool:
        """Return whether the letters in some words of a text meet the conditions."""
        if self == _ALWAYS:
            return True
        places = [place for word in words for place in places_of_letters(word)]
        ends = set(itertools.accumulate(len(fold(word)) for _, _, word in words))
        start, end = places[0][0], places[-1][1]
        written = text[start:end]
        return (
            self.joints <= ends
            and not (self.ending and len(places) - self.ending in ends)
            and all(unicodedata.category(text[places[at][0]]) in ("Lu", "Lt") for at in self.capitals)
            and (self.dot is None or "." in _between(text, places, self.dot))
            and not (self.is_joined and any(map(str.isspace, written)))
            and (not self.is_handle or _is_handle(text, start, end))
            and (not self.has_accent or any(map(_has_accent, written)))
            and self.cased in (None, fold(written, keep_case=True))
        )


_ALWAYS: Final = Condition()


def _between(text: str, places: Sequence[tuple[int, int]], count: int) -> str:
    """Return the text between a number of letters and the next letter, or what follows the last letter."""
    start = places[count - 1][1]
    return text[start : places[count][0]] if count < len(places) else _next(text, start)


def _is_handle(text: str, start: int, end: int) -> bool:
    while start and _is_unseen(text[start - 1]):
        start -= 1
    return (start > 0 and text[start - 1] in "@＠﹫~") or _next(text, end) in ("@", "＠", "﹫")


def _next(text: str, end: int) -> str:
    while end < len(text) and _is_unseen(text[end]):
        end += 1
    return text[end : end + 1]


Form = tuple[str, Condition]
"""Folded letters of a name, and when they are the name."""


def spell(name: str, *, keep_case: bool = False, contracted: bool = False) -> set[str]:
    """Return the folded spellings of a name.

    ``name``: a name, without or with the ``@`` of a mention. ``contracted``: whether ``ae``, ``oe``, ``ue`` and ``aa``
    may each be one letter with an accent. It returns its letters without spaces and accents, with each umlaut both
    stripped and written out.
    """
    words = name.removeprefix("@").split(" ")
    return {"".join(spelled) for spelled in _spell_words(words, keep_case=keep_case, contracted=contracted)}


def list_forms_of_word(name: str, *, keep_case: bool = False) -> Iterator[Form]:
    """Yield the spellings of a name that is found where a name must stand, as in a mention."""
    usual = spell(name, keep_case=keep_case)
    for letters in sorted(usual):
        yield letters, Condition()
    # `Mueller` written `Müller`; without an accent it would be another name (`Michael`, `Michal`).
    for letters in sorted(spell(name, keep_case=keep_case, contracted=True) - usual):
        yield letters, Condition(has_accent=True)


@lru_cache(maxsize=1 << 12)
def list_forms(name: str) -> tuple[Form, ...]:
    """List the forms of a name of several words, in which it is found in any text."""
    words = [word for word in _BETWEEN_PARTS.split(name) if fold(word)]
    is_cased = all(word[0].lower() != word[0].upper() for word in words)
    forms: dict[Form, None] = {}
    for spelled in _spell_words(words, contracted=True):
        forms.update(dict.fromkeys(_with_endings(_full(spelled), is_cased=is_cased)))
        if is_cased and len(words) > 1:
            forms.update(dict.fromkeys(_in_other_order(words, spelled)))
            forms.update(dict.fromkeys(_with_initials(words, spelled)))
    return tuple(forms)


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


def _spell_words(
    words: Sequence[str], *, keep_case: bool = False, contracted: bool = False
) -> list[tuple[str, ...]]:
    units = [list(_spell_letters(word, keep_case=keep_case, contracted=contracted)) for word in words]
    choices = [unit for word in units for unit in word if len(unit) > 1]
    if 2 ** len(choices) > _MOST_SPELLINGS:
        return [tuple("".join(unit[at] for unit in word) for word in units) for at in (0, -1)]
    by_word = [["".join(spelled) for spelled in itertools.product(*word)] for word in units]
    return list(itertools.product(*by_word))


def _spell_letters(word: str, *, keep_case: bool, contracted: bool) -> Iterator[tuple[str, ...]]:
    """Yield the short and the long spelling of each letter that has two, and all others as they are."""
    if word.isascii() and not (contracted and _DIGRAPH.search(word)):
        yield (fold(word, keep_case=keep_case),)
        return
    word, at = unicodedata.normalize("NFC", word), 0
    while at < len(word):
        if contracted and (digraph := _DIGRAPH.match(word, at)):
            long = fold(digraph.group(), keep_case=keep_case)
            yield long[:1], long
            at += len(long)
            continue
        short, written_out = fold(word[at], keep_case=keep_case), _LONG.get(word[at])
        yield (short, fold(written_out, keep_case=keep_case)) if written_out else (short,)
        at += 1


def _full(spelled: Sequence[str]) -> Form:
    letters = "".join(spelled)
    is_short = len(letters) < _LEAST_JOINED_LETTERS and not is_unspaced(letters)
    return letters, Condition(
        joints=frozenset(itertools.accumulate(map(len, spelled))) if is_short else frozenset()
    )


def _with_endings(form: Form, *, is_cased: bool = True) -> Iterator[Form]:
    letters, condition = form
    yield form
    if is_cased:
        for ending in ("s", "es") if letters.endswith(_SIBILANT) else ("s",):
            joints = condition.joints - {len(letters)}
            yield letters + ending, condition._replace(joints=joints, ending=len(ending))


def _in_other_order(words: Sequence[str], spelled: Sequence[str]) -> Iterator[Form]:
    for cut in range(1, len(words)):
        turned = [*spelled[cut:], *spelled[:cut]]
        ends = list(itertools.accumulate(map(len, turned)))
        begins = zip([0, *ends], [*words[cut:], *words[:cut]], strict=False)
        capitals = frozenset(at for at, word in begins if word.lower() not in PARTICLES)
        letters = "".join(turned)
        yield letters, Condition(joints=frozenset(ends), capitals=capitals)
        yield letters, Condition(is_joined=True, is_handle=len(letters) < LEAST_HANDLE_LETTERS)


def _with_initials(words: Sequence[str], spelled: Sequence[str]) -> Iterator[Form]:
    cut = len(words) - 1
    while cut > 1 and words[cut - 1].lower() in PARTICLES:
        cut -= 1
    surname, main = "".join(spelled[cut:]), sum(map(len, spelled[cut:-1]))
    by_word = ["".join(fold(part)[:1] for part in re.split(r"[-\u2010\u2011]", word)) for word in words[:cut]]
    for initials in {by_word[0][:1], "".join(by_word)}:
        yield from _with_initials_before(initials, surname, main)
        yield from _with_initials_behind(initials, surname, main)
    if cut > 1:  # `Anna M. Lind` and `Anna Lind`, of `Anna Maria Lind`
        first, others = spelled[0], "".join(by_word[1:])
        begins = [0, *range(len(first), len(first) + len(others)), len(first) + len(others) + main]
        short = Condition(joints=frozenset([len(first), begins[-1] - main]), capitals=frozenset(begins))
        yield from _with_endings((first + others + surname, short))
        yield from _with_endings(_full([first, surname]))


def _with_initials_before(initials: str, surname: str, main: int) -> Iterator[Form]:
    count, letters = len(initials), initials + surname
    spaced = Condition(joints=frozenset([count]), capitals=frozenset([*range(count), count + main]))
    is_plain = len(surname) >= _LEAST_UNDOTTED_LETTERS
    yield from _with_endings((letters, spaced if is_plain else spaced._replace(dot=count)))
    yield letters, Condition(is_joined=True, is_handle=len(letters) < LEAST_HANDLE_LETTERS)


def _with_initials_behind(initials: str, surname: str, main: int) -> Iterator[Form]:
    count, letters = len(surname), surname + initials
    capitals = frozenset([main, *range(count, len(letters))])
    yield letters, Condition(joints=frozenset([count]), capitals=capitals, dot=len(letters))
    is_plural = initials == "s"  # `carpenters`
    yield letters, Condition(is_joined=True, is_handle=is_plural or len(letters) < LEAST_HANDLE_LETTERS)


def _has_accent(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character)[0] in "LM"


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in ("Cf", "Mn")


class Match(NamedTuple):
    """A name in words of a text: the first and the last of them, and the folded letters."""

    first: int
    last: int
    letters: str


class Vocabulary:
    """The forms of names to find in one kind of text, by their letters, each with its conditions."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self.names: dict[str, set[Condition]] = defaultdict(set)
        for letters, condition in forms:
            if letters:
                self.names[letters].add(condition)

    @cached_property
    def _beginnings(self) -> set[str]:
        return {
            letters[:end]
            for letters in self.names
            for end in range(1, min(len(letters), _COMPARED_LETTERS) + 1)
        }

    def find(self, text: str, words: Sequence[Word]) -> Iterator[Match]:
        """Find the names in the words of a text: the longest at each position."""
        letters = [fold(word) for _, _, word in words]
        names, beginnings = self.names, self._beginnings
        next_free = 0
        for first, beginning in enumerate(letters):
            if first < next_free or not beginning or beginning[:_COMPARED_LETTERS] not in beginnings:
                continue
            joined, longest = "", None
            for at in range(first, len(letters)):
                if joined == "@" and words[at][0] != words[at - 1][1]:
                    break
                joined += letters[at]
                if joined[:_COMPARED_LETTERS] not in beginnings:
                    break
                if (
                    joined in names
                    and letters[at]
                    and any(condition.is_met(text, words[first : at + 1]) for condition in names[joined])
                ):
                    longest = Match(first, at, joined)
            if longest is not None:
                yield longest
                next_free = longest.last + 1
