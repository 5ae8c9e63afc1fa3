"""Messages over standard input and output, which the event loop reads and writes by itself.

The transport of the SDK waits for each line, each write and each flush in a thread of its own. For a search that takes
a few milliseconds, these threads take a tenth of the server's time.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel
import mcp_types
from mcp.shared.message import SessionMessage

_READ_BYTES: Final = 65_536
_INPUT: Final = 0
_OUTPUT: Final = 1
_ERRORS: Final = 2


class _Stream:
    """What both directions share: nothing is left to do when they are closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def aclose(self) -> None:
        """Close nothing: the descriptor is closed by who opened it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageReader(_Stream):
    """Reads messages, one a line.

    Args:
        descriptor: A pipe, a socket, a terminal or a file.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._read = bytearray()
        self._searched = 0
        self._is_ended = False

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or the error of a line that is none.

        Raises:
            anyio.EndOfStream: There is no further line.
        """
        line = await self._read_line()
        try:
            return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            return error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def _read_line(self) -> str:
        while (end := self._read.find(b"\n", self._searched)) < 0 and not self._is_ended:
            self._searched = len(self._read)
            more = await self._read_some()
            self._is_ended = not more
            self._read += more
        if not self._read:
            raise anyio.EndOfStream
        line = self._read[: end if end >= 0 else len(self._read)]
        del self._read[: len(line) + 1]
        self._searched = 0
        return line.decode("utf-8", "replace")

    async def _read_some(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except PermissionError:  # a file, which never makes a reader wait
            await anyio.lowlevel.checkpoint()
        return os.read(self._descriptor, _READ_BYTES)


class MessageWriter(_Stream):
    """Writes messages, one a line; any number of tasks may send at once.

    Args:
        descriptor: A pipe, a socket, a terminal or a file.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._turn = anyio.Lock(fast_acquire=True)
        self._capacity = _find_capacity(descriptor)

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message. A message that was begun is ended, also where the call is cancelled.

        Raises:
            anyio.BrokenResourceError: Nobody reads any longer.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._turn:
            with anyio.CancelScope(shield=True):
                try:
                    await self._write(f"{text}\n".encode())
                except OSError as error:
                    raise anyio.BrokenResourceError from error

    async def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            if not select.select([], [self._descriptor], [], 0)[1]:
                await anyio.wait_writable(self._descriptor)
            left = left[os.write(self._descriptor, left[: self._count_room()]) :]

    def _count_room(self) -> int:
        """Count the bytes that a ready descriptor takes at once: more could wait for the reader, and with it the loop.

        An empty pipe takes as much as it holds, so that its reader wakes once for most messages.
        """
        if self._capacity:
            (unread,) = struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(4)))
            if not unread:
                return self._capacity
        return select.PIPE_BUF


def _find_capacity(descriptor: int) -> int:
    """Return the number of bytes that an empty pipe takes; 0 for no pipe, and where the system does not tell."""
    if not hasattr(fcntl, "F_GETPIPE_SZ") or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return 0
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)


@contextmanager
def claim_standard_streams() -> Iterator[tuple[MessageReader, MessageWriter]]:
    """Read and write messages, and keep all else from both streams.

    Meanwhile, whatever reads standard input finds its end, and whatever writes to standard output writes to standard
    error.
    """
    sys.stdout.flush()
    source, target = os.dup(_INPUT), os.dup(_OUTPUT)
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, _INPUT)
        os.close(nothing)
        os.dup2(_ERRORS, _OUTPUT)
        yield MessageReader(source), MessageWriter(target)
    finally:
        sys.stdout.flush()
        for kept, standard in ((source, _INPUT), (target, _OUTPUT)):
            os.dup2(kept, standard)
            os.close(kept)
