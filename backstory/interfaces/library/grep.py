"""Find every match of a text or an expression in the texts of the documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Final

import regex

from backstory.base.errors import InputError
from backstory.interfaces.library.corpus import Corpus, place_text
from backstory.interfaces.library.expressions import find_limited, find_places, fold
from backstory.interfaces.library.names import PlacedText
from backstory.interfaces.library.results import GrepAnswer, Match
from backstory.retrieval.found import NamedDocument, cite

_SHORT_CHARACTERS: Final = 200
"""Length of the longest text that is searched in this process: the time grows only with the documents."""
_LINE_CHARACTERS: Final = 240
_MATCH_CHARACTERS: Final = 400


def grep(
    corpus: Corpus,
    pattern: str,
    *,
    is_regex: bool,
    ignore_case: bool,
    limit: int,
    offset: int,
    notes: Sequence[str],
) -> GrepAnswer:
    """Find the matches of a pattern, by path and place; see :meth:`~backstory.interfaces.library.library.Library.grep`.

    An expression is one of the package ``regex``, in which ``^`` and ``$`` match at lines. Matches without a character
    do not count.
    """
    if not pattern:
        raise InputError("the pattern is empty; give a text to look for", code="blank_text")
    if limit < 0 or offset < 0:
        raise InputError(f"limit {limit} and offset {offset} must not be negative", code="out_of_range")
    documents = corpus.documents
    wanted = unicodedata.normalize("NFC", pattern) if is_regex else regex.escape(fold(pattern)[0])
    find = find_limited if is_regex or len(pattern) > _SHORT_CHARACTERS else find_places
    found = find(wanted, documents["text"], ignore_case=ignore_case, limit=limit, offset=offset)
    rows = {number: documents.row(number, named=True) for number, _, _ in found.places}
    placed = {number: place_text(row) for number, row in rows.items()}
    shown = offset + len(found.places)
    return GrepAnswer(
        pattern=pattern,
        regex=is_regex,
        matches=tuple(_describe(rows[number], placed[number], *span) for number, *span in found.places),
        count=found.total,
        documents=found.texts,
        offset=offset,
        next_offset=shown if found.places and shown < found.total else None,
        notes=tuple(notes),
    )


def _describe(row: dict[str, Any], placed: PlacedText, start: int, end: int) -> Match:
    line, page = placed.line_of(start), placed.page_of(start)
    first, last = placed.bounds_of_line(line)
    before = max(first, min(start - _LINE_CHARACTERS // 3, last - _LINE_CHARACTERS))
    return Match(
        **{name: row[name] for name in NamedDocument.model_fields},
        page=page,
        line=line,
        column=start - first + 1,
        char_start=start,
        char_end=end,
        match=placed.text[start : min(end, start + _MATCH_CHARACTERS)],
        text=placed.text[before : min(last, before + _LINE_CHARACTERS)],
        text_start=start - before,
        cite=cite(
            row["uri"],
            pages=(page, placed.page_of(end - 1)),
            lines=(line, placed.line_of(end - 1)),
            characters=(start, end),
        ),
    )
