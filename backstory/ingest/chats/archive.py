"""Messages kept even after they disappear from the exports: one Parquet file per conversation.

Each row is a row of the table ``messages`` without local times, so the archive contains no name that the table does not
contain. The ``seq`` of a message that no export holds any more is negative.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.ingest.chats.message_ids import NAMED_SCHEMA
from backstory.storage.tables.tables import encode_rows


def read_archive(folder: Path) -> pl.DataFrame:
    """Read all kept messages, in the columns of ``NAMED_SCHEMA``; a damaged file is a ``WorkspaceError``."""
    frames = [pl.DataFrame(schema=NAMED_SCHEMA)]
    for path in _list_files(folder):
        try:
            frames.append(pl.read_parquet(path).select(NAMED_SCHEMA.names()).cast(NAMED_SCHEMA))
        except pl.exceptions.PolarsError as error:
            raise WorkspaceError(
                f"{path} is damaged; restore it from a backup, or delete it and lose the messages that only it holds",
                code="damaged_record",
            ) from error
    return pl.concat(frames)


def write_archive(folder: Path, archived: pl.DataFrame) -> None:
    """Replace all kept messages, in the columns of ``NAMED_SCHEMA``."""
    former = set(_list_files(folder))
    for (conversation,), rows in archived.group_by("conversation_id", maintain_order=True):
        path = folder / f"{digest([str(conversation)], length=16)}.parquet"
        write_file(path, encode_rows(rows), mode=0o600)
        former.discard(path)
    for path in former:
        path.unlink(missing_ok=True)


def hash_archive(folder: Path) -> str:
    """Hash the bytes of all files; empty if there are none."""
    files = _list_files(folder)
    return digest([hashlib.sha256(path.read_bytes()).hexdigest() for path in files]) if files else ""


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))
