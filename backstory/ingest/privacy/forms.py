"""Forms of a name: in which orders and abbreviations people write it, and where their letters are that name.

Of a name of several words, other orders (``Lind, Anna``) and initials (``A. Lind``, ``alind``) are forms, too, where
capitals, a dot or the length tell them from ordinary words (``how long will it``). An initial between two words of a
name (``Anna M. Lind``) is passed over.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import regex

from backstory.ingest.privacy.folding import Word, contract, find_words, fold, fold_word, is_unspaced

_LEAST_HANDLE_LETTERS: Final = 8
"""Shorter joined forms with an initial or in another order are often ordinary words (``Amy Cross``: ``across``), and
are found only in a mention or an address."""

_LEAST_JOINED_LETTERS: Final = 6
"""Shorter names of several words are often an ordinary word when written as one (``Al So``)."""
_LEAST_UNDOTTED_LETTERS: Final = 6
"""Shorter surnames are often ordinary words behind an initial that is one (``A Long Way``)."""
_COMPARED_LETTERS: Final = 128

_BETWEEN_PARTS: Final = re.compile(r"[\s_.\u00b7\u2022\u30fb]+")
_FULL_NAME: Final = regex.compile(r"[\p{Han}\p{Hangul}]{3,}")
_UMLAUTS: Final = str.maketrans({
    "ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Å": "Aa", "Ø": "Oe",
})  # fmt: skip
_SIBILANT: Final = ("s", "x", "z", "ch", "sh")
PARTICLES: Final = frozenset(
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
    rf"[\p{{L}}\p{{M}}]{_GAP}{{1,2}}(?:\p{{L}}[._-]|\p{{Lu}}[ \u00a0]\p{{Lu}}|{_CONSONANT}[ \u00a0]\p{{L}})"
)
"""Pattern of texts that may hold an initial between two words."""
_PASSED: Final = regex.compile(
    rf"(?<=[\p{{L}}\p{{M}}]{_GAP}{{1,2}})"
    rf"(?:\p{{L}}[._-]{{1,2}}[ \u00a0]?|\p{{Lu}}[ \u00a0](?=\p{{Lu}})|{_CONSONANT}[ \u00a0])(?=\p{{L}})"
)
"""An initial between two words: with a dot or the like, a capital before another one, or a consonant."""
_MOST_PASSED: Final = 3
_APART: Final = regex.compile(r"[\s<>]")
_MENTION: Final = regex.compile(r"[@＠﹫~][\p{Cf}\p{Mn}]*$")
_HANDLE: Final = regex.compile(r"[\p{Cf}\p{Mn}]*[@＠﹫]")


class Condition(NamedTuple):
    """Conditions for a match, beyond equal letters.

    Attributes:
        joints: Numbers of letters after which a word must end.
        capitals: Numbers of letters after which a word must begin with a capital.
        dot: Number of letters after which a dot must follow.
        ending: Length of an ending such as the s of a genitive, which must not be a word by itself.
        is_joined: Whether no space and no tag may be inside.
        is_handle: Whether it must stand in a mention or an address (``@alind``, ``alind@example.org``).
        spellings: The folded spellings that need no accent; empty for any.
    """

    joints: frozenset[int] = frozenset()
    capitals: frozenset[int] = frozenset()
    dot: int | None = None
    ending: int = 0
    is_joined: bool = False
    is_handle: bool = False
    spellings: frozenset[str] = frozenset()

    def is_met(self, text: str, words: Sequence[Word]) -> bool:
        """Return whether some words of a text meet the conditions."""
        start, end = words[0][0], words[-1][1]
        written = text[start:end]
        ends = list(accumulate(len(fold_word(word)) for _, _, word in words))
        begins = {at: word for at, (_, _, word) in zip([0, *ends], words, strict=False)}
        if not self.joints.issubset(ends) or (self.ending and ends[-1] - self.ending in ends):
            return False
        if not all(at in begins and begins[at][0].isupper() for at in self.capitals):
            return False
        if self.dot is not None and not _is_followed_by_dot(text, words, ends, self.dot):
            return False
        if (self.is_joined and _APART.search(written)) or (
            self.is_handle and not _is_handle(text, start, end)
        ):
            return False
        return not self.spellings or fold(written).removeprefix("@") in self.spellings or _has_accent(written)


def _is_followed_by_dot(text: str, words: Sequence[Word], ends: Sequence[int], count: int) -> bool:
    end = words[ends.index(count)][1]
    behind = (word[0] for word, letters in zip(words, ends, strict=True) if letters > count)
    return "." in text[end : next(behind, end + 1)]


Form = tuple[str, Condition]
"""Contracted letters of a name, and when they are the name."""


def spell(name: str) -> frozenset[str]:
    """Return the folded letters of a name, without the ``@`` of a mention, with umlauts stripped and written out."""
    composed = unicodedata.normalize("NFC", name.removeprefix("@"))
    return frozenset({fold(composed), fold(composed.translate(_UMLAUTS))})


def fold_name(name: str) -> str:
    """Return the letters of a name as its words in a text have them."""
    return "".join(fold_word(word) for _, _, word in find_words(name))


def form_of_word(name: str, *, keep_capitals: bool = False) -> Form:
    """Return the form of a name that is found where a name must stand, as in a mention.

    `Mueller` may be written `Müller`; without an accent it would be another name (`Michael`, `Michal`).
    """
    name = name.removeprefix("@")
    words = [word for _, _, word in find_words(name)]
    begins = zip([0, *accumulate(len(fold_word(word)) for word in words)], words, strict=False)
    capitals = frozenset(at for at, word in begins if keep_capitals and word[0].isupper())
    return fold_name(name), Condition(capitals=capitals, spellings=spell(name))


@lru_cache(maxsize=1 << 12)
def list_forms(name: str) -> tuple[Form, ...]:
    """List the forms of a name of several words, in which it is found in any text."""
    words = [word for word in _BETWEEN_PARTS.split(name) if fold(word)]
    is_cased = all(word[0].lower() != word[0].upper() for word in words)
    forms = dict[Form, None]()
    for spell_word in (fold_name, fold_word):  # `JoEllen` as two words, and as one
        letters = list(map(spell_word, words))
        forms |= dict.fromkeys(_with_endings(_full(letters), is_cased=is_cased))
        if is_cased and len(words) > 1:
            forms |= dict.fromkeys(_in_other_order(words, letters))
            forms |= dict.fromkeys(_with_initials(words, letters))
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


def _full(letters: Sequence[str]) -> Form:
    joined = "".join(letters)
    is_short = len(joined) < _LEAST_JOINED_LETTERS and not is_unspaced(joined)
    return joined, Condition(joints=frozenset(accumulate(map(len, letters))) if is_short else frozenset())


def _with_endings(form: Form, *, is_cased: bool = True) -> Iterator[Form]:
    letters, condition = form
    yield form
    if is_cased:
        for ending in ("s", "es") if letters.endswith(_SIBILANT) else ("s",):
            joints = condition.joints - {len(letters)}
            yield letters + ending, condition._replace(joints=joints, ending=len(ending))


def _in_other_order(words: Sequence[str], letters: Sequence[str]) -> Iterator[Form]:
    for cut in range(1, len(words)):
        turned = [*letters[cut:], *letters[:cut]]
        begins = zip([0, *accumulate(map(len, turned))], [*words[cut:], *words[:cut]], strict=False)
        capitals = frozenset(at for at, word in begins if word.lower() not in PARTICLES)
        yield "".join(turned), Condition(joints=frozenset(accumulate(map(len, turned))), capitals=capitals)
        yield _joined("".join(turned))


def _with_initials(words: Sequence[str], letters: Sequence[str]) -> Iterator[Form]:
    cut = len(words) - 1
    while cut > 1 and words[cut - 1].lower() in PARTICLES:
        cut -= 1
    surname, main = "".join(letters[cut:]), sum(map(len, letters[cut:-1]))
    first, end = letters[0][:1], len(surname)
    spaced = Condition(joints=frozenset([1]), capitals=frozenset([0, 1 + main]))
    yield from _with_endings(
        (first + surname, spaced if end >= _LEAST_UNDOTTED_LETTERS else spaced._replace(dot=1))
    )
    yield surname + first, Condition(frozenset([end]), frozenset([main, end]), dot=end + 1)
    for initials in {first, "".join(word[:1] for word in letters[:cut])}:
        yield _joined(initials + surname)
        yield _joined(surname + initials, is_handle=initials == "s")  # `carpenters`
    if cut > 1:  # `Anna Lind`, of `Anna Maria Lind`
        yield from _with_endings(_full([letters[0], surname]))


def _joined(letters: str, *, is_handle: bool = False) -> Form:
    return letters, Condition(is_joined=True, is_handle=is_handle or len(letters) < _LEAST_HANDLE_LETTERS)


def _is_handle(text: str, start: int, end: int) -> bool:
    return bool(_HANDLE.match(text, end) or _MENTION.search(text[max(start - 4, 0) : start]))


def _has_accent(written: str) -> bool:
    return any(not letter.isascii() and unicodedata.category(letter)[0] in "LM" for letter in written)


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
                self.names[contract(letters)].add(condition)  # as one word (`lindaek`)
        self._beginnings = {
            letters[:end]
            for letters in self.names
            for end in range(1, min(len(letters), _COMPARED_LETTERS) + 1)
        }

    def find(self, text: str, words: Sequence[Word]) -> Iterator[Match]:
        """Find the names in the words of a text: the longest at each position."""
        letters = [fold_word(word) for _, _, word in words]
        passed = {match.start() for match in _PASSED.finditer(text)}
        next_free = 0
        for first, beginning in enumerate(letters):
            if first < next_free or not beginning or beginning[:_COMPARED_LETTERS] not in self._beginnings:
                continue
            longest = self._find_longest(text, words, letters, passed, first)
            if longest is not None:
                yield longest
                next_free = longest.last + 1

    def _find_longest(
        self, text: str, words: Sequence[Word], letters: Sequence[str], passed: set[int], first: int
    ) -> Match | None:
        longest = None
        # The letters so far, with the words that they are of: with each initial, or without.
        paths: dict[str, tuple[int, ...]] = {"": ()}
        for at in range(first, len(words)):
            if letters[first] == "@" and at == first + 1 and words[at][0] != words[first][1]:
                break
            grown = {joined + letters[at]: (*used, at) for joined, used in paths.items()}
            grown = {one: used for one, used in grown.items() if one[:_COMPARED_LETTERS] in self._beginnings}
            for joined, used in grown.items():
                conditions = self.names.get(joined, ()) if letters[at] else ()
                if any(condition.is_met(text, [words[place] for place in used]) for condition in conditions):
                    longest = Match(first, at, joined)
            if at > first and words[at][0] in passed:
                short = {one: used for one, used in paths.items() if at - first - len(used) < _MOST_PASSED}
                grown = short | grown
            if not grown:
                break
            paths = grown
        return longest
