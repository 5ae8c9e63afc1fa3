"""Lines of a text of any size, one after another, in memory that does not grow with it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO, Final

from backstory.text.encoding import find_iso_2022

MOST_LINE_BYTES: Final = 1 << 20
"""Maximum length of a line."""

_HEAD_BYTES: Final = 1 << 16
_WINDOWS: Final = "cp1252"


def read_lines(file: IO[bytes]) -> Iterator[tuple[int, str | None]]:
    """Yield number, from 1, and text of each line, without its end; None for a line that is longer than 1 MiB."""
    number = 0
    while line := file.readline(MOST_LINE_BYTES):
        number += 1
        if len(line) == MOST_LINE_BYTES and not line.endswith(b"\n"):
            skip_line(file)
            yield number, None
        else:
            yield number, decode_line(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)


def read_first_lines(file: IO[bytes]) -> list[str]:
    """Return the lines within the first 64 KiB; none for a binary file."""
    head = file.read(_HEAD_BYTES)
    if b"\0" in head:
        return []
    lines = head.removeprefix(codecs.BOM_UTF8).split(b"\n")
    return [decode_line(line) for line in (lines[:-1] if len(head) == _HEAD_BYTES else lines)]


def decode_line(line: bytes) -> str:
    """Decode one line, since in the logs of some programs each line has its own encoding.

    It is read as ISO-2022-JP if it has the escape sequences of that, else as UTF-8, else as Windows-1252.
    """
    ended = line.removesuffix(b"\n").removesuffix(b"\r")
    escaped = find_iso_2022(ended)
    if escaped is not None:
        return ended.decode(escaped, "replace")
    try:
        return ended.decode()
    except UnicodeDecodeError:
        return ended.decode(_WINDOWS, "replace")


def skip_line(file: IO[bytes]) -> None:
    """Go to the end of a line in steps of 1 MiB."""
    while (part := file.readline(MOST_LINE_BYTES)) and not part.endswith(b"\n"):
        pass
