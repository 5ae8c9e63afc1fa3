"""A pattern -> every place in the texts of the documents that it matches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import regex

from backstory.errors import InputError
from backstory.library.citations import cite
from backstory.library.corpus import Corpus, place_text
from backstory.library.places import PlacedText
from backstory.library.results import GrepAnswer, Match

_LINE_CHARACTERS: Final = 240
_MATCH_CHARACTERS: Final = 400
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
) -> GrepAnswer:
    """Find the matches of a pattern in the texts of all documents.

    Args:
        corpus: The documents.
        pattern: A text, or a regular expression of the package ``regex``, in which ``^`` and ``$`` match at lines.
        is_regex: Whether the pattern is a regular expression.
        ignore_case: Whether upper and lower case are the same.
        limit: Most matches that are given; all are counted.
        offset: Number of matches to pass over.
        limit_seconds: Processor time that the process may take meanwhile, by which the package ``regex`` counts.

    Returns:
        The matches by path and place, without those that hold no character.

    Raises:
        InputError: The pattern is empty or no regular expression, a number is out of its range, or the search took too
            long.
    """
    if not pattern:
        raise InputError("the pattern is empty; give a text to look for")
    if limit < 0 or offset < 0:
        raise InputError(f"limit {limit} and offset {offset} must not be negative")
    compiled = _compile(pattern, is_regex=is_regex, ignore_case=ignore_case)
    matches: list[Match] = []
    count, documents = 0, 0
    deadline = time.process_time() + limit_seconds
    for row in corpus.documents.iter_rows(named=True):
        placed, found = place_text(row), 0
        for start, end in _find(compiled, row["text"], deadline, pattern, limit_seconds):
            if offset <= count < offset + limit:
                matches.append(_describe(row, placed, start, end))
            count, found = count + 1, found + 1
        documents += bool(found)
    shown = offset + len(matches)
    return GrepAnswer(
        pattern=pattern,
        regex=is_regex,
        matches=tuple(matches),
        count=count,
        documents=documents,
        offset=offset,
        next_offset=shown if matches and shown < count else None,
        notes=(),
    )


def _compile(pattern: str, *, is_regex: bool, ignore_case: bool) -> regex.Pattern[str]:
    flags = regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0)
    if is_regex and _count_repeats(pattern) > _MOST_REPEATS:
        raise InputError(
            f"{pattern!r} repeats a part more than {_MOST_REPEATS:,} times; write smaller numbers in braces, or +"
        )
    try:
        return regex.compile(pattern if is_regex else regex.escape(pattern), flags)
    except RecursionError as error:
        raise InputError(f"{pattern[:80]!r}… is nested too deeply; write it with fewer groups") from error
    except regex.error as error:
        raise InputError(
            f"{pattern!r} is no regular expression: {error}; correct it, or search for it as a text"
        ) from error


def _count_repeats(pattern: str) -> int:
    """Give the largest product of numbers in braces that stand around each other, each of which copies its part."""
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


def _find(
    compiled: regex.Pattern[str], text: str, deadline: float, pattern: str, limit_seconds: float
) -> Iterator[tuple[int, int]]:
    try:
        left = deadline - time.process_time()
        if left <= 0:
            raise TimeoutError
        for found in compiled.finditer(text, timeout=left):
            if found.end() > found.start():
                yield found.span()
    except TimeoutError as error:
        raise InputError(
            f"{pattern!r} takes more than {limit_seconds:g} seconds of processor time over the documents; write it so "
            "that fewer of its parts can match the same characters"
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
