"""Possessives of names: ``Lind's`` and ``Sanders'``, of which only the first ending fits any name for readers."""

from __future__ import annotations

import html
from typing import Final

import regex

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
