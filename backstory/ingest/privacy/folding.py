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
        self[point] = self._spell(chr(point))
        return self[point]

    def _spell(self, character: str) -> str:
        if ord(character) in _MODIFIERS or character == _UNDECODABLE:
            return ""
        spelled = PLAIN_LETTERS.get(character) or unicodedata.normalize("NFKD", character)
        if unicodedata.category(character) == "So" and len(spelled) > 1:
            return character
        small = map(_digit, unicodedata.normalize("NFKD", spelled.casefold()))
        return "".join(PLAIN_LETTERS.get(part, part) for part in small if _is_significant(part))


def _digit(character: str) -> str:
    return str(unicodedata.decimal(character, character))


def _is_significant(character: str) -> bool:
    category = unicodedata.category(character)
    if category in ("Mn", "Mc"):  # vowel signs of Indic and Thai scripts are letters, accents are not
        return not unicodedata.combining(character) and not _is_invisible(character)
    return character == "@" or category == "So" or (category[0] in "LN" and not _is_invisible(character))


def _is_invisible(character: str) -> bool:
    return regex.match(r"\p{Default_Ignorable_Code_Point}", character) is not None


_LETTERS: Final = _Letters()
