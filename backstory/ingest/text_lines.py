"""The lines of a text: of a whole file in one encoding, or of a stream in which each line may have its own."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

import polars as pl

from backstory.text.encoding import UTF8, find_encoding, find_iso_2022

MOST_LINE_BYTES: Final = 1 << 20
"""Maximum length of a line of a stream."""
_HEAD_BYTES: Final = 65_536
_WINDOWS: Final = "cp1252"
_BLOCK_BYTES: Final = 16 << 20
_LETTER_BYTES: Final = bytes(range(0x80, 0x100))
_MOST_NULLS: Final = 0.001


@dataclass(frozen=True)
class TextLines:
    """Lines of a file without line ends, and why some could not be decoded, by line number from 1.

    They are a series, which needs a third of a list's memory. Bytes that are no text in the encoding become U+FFFD.
    """

    lines: pl.Series
    undecodable: dict[int, str]
    encoding: str


def decode_lines(content: bytes) -> TextLines:
    """Split a file at line feeds, with or without a carriage return before them.

    Only line feeds end a line: a message may contain any other character that Unicode counts as a line break. In a file
    without line feeds, carriage returns do. A line feed at the end of the file does not add an empty line.
    """
    content = _end_lines(content)
    if b"\0" not in content[:_HEAD_BYTES] and find_iso_2022(content) is None:
        try:
            return TextLines(_split(content.removeprefix(codecs.BOM_UTF8)), {}, UTF8)
        except pl.exceptions.ComputeError:  # another encoding, or UTF-8 with damaged lines
            pass
    encoding = find_encoding(content)
    lines = _split(content.removeprefix(codecs.BOM_UTF8).decode(encoding, "replace").encode())
    may_be_damaged = encoding.startswith((UTF8, "iso2022"))
    damaged = lines.str.contains("\ufffd", literal=True).arg_true() + 1 if may_be_damaged else ()
    reason = f"the line is not {encoding}, as others are; save the file as UTF-8"
    return TextLines(lines, dict.fromkeys(damaged, reason), encoding)


def decode_head(content: bytes) -> list[str]:
    """Decode the first complete lines of a file; the list is empty for a binary file.

    A text may contain a few null bytes; many of them indicate a binary file.
    """
    head = content[:_HEAD_BYTES]
    if len(content) >= _HEAD_BYTES:  # a line or a character cut in half would look like another encoding
        head = head[: head.rfind(b"\n") + 1] or head.rstrip(_LETTER_BYTES)
    decoded = decode_lines(head)
    is_binary = decoded.encoding == UTF8 and head.count(0) > 1 + _MOST_NULLS * len(head)
    return [] if is_binary else decoded.lines.to_list()


def _end_lines(content: bytes) -> bytes:
    """Write line feeds for the carriage returns by which old programs ended lines."""
    return content if b"\n" in content else content.replace(b"\r", b"\n")


def _split(content: bytes) -> pl.Series:
    """Split UTF-8, else raise ``ComputeError``, without creating a Python object per line."""
    lines = [pl.Series("text", dtype=pl.String)]
    start = 0
    while start < len(content):
        # By blocks of whole lines, because Polars copies what it splits several times.
        ended = content.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or content.find(b"\n", start) + 1
        end = ended or len(content)
        texts = pl.Series("text", [content[start:end]]).cast(pl.String).str.split("\n").explode()
        lines.append(texts.head(-1).str.strip_suffix("\r"))
        if texts[-1] not in ("", "\r"):
            lines.append(texts.tail(1))
        start = end
    return pl.concat(lines)


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
