"""The text of a page as a program put it down -> as a person would type it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_LINE_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BREAK_MARKS: Final = "\x02\ufffe"
"""What PDFium writes for a hyphen at the end of a line, in place of the hyphen and of the end of the line."""

_UNWRITTEN: Final = re.compile(r"[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ufeff\uffff\ufdd0-\ufdef\ud800-\udfff]")
"""Control characters, what is no character, and halves of characters."""

_FORMS: Final = re.compile(
    r"[\ufb00-\ufb06\ufb13-\ufb17\ufb1d-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdc7\ufdf0-\ufdfc\ufe70-\ufefc]"
)
"""Ligatures (``ﬁ``) and letters by their shape in a word (Hebrew, Arabic), which no one types."""

_BROKEN: Final = re.compile(r"(\w+)(?:[\x02\ufffe]\n?|([-\u2010\u00ad])[ ]*\n)[ ]*(\w+)")
_COMPOUND: Final = re.compile(r"\w+-\w+")
_GARBLED_SHARE: Final = 0.3


def clean_page(text: str) -> str:
    r"""Clean the text of one page; the marks of hyphenated lines are left for :func:`join_hyphenated`.

    Args:
        text: Text as a library gives it.

    Returns:
        Text with newlines as ``\n``, without control characters, ligatures and superfluous blanks.
    """
    text = _UNWRITTEN.sub("", _LINE_ENDS.sub("\n", text))
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = re.sub(r"[ \t\u00a0]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def join_hyphenated(pages: Sequence[str]) -> list[str]:
    """Join the words that are cut at the end of a line, within each page.

    The hyphen is dropped between two lower-case letters, unless the same pages hold the word with a hyphen elsewhere
    and not without; it is kept beside digits and capitals (``COVID-19``). Soft hyphens are dropped everywhere.
    """
    whole = " ".join(pages).lower() if any(_BROKEN.search(page) for page in pages) else ""
    compounds, words = set(_COMPOUND.findall(whole)), set(re.findall(r"\w+", whole))

    def join(found: re.Match[str]) -> str:
        first, mark, rest = found.groups()
        if mark == "\u00ad":
            return first + rest
        is_compound = f"{first}-{rest}".lower() in compounds and f"{first}{rest}".lower() not in words
        if first[-1].islower() and rest[0].islower() and not is_compound:
            return first + rest
        return f"{first}-{rest}"

    return [_drop_marks(_BROKEN.sub(join, page)) for page in pages]


def is_garbled(text: str) -> bool:
    """Return whether a page's letters have no known characters, so that its text is numbers of shapes in a font."""
    letters = [character for character in text if not character.isspace() and character not in _BREAK_MARKS]
    unknown = sum(
        character == "\ufffd" or unicodedata.category(character) in ("Cc", "Co", "Cn")
        for character in letters
    )
    return unknown > _GARBLED_SHARE * len(letters)


def _drop_marks(page: str) -> str:
    return page.replace("\u00ad", "").replace("\x02", "-").replace("\ufffe", "-")
