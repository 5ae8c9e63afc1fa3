"""PNG files of pixels that are drawn already."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

_RGB = 2
_BY_PALETTE = 3


def encode_png(
    width: int, height: int, lines: Iterable[bytes | memoryview], *, palette: bytes = b"", effort: int
) -> bytes:
    """Encode lines of pixels, each of three bytes, or of the place of its colour in a palette of as many.

    ``effort`` is the level of compression, from 1 to 9.
    """
    header = struct.pack(">IIBBBBB", width, height, 8, _BY_PALETTE if palette else _RGB, 0, 0, 0)
    # Each line of a PNG begins with its filter, here none.
    data = zlib.compress(b"".join(b"\0" + line for line in lines), effort)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b""))
    written = (_write_chunk(name, content) for name, content in chunks if content or name == b"IEND")
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def _write_chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
