"""The lines of a text: where they lie, how they begin, and which of them are blank or indented like code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Offsets: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.uint8] | NDArray[np.uint32]

SPACE = ord(" ")
_LINE_FEED, _CARRIAGE_RETURN = ord("\n"), ord("\r")
_WIDE_LINE_ENDS = (0x85, 0x2028, 0x2029)
_BEYOND_ASCII = 0x80
_INDENTED = bytes((code <= SPACE and code != _LINE_FEED) or code == _BEYOND_ASCII for code in range(256))
_END = b"\n"  # so that the character after the last line's first ones can be looked up
_INDENT_OF_CODE = 4
_INDENTATION = re.compile(r"[^\S\n\r\v\f\x85\u2028\u2029]+")


@dataclass(frozen=True)
class Lines:
    """The lines of a text.

    Attributes:
        text: The text.
        codes: Code points of its characters, and of a line feed at the end.
        starts: Offset of each line.
        ends: Offset of each line's end.
        content: Offset of the first character of each line that is not whitespace, the end if there is none.
        first: Code point there.
        heads: The same as bytes, everything beyond ASCII being one value, to look for kinds of lines quickly.
        filled: Whether a line holds more than whitespace.
        outer: Whether it does and is indented too little for code.
    """

    text: str
    codes: Codes
    starts: Offsets
    ends: Offsets
    content: Offsets
    first: Codes
    heads: bytes
    filled: Flags
    outer: Flags


def read_lines(text: str) -> Lines:
    """Find the lines of a text."""
    codes: Codes
    if text.isascii():
        codes = np.frombuffer(text.encode("ascii") + _END, np.uint8)
    else:
        codes = np.frombuffer((text + "\n").encode("utf-32-le", "surrogatepass"), np.uint32)
    starts, ends = _find_lines(text, codes)
    first = codes[starts]
    heads = _write_heads(first)
    content = starts
    indented = np.frombuffer(heads.translate(_INDENTED), bool).nonzero()[0]
    if len(indented):
        content = starts.copy()
        content[indented] = [_skip_indentation(text, start) for start in starts[indented].tolist()]
        first = codes[content]
        heads = _write_heads(first)
    filled = content < ends
    outer = filled if content is starts else filled & (content - starts < _INDENT_OF_CODE)
    return Lines(text, codes, starts, ends, content, first, heads, filled, outer)


def _find_lines(text: str, codes: Codes) -> tuple[Offsets, Offsets]:
    codes = codes[: len(text)]
    breaks = codes == _LINE_FEED
    if "\r" in text or "\v" in text or "\f" in text:
        breaks |= (codes > _LINE_FEED) & (codes <= _CARRIAGE_RETURN)
    if codes.dtype != np.uint8 and any(chr(code) in text for code in _WIDE_LINE_ENDS):
        breaks |= np.isin(codes, _WIDE_LINE_ENDS)
    positions = breaks.nonzero()[0]
    starts = np.empty(len(positions) + 1, np.int64)
    ends = np.empty(len(positions) + 1, np.int64)
    starts[0], ends[-1] = 0, len(text)
    np.add(positions, 1, out=starts[1:])
    ends[:-1] = positions
    if "\r" in text:
        pairs = (codes[positions[:-1]] == _CARRIAGE_RETURN) & (codes[positions[:-1] + 1] == _LINE_FEED)
        starts = np.delete(starts, pairs.nonzero()[0] + 1)
        ends = np.delete(ends, pairs.nonzero()[0] + 1)
    return starts, ends


def _skip_indentation(text: str, start: int) -> int:
    match = _INDENTATION.match(text, start)
    return match.end() if match else start


def _write_heads(first: Codes) -> bytes:
    if first.dtype == np.uint8:
        return first.tobytes()
    return np.minimum(first, _BEYOND_ASCII).astype(np.uint8).tobytes()
