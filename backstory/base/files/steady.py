"""Reading a file such that all bytes belong to one content, whose hash is known.

A file may be written anew while it is read, and put back afterwards. A hash that is made before or after the reading
then belongs to another content than the one that was parsed.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES: Final = 1 << 20


class ChangedFileError(OSError):
    """A file changed while it was read."""

    def __init__(self) -> None:
        """State it in the way of the system's own errors."""
        super().__init__(errno.ESTALE, "it was written while it was read")


class SteadyFile(io.RawIOBase):
    """A file of the length that it has when it is opened, every byte of which has one value for whoever reads it.

    It is read in blocks. A block that is read again must be as it was before. What is appended meanwhile is not seen.

    Args:
        file: The open file, which stays open.

    Attributes:
        is_changed: Whether a block was not as it was before, which a parser may take for damage of the file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._descriptor = file.fileno()
        self._size = os.fstat(self._descriptor).st_size
        self._position = 0
        self._seen: dict[int, int] = {}
        self._sha256 = hashlib.sha256()
        self._hashed = 0
        self._last = (-1, b"")
        self.is_changed = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position.

        Raises:
            OSError: It lies before the beginning.
        """
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = base + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read up to the end of a block.

        Raises:
            ChangedFileError: The file was written since its bytes were read before.
            OSError: The file cannot be read.
        """
        if self._position >= self._size:
            return 0
        number, start = divmod(self._position, BLOCK_BYTES)
        target = memoryview(buffer).cast("B")
        found = self._read_block(number)[start : start + len(target)]
        target[: len(found)] = found
        self._position += len(found)
        return len(found)

    def sha256(self) -> str:
        """Return the hash of the whole content, in hexadecimal digits; what was not read yet is read now.

        Raises:
            ChangedFileError: The file was written since its bytes were read before.
            OSError: The file cannot be read.
        """
        while self._hashed * BLOCK_BYTES < self._size:
            self._read_block(self._hashed)
        return self._sha256.hexdigest()

    def _read_block(self, number: int) -> bytes:
        if self._last[0] != number:
            self._last = (number, self._load(number))
        content = self._last[1]
        if number == self._hashed:  # in order, as most parsers read
            self._sha256.update(content)
            self._hashed += 1
        return content

    def _load(self, number: int) -> bytes:
        start = number * BLOCK_BYTES
        length = min(BLOCK_BYTES, self._size - start)
        content = b""
        while len(content) < length:
            part = os.pread(self._descriptor, length - len(content), start + len(content))
            if not part:
                break
            content += part
        # The built-in hash has a key of this process, and takes a fraction of the time of the other.
        if len(content) < length or self._seen.setdefault(number, hash(content)) != hash(content):
            self.is_changed = True
            raise ChangedFileError
        return content
