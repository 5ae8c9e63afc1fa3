"""Searching texts by an expression that a person or an agent wrote, in the process with limits.

The package ``regex`` checks its time limit between steps of a search, and a recursion, a long literal or the
compilation takes none of these steps: such an expression takes a gigabyte of memory, or minutes. An engine that takes
linear time (``google-re2``) would need no limits, but knows no expressions that look around or refer back, and is
slower where much is found. A process that ends at its limits keeps the whole language.
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


def is_usual(text: str) -> bool:
    """Return whether a text is written as people type it: composed letters, and no sign that is not seen."""
    return text.isascii() or (unicodedata.is_normalized("NFC", text) and _UNUSUAL.search(text) is None)


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


def compile_expression(pattern: str, *, ignore_case: bool) -> regex.Pattern[str]:
    """Compile an expression, in which ``^`` and ``$`` match at lines, or raise ``InputError`` if it is none."""
    try:
        return regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except RecursionError as error:
        raise InputError(
            f"{quote(pattern)} is nested too deeply; write it with fewer groups", code="nested_too_deeply"
        ) from error
    except regex.error as error:
        raise InputError(
            f"{quote(pattern)} is no regular expression: {error}; correct it, or search for it as a text",
            code="invalid_expression",
        ) from error


def quote(pattern: str) -> str:
    """Quote an expression in a message, without the rest of a long one."""
    return repr(shorten(pattern, _SHOWN))


def find_places(
    compiled: regex.Pattern[str], texts: Iterable[str], *, limit: int, offset: int, seconds: float
) -> FoundPlaces:
    """Find the matches of a compiled expression, without those that hold no character.

    All are counted, and those after ``offset`` are given, at most ``limit``.

    Raises:
        TimeoutError: It takes more processor time of this process.
    """
    deadline = time.process_time() + seconds
    places: list[tuple[int, int, int]] = []
    count = holding = 0
    for number, text in enumerate(texts):
        before = count
        left = deadline - time.process_time()
        if left <= 0:
            raise TimeoutError
        folded = None if is_usual(text) else FoldedText(text)
        for found in compiled.finditer(text if folded is None else folded.text, timeout=left):
            if found.end() > found.start():
                if offset <= count < offset + limit:
                    places.append(
                        (number, *(found.span() if folded is None else folded.locate(*found.span())))
                    )
                count += 1
        holding += count > before
    return FoundPlaces(places, count, holding)


def find_limited(
    pattern: str, texts: Iterable[str], *, ignore_case: bool, limit: int, offset: int, seconds: float
) -> FoundPlaces:
    """Compile an expression of the package ``regex`` and find its matches, both in the process with limits.

    Raises:
        InputError: The pattern is no regular expression.
        TimeoutError: It takes more time.
        ReadError: It takes more time or memory than its process may.
    """
    places: list[tuple[int, int, int]] = []
    first = count = holding = 0
    for batch in _batch(texts):
        encoded = [text.encode() for text in batch]
        header = {
            "pattern": pattern,
            "ignore_case": ignore_case,
            "limit": limit - len(places),
            "offset": max(offset - count, 0),
            "seconds": seconds,
            "sizes": [len(text) for text in encoded],
        }
        request = b"".join([json.dumps(header).encode(), b"\n", *encoded])
        # The process ends itself only where the expression never looks at its own limit, which comes first.
        limits = ReadingLimits(math.ceil(seconds) + 1, MEGABYTES)
        answer: dict[str, Any] = json.loads(run_limited(_TASK, request, limits, size=0))
        if "error" in answer:
            raise InputError(answer["error"], code=answer["code"])
        seconds -= answer["seconds"]
        if answer["found"] is None or seconds <= 0:
            raise TimeoutError
        found = FoundPlaces(*answer["found"])
        places += [(first + number, start, end) for number, start, end in found.places]
        first, count, holding = first + len(batch), count + found.total, holding + found.texts
    return FoundPlaces(places, count, holding)


def search_request(request: bytes) -> bytes:
    """Handle a request of :func:`find_limited` in the process with limits."""
    line, _, _ = request.partition(b"\n")
    wanted = json.loads(line)
    started = time.process_time()
    try:
        compiled = compile_expression(wanted["pattern"], ignore_case=wanted["ignore_case"])
        texts = _cut(memoryview(request)[len(line) + 1 :], wanted["sizes"])
        found = find_places(
            compiled, texts, limit=wanted["limit"], offset=wanted["offset"], seconds=wanted["seconds"]
        )
    except InputError as error:
        return json.dumps({"error": str(error), "code": error.code}).encode()
    except TimeoutError:
        found = None
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


def _cut(content: memoryview, sizes: Iterable[int]) -> Iterator[str]:
    start = 0
    for size in sizes:
        yield str(content[start : start + size], "utf-8")
        start += size
