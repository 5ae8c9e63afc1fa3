"""How the two processes talk: a line of JSON that says how many bytes follow, then these bytes."""

from __future__ import annotations

import json
from typing import IO, Any


def send_frame(stream: IO[bytes], header: dict[str, Any], content: bytes = b"") -> None:
    """Send one frame.

    Args:
        stream: The pipe.
        header: What to say, in JSON.
        content: What follows it.
    """
    stream.write(json.dumps(header | {"size": len(content)}).encode() + b"\n")
    stream.write(content)
    stream.flush()


def receive_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Wait for one frame.

    Returns:
        The header and the content.

    Raises:
        EOFError: The other process is gone, or went in the middle of a frame.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    header: dict[str, Any] = json.loads(line)
    content = stream.read(header["size"])
    if len(content) < header["size"]:
        raise EOFError
    return header, content
