"""The texts of pages: cleaned, with words joined that are cut at the end of a line, and without running heads."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from backstory.base.wording import name_all, name_runs

PAGE_BREAK: Final = "\n\n"
"""What stands between the texts of two pages."""
_LINE_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BREAK_MARKS: Final = "\x02\ufffe"
"""What PDFium writes for a hyphen at the end of a line, in place of the hyphen and of the end of the line."""
_UNWRITTEN: Final = re.compile(r"[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ufeff\uffff\ufdd0-\ufdef\ud800-\udfff]")
"""Control characters, what is no character, and halves of characters."""
_FORMS: Final = re.compile(r"[\ufb00-\ufdfc\ufe70-\ufefc]")
"""Ligatures (``ﬁ``) and letters by their shape in a word (Hebrew, Arabic), which no one types."""
_FORMS_OF_WORDS: Final = (r"\w+", r"-\w+", r"\w+-\w+")
_ADDRESS: Final = re.compile(r"://|www\.|@|\w[./]\w")
_AND: Final = (
    "and", "or", "to", "und", "oder", "bis", "et", "ou", "à", "y", "o", "e", "en", "of", "och", "og", "i",
)  # fmt: skip
"""Words before the second half of a pair: ``short- and long-term``."""
_BROKEN: Final = re.compile(
    rf"(\w[-\u2010] (?:{'|'.join(_AND)}) )?(\S*?)(\w+)(?:[\x02\ufffe]\n?|([-\u2010\u00ad]) *\n) *(\w+)(-?)"
)
_APART: Final = frozenset(["well", "self", "half", "mid"])
"""First parts that keep their hyphen before a word."""
_NUMBER: Final = re.compile(r"\d+|\A[ivxlc]{1,7}\Z", re.IGNORECASE)
_PAGE_NUMBER: Final = re.compile(r"(?i:[\W_]|\b(?:page|p|seite|s|sida|página|pagina|of|von|de|sur|di|av)\b)+")
_LEAST_PAGES: Final = 3
_SHARE_OF_PAGES: Final = 0.6
_EDGE_LINES: Final = 2
"""How many lines at the top and the bottom of a page may be a running head."""


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

    The hyphen is dropped between two lower-case letters, unless it is the word's own: in an address, beside another
    hyphen, in a half of a pair (``pre- and post-war``), or where the pages elsewhere hold both parts as words, or the
    word with its hyphen, and not without. It is kept beside digits and capitals (``COVID-19``). Soft hyphens are
    dropped everywhere.
    """
    whole = " ".join(_BROKEN.sub(" ", page) for page in pages) if any(map(_BROKEN.search, pages)) else ""
    words = set(re.findall(r"\w+", whole))
    forms = {form for pattern in _FORMS_OF_WORDS for form in re.findall(pattern, whole.lower())}

    def join(found: re.Match[str]) -> str:
        pair, before, first, mark, rest, after = found.groups("")
        before = pair + before
        if mark == "\u00ad":
            return before + first + rest + after
        is_whole, is_long = f"{first}{rest}".lower() in forms, len(first) > 2 and len(rest) > 3
        if rest.lower() in _AND and not is_whole and not after:
            return f"{before}{first}- {rest}"
        is_own = not is_whole and (
            f"{first}-{rest}".lower() in forms
            or before.endswith("-")
            or len(first) == 1
            or bool(pair)
            or _ADDRESS.search(before + first) is not None
            or (is_long and (f"-{rest}" in forms or first.lower() in _APART))
            or (is_long and first.lower() in forms and rest in words)
        )
        is_cut = first[-1].islower() and rest[0].islower() and not is_own and not after
        return f"{before}{first}{'' if is_cut else '-'}{rest}{after}"

    marks = str.maketrans({"\u00ad": "", **dict.fromkeys(_BREAK_MARKS, "-")})
    return [_BROKEN.sub(join, page).translate(marks) for page in pages]


def drop_running_heads(pages: Sequence[str]) -> list[str]:
    """Leave out the lines that stand, but for numbers, at an edge of most pages, or of most left or right ones.

    Such a line is kept once for each number in it, as a paragraph of its own, unless it is the number of a page.
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
                line = lines[place].strip()
                lines[place] = "" if line in kept or _PAGE_NUMBER.fullmatch(shape) else f"\n{line}\n"
                kept.add(line)
    return [re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() for lines in split] if heads else list(pages)


def _list_edges(lines: Sequence[str]) -> dict[int, str]:
    """Return the lines at the top and the bottom of a page by their places, with # for each number."""
    written = [place for place, line in enumerate(lines) if line.strip()]
    edges = written if len(written) <= 2 * _EDGE_LINES else written[:_EDGE_LINES] + written[-_EDGE_LINES:]
    return {place: _NUMBER.sub("#", lines[place].strip()) for place in edges}
