"""The protocol of the two processes: a line of JSON with the number of bytes that follow, then these bytes."""

from __future__ import annotations

import json
from typing import IO, Any


def send_frame(stream: IO[bytes], header: dict[str, Any], content: bytes = b"") -> None:
    """Send one frame.

    Args:
        stream: Pipe to the other process.
        header: Values that JSON can represent.
        content: Bytes after the header.
    """
    stream.write(json.dumps(header | {"size": len(content)}).encode() + b"\n")
    stream.write(content)
    stream.flush()


def receive_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Wait for one frame.

    Returns:
        The header and the content.

    Raises:
        EOFError: The other process has ended, possibly in the middle of a frame.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    header: dict[str, Any] = json.loads(line)
    content = stream.read(header["size"])
    if len(content) < header["size"]:
        raise EOFError
    return header, content
