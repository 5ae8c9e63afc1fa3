"""Searching texts by an expression that a person or an agent wrote.

It runs in the process with limits, whose code this module keeps small: the package ``regex`` checks a time between the
steps of a search alone, and a recursion, a long literal or the compilation may take a gigabyte of memory, or minutes.
"""

from __future__ import annotations

import json
import math
import time
import unicodedata
from collections.abc import Iterable
from itertools import accumulate, groupby
from typing import Any, Final, Literal, NamedTuple

import regex

from backstory.base.errors import InputError, ReadError
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.base.wording import shorten

SECONDS: Final = 10.0
"""Processor time that an expression may take over all documents."""
_MEGABYTES: Final = 512
"""Memory (MiB) that a search may take in addition to the code and the first texts."""
_BATCH_CHARACTERS: Final = 8_000_000
"""Characters of the texts that the process holds at a time, beside a longer text."""
_SHOWN: Final = 80
_UNSEEN: Final = regex.compile("[\u00ad\u200b\u2060\ufeff]")
_UNUSUAL: Final = regex.compile("[\u00ad\u200b\u2060\ufeff\ufb00-\ufb06\uff01-\uff5e]")
_CLUSTER: Final = regex.compile(r"\X")
_TASK: Final = f"{__name__}:search_request"


class FoundPlaces(NamedTuple):
    """The number of all matches, of the texts with a match, and of each wanted match its text, begin and end."""

    places: list[tuple[int, int, int]]
    total: int
    texts: int


def fold(text: str) -> tuple[str, list[tuple[int, int]] | None]:
    """Write a text as people type it, with the place of each character in the text as stored; None if it is the same.

    Letters are composed, ligatures and letters of full width plain, and signs that are not seen left out.
    """
    if text.isascii() or (unicodedata.is_normalized("NFC", text) and _UNUSUAL.search(text) is None):
        return text, None
    pieces, places = list[str](), list[tuple[int, int]]()
    for found in _CLUSTER.finditer(text):
        form: Literal["NFKC", "NFC"] = "NFKC" if _UNUSUAL.search(found[0]) else "NFC"
        pieces.append(unicodedata.normalize(form, _UNSEEN.sub("", found[0])))
        places += [found.span()] * len(pieces[-1])
    return "".join(pieces), places


def find_places(
    pattern: str, texts: Iterable[str], *, ignore_case: bool, limit: int, offset: int
) -> FoundPlaces:
    """Find the matches of an expression: all are counted, and those after ``offset`` are given, at most ``limit``."""
    try:
        compiled = regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except (RecursionError, regex.error) as error:
        what = f"{shorten(pattern, _SHOWN)!r} is no regular expression: {error}; correct it, or search for it as a text"
        is_deep = isinstance(error, RecursionError)
        raise InputError(what, code="nested_too_deeply" if is_deep else "invalid_expression") from error
    places = list[tuple[int, int, int]]()
    count = holding = 0
    for number, text in enumerate(texts):
        before = count
        folded, stored = fold(text)
        for start, end in (found.span() for found in compiled.finditer(folded)):
            if end == start:
                continue
            if offset <= count < offset + limit:
                span = (start, end) if stored is None else (stored[start][0], stored[end - 1][1])
                places.append((number, *span))
            count += 1
        holding += count > before
    return FoundPlaces(places, count, holding)


def find_limited(
    pattern: str, texts: Iterable[str], *, ignore_case: bool, limit: int, offset: int
) -> FoundPlaces:
    """Find the matches of an expression in the process with limits; see :func:`find_places`."""
    found, first, seconds = FoundPlaces([], 0, 0), -1, SECONDS
    # An expression is read even where there is no text.
    sized = accumulate(texts, lambda before, text: (before[0] + len(text), text), initial=(0, ""))
    for _, group in groupby(sized, lambda one: one[0] // _BATCH_CHARACTERS):
        batch = [text for _, text in group]
        wanted = {
            "pattern": pattern,
            "texts": batch,
            "ignore_case": ignore_case,
            "limit": limit - len(found.places),
            "offset": max(0, offset - found.total),
        }
        limits = ReadingLimits(math.ceil(max(seconds, 0)), _MEGABYTES)
        request = json.dumps(wanted, ensure_ascii=False).encode()
        try:
            answer: dict[str, Any] = json.loads(run_limited(_TASK, request, limits, size=0))
        except ReadError as error:
            what = f"{shorten(pattern, _SHOWN)!r} takes more than {SECONDS:g} s of processor time, or {_MEGABYTES} MB"
            remedy = "write it so that fewer of its parts can match the same characters"
            raise InputError(f"{what}; {remedy}", code="too_slow") from error
        if "error" in answer:
            raise InputError(answer["error"], code=answer["code"])
        places, total, holding = answer["found"]
        more = [(first + number, start, end) for number, start, end in places]
        found = FoundPlaces([*found.places, *more], found.total + total, found.texts + holding)
        first, seconds = first + len(batch), seconds - answer["seconds"]
    return found


def search_request(request: bytes) -> bytes:
    """Handle a request of :func:`find_limited` in the process with limits."""
    started = time.process_time()
    try:
        found = find_places(**json.loads(request))
    except InputError as error:
        return json.dumps({"error": str(error), "code": error.code}).encode()
    return json.dumps({"found": found, "seconds": time.process_time() - started}).encode()
