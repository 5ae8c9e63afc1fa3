"""Folds text to its letters: without case, accents, apostrophes, hyphens and spaces.

Names are compared by their letters alone, so ``O'Brien``, ``O’Brien`` and ``OBRIEN`` are equal. :func:`contract` makes
``Müller`` and ``Mueller`` equal, too. :func:`find_words` finds the boundaries of words separately.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

import regex

from backstory.text.words import PLAIN_LETTERS

_MODIFIERS: Final = range(0x2B9, 0x2E0)  # letters by category, apostrophes and accents by use
_UNDECODABLE: Final = "\ufffd"

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
        if point in _MODIFIERS or character == _UNDECODABLE:
            self[point] = ""
        elif unicodedata.category(character) == "So" and len(spelled) > 1:
            self[point] = character
        return self[point]


_LETTERS: Final = _Letters()
