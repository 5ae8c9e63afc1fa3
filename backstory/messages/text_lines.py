"""Bytes of a text file as lines, each of which may be undecodable on its own."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 65_536


@dataclass(frozen=True)
class TextLines:
    """Lines of a file without their ends; the first line is at position 0.

    Attributes:
        lines: The text; undecodable bytes appear as U+FFFD.
        undecodable: Why a line could not be decoded, by its number from 1.
    """

    lines: list[str]
    undecodable: dict[int, str]


def decode_lines(content: bytes) -> TextLines:
    """Split a file at line feeds, with or without a carriage return before them.

    Only line feeds end a line: a message may hold any other character that Unicode counts as a line break.

    Args:
        content: UTF-8, with or without a byte order mark, or UTF-16 with one.

    Returns:
        The lines; a file that ends with a line feed has no empty line after it.
    """
    if content.startswith(_UTF16_MARKS):
        return TextLines(_split(content.decode("utf-16", "replace")), {})
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return TextLines(_split(content.decode("utf-8")), {})
    except UnicodeDecodeError:
        undecodable = _find_undecodable(content)
        return TextLines(_split(content.decode("utf-8", "replace")), undecodable)


def decode_head(content: bytes) -> list[str]:
    """Decode the whole lines at the beginning of a file; none if it is not text."""
    head = content[:_HEAD_BYTES]
    if not head.startswith(_UTF16_MARKS) and b"\0" in head:
        return []
    if len(content) > len(head) and head.startswith(_UTF16_MARKS):
        head = head[: len(head) // 2 * 2]
    lines = decode_lines(head).lines
    return lines[:-1] if len(content) > len(head) and len(lines) > 1 else lines


def _split(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] in ("", "\r"):
        lines.pop()
    return lines


def _find_undecodable(content: bytes) -> dict[int, str]:
    undecodable = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            undecodable[number] = (
                f"byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8; "
                "save the file as UTF-8"
            )
    return undecodable
