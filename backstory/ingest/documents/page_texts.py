"""The pages of a file, and the text of a page as a program put it down -> as a person would type it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from backstory.base.wording import name_all, name_runs
from backstory.ingest.documents.parsed_document import NO_CHANGE, LastChange

PAGE_BREAK: Final = "\n\n"
"""What stands between the texts of two pages."""
_LINE_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BREAK_MARKS: Final = "\x02\ufffe"
"""What PDFium writes for a hyphen at the end of a line, in place of the hyphen and of the end of the line."""
_UNWRITTEN: Final = re.compile(r"[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ufeff\uffff\ufdd0-\ufdef\ud800-\udfff]")
"""Control characters, what is no character, and halves of characters."""
_FORMS: Final = re.compile(r"[\ufb00-\ufdfc\ufe70-\ufefc]")
"""Ligatures (``ﬁ``) and letters by their shape in a word (Hebrew, Arabic), which no one types."""
_BROKEN: Final = re.compile(r"(\S*?)(\w+)(?:[\x02\ufffe]\n?|([-\u2010\u00ad])[ ]*\n)[ ]*(\w+)")
_COMPOUND: Final = re.compile(r"\w+-\w+")
_ADDRESS: Final = re.compile(r"://|www\.|@|\w[./]\w")
_AND: Final = (
    "and", "or", "to", "und", "oder", "bis", "et", "ou", "à", "y", "o", "e", "en", "of", "och", "og", "i",
)  # fmt: skip
"""Words before the second half of a pair: ``short- and long-term``."""
_PAIR: Final = re.compile(rf"\w[-\u2010] (?:{'|'.join(_AND)}) \Z")
"""What stands before the second half of a pair."""
_ALWAYS_APART: Final = frozenset(["well", "self", "half", "mid"])
"""First parts that keep their hyphen before a word."""
_LEAST_PART: Final = 4
_PAIR_CHARACTERS: Final = 12
_NUMBER: Final = re.compile(r"\d+|\A[ivxlc]{1,7}\Z", re.IGNORECASE)
_LEAST_PAGES: Final = 3
_SHARE_OF_PAGES: Final = 0.6
_EDGE_LINES: Final = 2
"""How many lines at the top and the bottom of a page may be a running head."""
_GARBLED_SHARE: Final = 0.3


@dataclass(frozen=True)
class PagedFile:
    """What a file of pages holds before text is recognised in its ``pictures``; ``notes`` say what is not read."""

    texts: tuple[str, ...]
    pictures: tuple[int, ...] = ()
    title: str | None = None
    change: LastChange = NO_CHANGE
    notes: tuple[str, ...] = ()


def find_starts(pages: Sequence[str], separator: str = PAGE_BREAK) -> tuple[int, ...]:
    """Return where each page begins in the joined pages."""
    return tuple(accumulate((len(page) + len(separator) for page in pages[:-1]), initial=0))


def list_pages(numbers: Iterable[int]) -> str:
    """Name pages as a subject: ``page 3``, ``pages 3 and 5-7``."""
    listed = name_all(name_runs(numbers, "-"))
    return f"{'page' if listed.isdigit() else 'pages'} {listed}"


def clean_page(text: str) -> str:
    r"""Clean the text of one page; the marks of hyphenated lines are left for :func:`join_hyphenated`."""
    text = _UNWRITTEN.sub("", _LINE_ENDS.sub("\n", text))
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = re.sub(r"[ \t\u00a0]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def join_hyphenated(pages: Sequence[str]) -> list[str]:
    """Join the words that are cut at the end of a line, within each page.

    The hyphen is dropped between two lower-case letters, unless it is the word's own: the same pages hold the word with
    a hyphen elsewhere and not without, or another word with the same part (``long-term`` beside ``mid-term``); it is in
    an address or beside another hyphen; or the word is a half of a pair (``pre- and post-war``). It is kept beside
    digits and capitals (``COVID-19``). Soft hyphens are dropped everywhere.
    """
    whole = " ".join(pages).lower() if any(_BROKEN.search(page) for page in pages) else ""
    compounds, words = set(_COMPOUND.findall(whole)), set(re.findall(r"\w+", whole))
    parts = {part for compound in compounds for part in compound.split("-") if len(part) >= _LEAST_PART}

    def join(found: re.Match[str]) -> str:
        before, first, mark, rest = found.groups()
        if mark == "\u00ad":
            return before + first + rest
        joined, own = f"{first}{rest}".lower(), f"{first}-{rest}".lower()
        if rest.lower() in _AND and joined not in words:
            return f"{before}{first}- {rest}"
        is_own = joined not in words and (
            own in compounds
            or before.endswith("-")
            or len(first) == 1
            or _ADDRESS.search(before + first) is not None
            or not parts.isdisjoint([first.lower(), rest.lower()])
            or _PAIR.search(found.string, max(0, found.start() - _PAIR_CHARACTERS), found.start()) is not None
            or (first.lower() in _ALWAYS_APART and len(rest) >= _LEAST_PART)
        )
        is_cut = first[-1].islower() and rest[0].islower() and not is_own
        return f"{before}{first}{'' if is_cut else '-'}{rest}"

    marks = str.maketrans({"\u00ad": "", **dict.fromkeys(_BREAK_MARKS, "-")})
    return [_BROKEN.sub(join, page).translate(marks) for page in pages]


def drop_running_heads(pages: Sequence[str]) -> list[str]:
    """Leave out the lines that stand, but for numbers, at an edge of most pages, or of most left or right ones.

    The first page keeps such a line as a paragraph of its own, unless it is the number of a page.
    """
    split = [page.split("\n") for page in pages]
    edges = [_list_edges(lines) for lines in split]
    heads: set[str] = set()
    for side in (edges, edges[::2], edges[1::2]):
        shapes = Counter(shape for lines in side for shape in set(lines.values()))
        least = max(_LEAST_PAGES, _SHARE_OF_PAGES * sum(map(bool, side)))
        heads.update(shape for shape, number in shapes.items() if number >= least)
    kept: set[str] = set()
    for lines, shapes_of in zip(split, edges, strict=True):
        is_more = any(line.strip() and shapes_of.get(place) not in heads for place, line in enumerate(lines))
        for place, shape in shapes_of.items() if is_more else ():
            if shape in heads:
                lines[place] = "" if shape in kept or "#" in shape else f"\n{lines[place]}\n"
                kept.add(shape)
    return [re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() for lines in split] if heads else list(pages)


def _list_edges(lines: Sequence[str]) -> dict[int, str]:
    """Return the lines at the top and the bottom of a page by their places, with # for each number."""
    written = [place for place, line in enumerate(lines) if line.strip()]
    edges = written if len(written) <= 2 * _EDGE_LINES else written[:_EDGE_LINES] + written[-_EDGE_LINES:]
    return {place: _NUMBER.sub("#", lines[place].strip()) for place in edges}


def is_garbled(text: str) -> bool:
    """Return whether a page's letters have no known characters, so that its text is numbers of shapes in a font."""
    letters = [character for character in text if not character.isspace() and character not in _BREAK_MARKS]
    unknown = sum(
        character == "\ufffd" or unicodedata.category(character) in ("Cc", "Co", "Cn")
        for character in letters
    )
    return unknown > _GARBLED_SHARE * len(letters)
