r"""Searching texts by an expression that a person or an agent wrote, in the process with limits.

Between the steps of a search the package ``regex`` can check a time, but a recursion, a long literal or the compilation
takes none of these steps: such an expression takes a gigabyte of memory, or minutes. An engine that takes linear time
(``google-re2``) would need no limits, but knows no expressions that look around or refer back, and takes ``\b`` and
``\w`` for ASCII. A process that ends at its limits keeps the whole language.
"""

from __future__ import annotations

import json
import math
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

import regex

from backstory.base.errors import InputError
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.base.wording import shorten

MEGABYTES: Final = 512
"""Memory (MiB) that a search may take in addition to the code and the first texts."""

_BATCH_CHARACTERS: Final = 8_000_000
_SHOWN: Final = 80
_UNSEEN: Final = regex.compile("[\u00ad\u200b\u2060\ufeff]")
_UNUSUAL: Final = regex.compile("[\u00ad\u200b\u2060\ufeff\ufb00-\ufb06\uff01-\uff5e]")
_CLUSTER: Final = regex.compile(r"\X")
_TASK: Final = f"{__name__}:search_request"


class FoundPlaces(NamedTuple):
    """Where an expression matches."""

    places: list[tuple[int, int, int]]
    """Number of the text, first character and the one after the last of each match that is given, in order."""
    total: int
    """Number of all matches."""
    texts: int
    """Number of texts with a match."""


class FoldedText:
    """A text as people type it, and where each of its characters stands in the text as stored.

    Letters are composed, ligatures and letters of full width are plain ones, and soft hyphens and other signs that are
    not seen are left out.
    """

    def __init__(self, text: str) -> None:
        self.text = ""
        self._places: list[tuple[int, int]] = []
        pieces = []
        for found in _CLUSTER.finditer(text):
            form: Literal["NFKC", "NFC"] = "NFKC" if _UNUSUAL.search(found[0]) else "NFC"
            written = unicodedata.normalize(form, _UNSEEN.sub("", found[0]))
            pieces.append(written)
            self._places += [found.span()] * len(written)
        self.text = "".join(pieces)

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the first character, and the one after the last, in the text as stored."""
        return self._places[start][0], self._places[end - 1][1]


def quote(pattern: str) -> str:
    """Quote an expression in a message, without the rest of a long one."""
    return repr(shorten(pattern, _SHOWN))


def find_places(
    pattern: str, texts: Iterable[str], *, ignore_case: bool, limit: int, offset: int
) -> FoundPlaces:
    """Find the matches of an expression, in which ``^`` and ``$`` match at lines, without those that hold no character.

    All are counted, and those after ``offset`` are given, at most ``limit``. An ``InputError`` means that it is none.
    """
    try:
        compiled = regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except RecursionError as error:
        raise InputError(
            f"{quote(pattern)} is nested too deeply; write it with fewer groups", code="nested_too_deeply"
        ) from error
    except regex.error as error:
        raise InputError(
            f"{quote(pattern)} is no regular expression: {error}; correct it, or search for it as a text",
            code="invalid_expression",
        ) from error
    places: list[tuple[int, int, int]] = []
    count = holding = 0
    for number, text in enumerate(texts):
        before = count
        is_usual = text.isascii() or (
            unicodedata.is_normalized("NFC", text) and _UNUSUAL.search(text) is None
        )
        folded = None if is_usual else FoldedText(text)
        for found in compiled.finditer(text if folded is None else folded.text):
            if found.end() > found.start():
                if offset <= count < offset + limit:
                    span = found.span() if folded is None else folded.locate(*found.span())
                    places.append((number, *span))
                count += 1
        holding += count > before
    return FoundPlaces(places, count, holding)


def find_limited(
    pattern: str, texts: Iterable[str], *, ignore_case: bool, limit: int, offset: int, seconds: float
) -> FoundPlaces:
    """Find the matches of an expression in the process with limits; see :func:`find_places`.

    A ``ReadError`` means that it takes more memory than the process may, or more seconds of processor time, rounded up.
    """
    places: list[tuple[int, int, int]] = []
    first = count = holding = 0
    for batch in _batch(texts):
        wanted = {
            "pattern": pattern,
            "texts": batch,
            "ignore_case": ignore_case,
            "limit": limit - len(places),
            "offset": max(0, offset - count),
        }
        limits = ReadingLimits(math.ceil(max(seconds, 0)), MEGABYTES)
        request = json.dumps(wanted, ensure_ascii=False).encode()
        answer: dict[str, Any] = json.loads(run_limited(_TASK, request, limits, size=0))
        if "error" in answer:
            raise InputError(answer["error"], code=answer["code"])
        found = FoundPlaces(*answer["found"])
        places += [(first + number, start, end) for number, start, end in found.places]
        first, count, holding = first + len(batch), count + found.total, holding + found.texts
        seconds -= answer["seconds"]
    return FoundPlaces(places, count, holding)


def search_request(request: bytes) -> bytes:
    """Handle a request of :func:`find_limited` in the process with limits."""
    started = time.process_time()
    try:
        found = find_places(**json.loads(request))
    except InputError as error:
        return json.dumps({"error": str(error), "code": error.code}).encode()
    return json.dumps({"found": found, "seconds": time.process_time() - started}).encode()


def _batch(texts: Iterable[str]) -> Iterator[list[str]]:
    """Group texts, so that the process holds a part of them at a time; there is one group at least."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and size + len(text) > _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield batch
