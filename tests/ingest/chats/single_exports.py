"""Reads one export, and raises an error if it is refused."""

from pathlib import Path

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.exports import read_file, read_listed_exports
from backstory.ingest.walk import ListedFile, Listing
from backstory.settings.inputs import ConversationSettings


def read_export(
    path: Path, settings: ConversationSettings, *, source: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read the messages of an export, and its unreadable lines."""
    file = ListedFile(source or path.name, path, path.parent.resolve())
    read = read_file(file, settings)
    if not read.unread and read.status in ("failed", "set_aside", "unsupported"):
        authors = frozenset(read.people) if read.status == "set_aside" else None
        raise ReadError(f"{file.uri}: {read.reason}", authors, code=read.code or read.status)
    found = read_listed_exports(Listing(present=True, files=(file,)), settings)
    return found.messages, found.quarantine
