"""A part of a document's text with the characters marked that an answer quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.documents import find_read
from backstory.retrieval.found import DocumentEntry

SHOWN_CHARACTERS: Final = 12_000
"""Characters of a text without pages that are shown at once."""
_BEFORE: Final = 3_000
"""Characters that are shown before a mark."""
_PDF: Final = "pdf"
_BLANK: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Mark:
    """Characters of a document's text that are to be marked.

    Attributes:
        start: The first one, from 0.
        end: The one after the last.
        quote: The words that stand there; None if nobody has quoted them.
    """

    start: int
    end: int
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A part of a document's text, divided by its mark.

    Attributes:
        document: The document.
        before: Text before the mark; all of it without a mark.
        marked: The marked text; empty without a mark.
        after: Text after the mark.
        start: First character of the part in the document's text, from 0.
        end: Character after its last one.
        length: Characters of the whole text.
        page: The page, if the part is one of a document with pages; None otherwise.
        has_picture: Whether the page can be drawn.
        lost: The quote, if the document has changed and no longer says it; None otherwise.
    """

    document: DocumentEntry
    before: str
    marked: str
    after: str
    start: int
    end: int
    length: int
    page: int | None
    has_picture: bool
    lost: str | None

    @property
    def mark_start(self) -> int:
        """First character of the mark in the document's text, from 0."""
        return self.start + len(self.before)

    @property
    def mark_end(self) -> int:
        """Character after the last one of the mark."""
        return self.mark_start + len(self.marked)


def read_passage(
    library: Library, document_id: str, *, mark: Mark | None = None, page: int | None = None, start: int = 0
) -> ShownPassage:
    """Read a part of a document: the page or the surroundings of a mark, or the part that is asked for.

    A page counts from 1. A text without pages and without a mark is shown from its character ``start``.
    """
    document = find_read(library, document_id)
    whole = library.text(document_id).text
    found, lost = _find_mark(whole, mark)
    if document.pages is None:
        first, last = _choose_part(whole, found, start)
    else:
        page = page or (1 if found is None else _find_page(library, document, found.start))
        text = library.text(document_id, page)
        first, last = text.char_start, text.char_end
    begin, end = (last, last) if found is None else (max(first, found.start), min(last, found.end))
    if begin > end:  # the mark is on another page
        begin, end = last, last
    return ShownPassage(
        document=document,
        before=whole[first:begin],
        marked=whole[begin:end],
        after=whole[end:last],
        start=first,
        end=last,
        length=len(whole),
        page=page if document.pages is not None else None,
        has_picture=document.pages is not None and document.uri.lower().endswith(f".{_PDF}"),
        lost=lost,
    )


def _find_mark(text: str, mark: Mark | None) -> tuple[Mark | None, str | None]:
    """Find what is to be marked, which an edit of the document may have moved or dropped since it was quoted."""
    if mark is None:
        return None, None
    if mark.quote is None:
        is_inside = 0 <= mark.start < mark.end <= len(text)
        return (mark if is_inside else None), None
    if _fold(text[mark.start : mark.end]) == _fold(mark.quote):
        return mark, None
    pattern = r"\s+".join(re.escape(word) for word in mark.quote.split())
    moved = re.search(pattern, text) if pattern else None
    return (Mark(*moved.span()), None) if moved else (None, mark.quote)


def _choose_part(text: str, mark: Mark | None, start: int) -> tuple[int, int]:
    """Choose whole lines around a mark, or from a character on."""
    if mark is None:
        first, least = min(max(0, start), len(text)), 0
    else:
        first, least = max(0, mark.start - _BEFORE), mark.end
        line = text.rfind("\n", max(0, first - _BEFORE), first) + 1
        first = line or (0 if first <= _BEFORE else first)
    last = max(first + SHOWN_CHARACTERS, least)
    line = text.rfind("\n", max(first, least), last) + 1
    return first, len(text) if last >= len(text) else line or last


def _find_page(library: Library, document: DocumentEntry, character: int) -> int:
    """Find the page of a character."""
    low, high = 1, document.pages or 1
    while low < high:
        middle = (low + high) // 2
        if library.text(document.document_id, middle).char_end <= character:
            low = middle + 1
        else:
            high = middle
    return low


def _fold(text: str) -> str:
    return _BLANK.sub(" ", text).strip()
