"""The exports as this process read them last, so that a run reads each export once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from backstory.base.ids import digest_json
from backstory.ingest.chats.export_files import ExportFile, find_exports
from backstory.ingest.chats.exports import ExportRead, read_exports
from backstory.settings.inputs import ConversationSettings


class LastReading:
    """Reads a folder of exports again only if a file or a setting has changed.

    Every byte of the files is hashed at each call; sizes and modification times are not trusted.
    """

    def __init__(self) -> None:
        self._key = ""
        self._read: ExportRead | None = None
        self._names = pl.Series(dtype=pl.String)
        self._aliases: Mapping[str, str] = {}

    def read(self, folder: Path, settings: ConversationSettings) -> tuple[ExportRead, tuple[ExportFile, ...]]:
        """Read all exports of a folder, or return the last result.

        It returns what was read, and the files with the hashes of the bytes that were read. A caller that compares
        them with the files of before knows whether a file changed meanwhile.
        """
        files = find_exports(folder)
        if self._read is not None and self._key == _hash(folder, settings, files):
            return self._read, files
        read = read_exports(folder, settings)
        self._key = _hash(folder, settings, read.files)
        self._read, self._names, self._aliases = read, read.names, read.aliases
        return read, read.files

    def read_names(self, folder: Path, settings: ConversationSettings) -> pl.Series:
        """Return all names of people as written in the exports, sorted; they are known after :meth:`release`."""
        if self._key and self._key == _hash(folder, settings, find_exports(folder)):
            return self._names
        return self.read(folder, settings)[0].names

    def read_aliases(self, folder: Path, settings: ConversationSettings) -> Mapping[str, str]:
        """Return further names of authors, each with the author's name in the messages, as long as the names."""
        self.read_names(folder, settings)
        return self._aliases

    def release(self) -> None:
        """Drop the messages, which may take much memory."""
        self._read = None


def _hash(folder: Path, settings: ConversationSettings, files: Sequence[ExportFile]) -> str:
    how = settings.model_dump(mode="json")
    return digest_json([str(folder), how, [file.fingerprint for file in files]])
