"""Messages kept even after they disappear from the exports, in one Parquet file.

Each row is a row of the table ``messages`` without local times, so the archive contains no name that the table does not
contain. The ``seq`` of a message that no export holds any more is negative.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.ingest.chats.message_ids import NAMED_SCHEMA
from backstory.storage.tables.tables import encode_rows


def read_archive(path: Path) -> pl.DataFrame:
    """Read all kept messages, in the columns of ``NAMED_SCHEMA``; a damaged file is a ``WorkspaceError``."""
    if not path.exists():
        return pl.DataFrame(schema=NAMED_SCHEMA)
    try:
        return pl.read_parquet(path).select(NAMED_SCHEMA.names()).cast(NAMED_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise WorkspaceError(
            f"{path} is damaged; restore it from a backup, or delete it and lose the messages that only it holds",
            code="damaged_record",
        ) from error


def write_archive(path: Path, archived: pl.DataFrame) -> None:
    """Replace all kept messages, in the columns of ``NAMED_SCHEMA``."""
    if archived.is_empty():
        path.unlink(missing_ok=True)
    else:
        write_file(path, encode_rows(archived), mode=0o600)


def hash_archive(path: Path) -> str:
    """Hash the bytes of the file; empty if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
