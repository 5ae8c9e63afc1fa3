"""Mails of a mailbox of any size, one after another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Final

MOST_MAIL_BYTES: Final = 64 << 20
"""Maximum size of a mail with its attachments."""

_BEGINNING: Final = re.compile(rb"From \S.{0,300}\d\d:\d\d.{0,40}\d{4}\s*", re.DOTALL)
_ESCAPED: Final = re.compile(rb">+From ")
_MOST_LINE_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 1 << 16
_LEAST_HEADERS: Final = 2
_HEADER: Final = re.compile(rb"(?P<name>[!-9;-~]{1,80}):")
_BARE: Final = re.compile(rb"From(?: \S{1,300})?\s*")
"""Line between mails, as some programs write it without the time."""

_COMMON: Final = frozenset(
    b"from to date subject message-id received return-path delivered-to mime-version".split()
)


def is_mailbox(head: bytes) -> bool:
    """Return whether a file begins as a mailbox (mbox) does."""
    line, _, rest = head[:_HEAD_BYTES].partition(b"\n")
    return _begins(line, rest, is_apart=True)


def is_mail(head: bytes) -> bool:
    """Return whether a file begins as a single mail does: with the headers of one."""
    names: list[bytes] = []
    for line in head[:_HEAD_BYTES].split(b"\n"):
        if not line.strip():
            break
        found = _HEADER.match(line)
        if found is None and not (names and line[:1] in b" \t"):
            return False
        if found is not None:
            names.append(found["name"].lower())
    return b"from" in names and len(_COMMON.intersection(names)) > _LEAST_HEADERS


def _begins(line: bytes, below: bytes, *, is_apart: bool) -> bool:
    """Return whether a mail begins at a line, by the line below it and by whether the one above it is empty."""
    if _BEGINNING.fullmatch(line):
        return is_apart or _begins_headers(below)
    return is_apart and _BARE.fullmatch(line) is not None and _begins_headers(below)


def _begins_headers(line: bytes) -> bool:
    found = _HEADER.match(line)
    return found is not None and (found["name"].lower() in _COMMON or found["name"].lower().startswith(b"x-"))


def split_mailbox(file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield each mail of a mailbox; None for one of more than 64 MiB.

    A mail begins at a line ``From address date`` after an empty line, or above the first line of headers. In mails,
    such a line has a ``>`` before it, which is taken off.
    """
    buffer: list[bytes] | None = None
    size, is_blank = 0, True
    following = file.readline(_MOST_LINE_BYTES)
    while line := following:
        following = file.readline(_MOST_LINE_BYTES)
        if line.startswith(b"From") and _begins(line, following, is_apart=is_blank):
            if buffer is not None:
                yield b"".join(buffer) if size <= MOST_MAIL_BYTES else None
            buffer, size = [], 0
            is_blank = False
            continue
        is_blank = not line.strip()
        size += len(line)
        if buffer is not None and size <= MOST_MAIL_BYTES:
            buffer.append(line[1:] if _ESCAPED.match(line) else line)
        elif buffer is not None:
            buffer.clear()
    if buffer is not None:
        yield b"".join(buffer) if size <= MOST_MAIL_BYTES else None
