"""The list of contents of a backup: its last member, with the checksum of every file."""

from __future__ import annotations

import hashlib
from typing import IO, Final

from pydantic import BaseModel, ConfigDict

FORMAT: Final = 1
CONTENTS_FILE: Final = ".backstory-backup.json"
"""Name of the list in the archive. It is not part of a workspace."""


class FileRecord(BaseModel):
    """Size in bytes and SHA-256 of one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str


class Contents(BaseModel):
    """What a backup holds.

    Attributes:
        format: Format of the backup.
        version: Version of Backstory that wrote it.
        workspace: Name of the workspace's folder.
        made_at: Time of the backup by the clock of that machine, UTC.
        files: Size and checksum of each file by its path in the workspace.
        left_out: What is missing and why, one sentence each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    version: str
    workspace: str
    made_at: str
    files: dict[str, FileRecord]
    left_out: tuple[str, ...]


class HashingReader:
    """Reads a file and hashes the same bytes, so one reading serves the archive and the checksum.

    Attributes:
        file: The file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes."""
        chunk = self.file.read(size)
        self._hash.update(chunk)
        return chunk

    @property
    def sha256(self) -> str:
        """SHA-256 of everything that was read."""
        return self._hash.hexdigest()
