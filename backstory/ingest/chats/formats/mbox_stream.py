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
_COMMON: Final = frozenset(
    [
        b"from",
        b"to",
        b"date",
        b"subject",
        b"message-id",
        b"received",
        b"return-path",
        b"delivered-to",
        b"mime-version",
    ]
)


def is_mailbox(head: bytes) -> bool:
    """Return whether a file begins as a mailbox (mbox) does."""
    line, _, rest = head[:_HEAD_BYTES].partition(b"\n")
    return _BEGINNING.fullmatch(line) is not None and _HEADER.match(rest) is not None


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
    return {b"from", b"date"} <= set(names) and len(_COMMON.intersection(names)) > _LEAST_HEADERS


def split_mailbox(file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield each mail of a mailbox; None for one of more than 64 MiB.

    A mail begins at a line ``From address date`` after an empty line. In mails, such a line has a ``>`` before it,
    which is taken off.
    """
    buffer: list[bytes] | None = None
    size, is_blank = 0, True
    while line := file.readline(_MOST_LINE_BYTES):
        if is_blank and line.startswith(b"From ") and _BEGINNING.fullmatch(line):
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
