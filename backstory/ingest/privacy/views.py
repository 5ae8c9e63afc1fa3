r"""Texts as a reader sees them: without tags, with entities and escapes as the characters that they stand for.

A name may be written ``<b>Anna</b>&nbsp;Lind``. Each view keeps where its characters stand in the text, so that names
are looked for in one way, whatever a text is wrapped in. What looks like an escape may be none (``C:\nina lind``), and
a tag may hold a name (``<a title="Anna Lind">``), so the text itself is a view, too. So is the text without initials
that are put into a name (``Anna M. Lind``).
"""

from __future__ import annotations

import html
import itertools
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.entities import html5
from typing import Final
from urllib.parse import unquote

import polars as pl

_LETTER: Final = r"[^\W\d_]"
_SPACE: Final = "[ \u00a0._-]"
_CONSONANT: Final = "[b-df-hj-np-tv-xz]"
"""A letter that is no word by itself."""
_DISGUISE: Final = r"<[/!A-Za-z]|&[#A-Za-z]|\\[A-Za-z]|%[0-9A-Fa-f]{2}|=[0-9A-F]{2}"
"""Pattern of every text that has more than one view."""
_MAY_HOLD_INITIALS: Final = (
    rf"{_LETTER}{_SPACE}{{1,2}}{_LETTER}[._-]"
    rf"|{_LETTER}{_SPACE}(?:[^\W\d_a-z][ \u00a0][^\W\d_a-z]|{_CONSONANT}[ \u00a0]{_LETTER})"
)
_INITIALS: Final = re.compile(
    rf"(?<={_LETTER}{{2}}{_SPACE})(?:{_LETTER}(?:[._-]{{1,2}}[ \u00a0]?|[ \u00a0])){{1,3}}(?={_LETTER}{{2}})"
)
"""Initials between two words, such as those of a member's second names."""
_LATER_INITIALS: Final = re.compile(
    rf"(?:(?<=\W{_LETTER}\.)|(?<=^{_LETTER}\.))[ \u00a0]?(?:{_LETTER}(?:\.[ \u00a0]?|[ \u00a0])){{1,2}}"
    rf"(?={_LETTER}{{2}})"
)
"""Initials behind the first one, which stays."""
_BYTES: Final = "(?:2[0-9A-Fa-f]|0[9ADad]|5[Ff]|[C-Fc-f][0-9A-Fa-f](?:{0}[89ABab][0-9A-Fa-f]){{1,3}})"
"""Hexadecimal digits of separators and of letters beyond ASCII; ``100%Ada`` holds none."""
_ESCAPE: Final = re.compile(
    r"&(?:amp;){0,3}(?P<entity>#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
    r"|\\{1,4}u(?P<high>[dD][89ABab][0-9A-Fa-f]{2})\\{1,4}u(?P<low>[dD][C-Fc-f][0-9A-Fa-f]{2})"
    r"|\\{1,4}(?:u(?P<u>[0-9A-Fa-f]{4})|u\{(?P<braced>[0-9A-Fa-f]{1,6})\}|U(?P<U>[0-9A-Fa-f]{8})|x(?P<x>[0-9A-Fa-f]{2}))"
    r"|\\{1,4}(?P<space>[fnrtv])"
    rf"|(?P<percent>(?:%{_BYTES.format('%')})+)"
    rf"|(?P<quoted>(?:={_BYTES.format('=')})+)"
)
_MOST_NESTED: Final = 3
"""How often what an escape stands for is itself read as an escape (``\\u0026nbsp;``)."""
_ELEMENT: Final = r"<(?P<slash>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,40})(?:[\s/][^<>]{0,2000})?>"
_TAG: Final = re.compile(rf"{_ELEMENT}|<!--[^<>]{{0,2000}}-->")
_MARK: Final = re.compile(rf"{_ELEMENT}|\*{{1,3}}|~~")
_SEEN_TAG: Final = "*"
"""Stands for a tag: no letter and no space, like the sign of emphasis that many tags are."""


@dataclass(frozen=True)
class View:
    """A text as a reader sees it, and where each of its characters starts and ends in the text as written."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end in the text as written of a part of the view that is not empty."""
        return self.starts[start], self.ends[end - 1]

    def see_through(self, pattern: re.Pattern[str], read: Callable[[re.Match[str]], str]) -> View:
        """Return the view with other characters for each match, or the view itself if that changes nothing."""
        # A text may be a whole document, of which lists of numbers would take 20 times as many bytes.
        parts, starts, ends = list[str](), array("I"), array("I")
        done = 0
        for match in pattern.finditer(self.text):
            seen = read(match)
            if seen == match.group():
                continue
            start, end = match.span()
            parts += (self.text[done:start], seen)
            starts.extend(self.starts[done:start])
            starts.extend([self.starts[start]] * len(seen))
            ends.extend(self.ends[done:start])
            ends.extend([self.ends[end - 1]] * len(seen))
            done = end
        if not done:
            return self
        starts.extend(self.starts[done:])
        ends.extend(self.ends[done:])
        return View("".join([*parts, self.text[done:]]), starts, ends)


def list_views(text: str) -> list[View]:
    """List the ways to read a text, beginning with the text as it is written."""
    written = View(text, range(len(text)), range(1, len(text) + 1))
    if re.search(_DISGUISE, text) is None:
        return [written]
    views = [written]
    for _ in range(_MOST_NESTED):
        views.append(views[-1].see_through(_ESCAPE, _decode))
    views.append(views[-1].see_through(_TAG, lambda _: _SEEN_TAG))
    return [views[0], *(view for below, view in itertools.pairwise(views) if view is not below)]


def list_views_of_names(text: str) -> list[View]:
    """List the ways to read a text, also without the initials that may have been put into a name."""
    views = list_views(text)
    without = (views[-1].see_through(pattern, _drop_initials) for pattern in (_INITIALS, _LATER_INITIALS))
    return [*views, *(view for view in without if view is not views[-1])]


def _drop_initials(match: re.Match[str]) -> str:
    """Drop what can be initials: capitals before another one, letters with a dot or the like, or single consonants."""
    written, following = match.group(), match.string[match.end()]
    is_marked = any(sign in written for sign in "._-") or re.fullmatch(rf"{_CONSONANT}\s", written)
    return "" if is_marked or (written.isupper() and following.isupper()) else written


def spread_views(texts: pl.Series) -> tuple[pl.Series, list[int]]:
    """Return texts or nulls, then their other views, and for each of all these the number of its text."""
    disguised = texts.str.contains(f"{_DISGUISE}|{_MAY_HOLD_INITIALS}").fill_null(value=False).arg_true()
    others = [(row, view.text) for row in disguised for view in list_views_of_names(texts[row])[1:]]
    spread = pl.concat([texts, pl.Series(texts.name, [text for _, text in others], dtype=pl.String)])
    return spread, [*range(len(texts)), *(row for row, _ in others)]


def find_open_marks(text: str, start: int, end: int) -> tuple[str, str]:
    """Find the tags and signs of emphasis inside a part of a text whose other half stands outside of it.

    It returns those to write before and behind what replaces the part: of ``<b>Anna</b> Lind``, nothing and ``</b>``.
    """
    kept: list[tuple[str, bool, str]] = []
    for match in _MARK.finditer(text, start, end):
        name, written = match["name"], match.group()
        is_end = bool(match["slash"]) if name else text[match.end() : match.end() + 1].isspace()
        if kept and kept[-1][0] == (name or written):
            kept.pop()
        else:
            kept.append((name or written, is_end, written))
    before = "".join(written for _, is_end, written in kept if not is_end)
    after = "".join(written for _, is_end, written in kept if is_end)
    if len(before) + len(after) == end - start:  # of a name such as `*` nothing would be replaced
        return "", ""
    return (after + before, "") if before else ("", after)


def _decode(match: re.Match[str]) -> str:
    kind, written = match.lastgroup, match.group()
    value = match[kind] if kind else ""
    if kind == "entity":
        if value.startswith("#"):
            return _replace_surrogates(html.unescape(f"&{value};"))
        return html5.get(f"{value};", written)
    if kind == "space":
        return "\n"
    if kind == "percent":
        return unquote(written)
    if kind == "quoted":
        return bytes.fromhex(written.replace("=", "")).decode("utf-8", "replace")
    if kind == "low":
        return bytes.fromhex(match["high"] + value).decode("utf-16-be")
    point = int(value, 16)
    return _replace_surrogates(chr(point)) if point <= 0x10FFFF else written


def _replace_surrogates(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
