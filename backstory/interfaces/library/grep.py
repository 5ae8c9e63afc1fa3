"""Find every match of a pattern in the texts of the documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Final

import polars as pl
import regex

from backstory.base.errors import InputError, ReadError
from backstory.base.expressions import (
    MEGABYTES,
    FoldedText,
    FoundPlaces,
    compile_expression,
    find_limited,
    find_places,
    quote,
)
from backstory.interfaces.library.corpus import Corpus, place_text
from backstory.interfaces.library.results import GrepAnswer, Match
from backstory.interfaces.library.text_positions import PlacedText, cite

_LINE_CHARACTERS: Final = 240
_MATCH_CHARACTERS: Final = 400
_SHORT_CHARACTERS: Final = 200
"""Length of the longest text that is searched in this process: the time grows only with the documents."""
_MOST_REPEATS: Final = 10_000
"""A compiled pattern holds a copy of a part for each time that it is repeated, before any time limit applies."""

_TOKEN: Final = regex.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d{0,9})(?:,(?P<most>\d{0,9}))?\}|.", regex.DOTALL
)
"""An escaped character, a class, a number of times in braces, or any other character."""


def grep(
    corpus: Corpus,
    pattern: str,
    *,
    is_regex: bool,
    ignore_case: bool,
    limit: int,
    offset: int,
    limit_seconds: float,
    notes: Sequence[str] = (),
) -> GrepAnswer:
    """Find the matches of a pattern in the texts of all documents.

    Args:
        corpus: The documents.
        pattern: A text, or a regular expression of the package ``regex``, in which ``^`` and ``$`` match at lines.
        is_regex: Whether the pattern is a regular expression.
        ignore_case: Whether upper and lower case are the same.
        limit: Maximum number of returned matches; all are counted.
        offset: Number of matches to skip.
        limit_seconds: Processor time that the search may take.
        notes: Notes of the answer.

    Returns:
        The matches by path and place, without those that hold no character.

    Raises:
        InputError: The pattern is empty or no regular expression, a number is out of its range, or the search took too
            much time or memory.
    """
    if not pattern:
        raise InputError("the pattern is empty; give a text to look for", code="blank_text")
    if limit < 0 or offset < 0:
        raise InputError(f"limit {limit} and offset {offset} must not be negative", code="out_of_range")
    if is_regex and _count_repeats(pattern) > _MOST_REPEATS:
        raise InputError(
            f"{quote(pattern)} repeats a part more than {_MOST_REPEATS:,} times; write smaller numbers in braces, "
            "or +",
            code="too_many_repeats",
        )
    documents = corpus.documents
    found = _find(
        unicodedata.normalize("NFC", pattern) if is_regex else regex.escape(FoldedText(pattern).text),
        documents["text"],
        is_cheap=not is_regex and len(pattern) <= _SHORT_CHARACTERS,
        ignore_case=ignore_case,
        limit=limit,
        offset=offset,
        seconds=limit_seconds,
    )
    rows = {number: documents.row(number, named=True) for number, _, _ in found.places}
    placed = {number: place_text(row) for number, row in rows.items()}
    matches = [_describe(rows[number], placed[number], start, end) for number, start, end in found.places]
    shown = offset + len(matches)
    return GrepAnswer(
        pattern=pattern,
        regex=is_regex,
        matches=tuple(matches),
        count=found.total,
        documents=found.texts,
        offset=offset,
        next_offset=shown if matches and shown < found.total else None,
        notes=tuple(notes),
    )


def _count_repeats(pattern: str) -> int:
    """Return the largest product of numbers in braces that stand around each other, each of which copies its part."""
    most, last, around = 1, 1, list[int]()
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            around.append(most)
            most = last = 1
        elif token[0] == ")":
            last, most = most, max(most, around.pop() if around else 1)
        elif token["least"] is not None:
            last *= max(1, int(token["least"] or 1), int(token["most"] or 1))
            most = max(most, last)
        else:
            last = 1
    return most


def _find(pattern: str, texts: pl.Series, *, is_cheap: bool, seconds: float, **wanted: Any) -> FoundPlaces:
    try:
        if is_cheap:
            compiled = compile_expression(pattern, ignore_case=wanted.pop("ignore_case"))
            return find_places(compiled, texts, seconds=seconds, **wanted)
        return find_limited(pattern, texts, seconds=seconds, **wanted)
    except (TimeoutError, ReadError) as error:
        raise InputError(
            f"{quote(pattern)} takes more than {seconds:g} seconds of processor time over the documents, or more "
            f"than {MEGABYTES} MB of memory; write it so that fewer of its parts can match the same characters",
            code="too_slow",
        ) from error


def _describe(row: dict[str, Any], placed: PlacedText, start: int, end: int) -> Match:
    line, page = placed.line_of(start), placed.page_of(start)
    first, last = placed.bounds_of_line(line)
    before = max(first, min(start - _LINE_CHARACTERS // 3, last - _LINE_CHARACTERS))
    shown = placed.text[before : min(last, before + _LINE_CHARACTERS)]
    last_line = placed.line_of(end - 1)
    return Match(
        document_id=row["document_id"],
        uri=row["uri"],
        title=row["title"],
        page=page,
        line=line,
        column=start - first + 1,
        char_start=start,
        char_end=end,
        match=placed.text[start : min(end, start + _MATCH_CHARACTERS)],
        text=shown,
        text_start=start - before,
        cite=cite(
            row["uri"],
            pages=None if page is None else (page, placed.page_of(end - 1) or page),
            lines=(line, last_line),
            characters=(start, end),
        ),
    )
