"""A folder of chat exports: which reader knows a file, and all messages together."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from backstory.errors import ExportError, ExportSettingError, WorkspaceError
from backstory.messages.csv_table import CsvReader
from backstory.messages.jsonl_table import JsonLinesReader
from backstory.messages.parquet_table import ParquetReader
from backstory.messages.reader import ROW_SCHEMA, ExportReader, ParsedExport, unread_frame
from backstory.messages.whatsapp import WhatsAppTextReader
from backstory.messages.whatsapp_zip import WhatsAppZipReader
from backstory.settings import ConversationSettings
from backstory.tables.contracts import conform, empty
from backstory.tables.schemas import Quarantine

READERS: tuple[ExportReader, ...] = (
    ParquetReader(),
    WhatsAppZipReader(),
    WhatsAppTextReader(),
    JsonLinesReader(),
    CsvReader(),
)
"""The formats, in the order in which they are asked whether a file is theirs."""

RAW_SCHEMA = pl.Schema({"conversation_id": pl.String(), **ROW_SCHEMA, "source": pl.String()})

_EXPORT_SUFFIXES = frozenset(
    ("", ".txt", ".zip", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".html", ".xml")
)
"""Other files in the folder are taken for the chats' media."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExportFile:
    """A file that may be a chat export.

    Attributes:
        path: Where it lies.
        source: Its path relative to the folder of exports, with ``/``.
        sha256: Hash of its bytes, in hexadecimal.
    """

    path: Path
    source: str
    sha256: str


@dataclass(frozen=True)
class ReadSource:
    """What came out of one file.

    Attributes:
        source: Path relative to the folder of exports.
        reader: Name of the format, or None if the file could not be read.
        sha256: Hash of its bytes, in hexadecimal.
        messages: Number of messages.
        quarantined: Number of lines or records that could not be read.
    """

    source: str
    reader: str | None
    sha256: str
    messages: int
    quarantined: int


@dataclass(frozen=True)
class ExportRead:
    """All messages of a folder.

    Attributes:
        messages: Messages with real names and without ids, in the columns of ``RAW_SCHEMA``.
        quarantine: What could not be read, in the columns of :class:`backstory.tables.schemas.Quarantine`; line 0
            stands for a whole file.
        sources: One entry per file.
    """

    messages: pl.DataFrame
    quarantine: pl.DataFrame
    sources: tuple[ReadSource, ...]


def find_exports(folder: Path) -> tuple[ExportFile, ...]:
    """List the files of a folder and its subfolders that may be chat exports, sorted by path.

    Hidden files, and files of types that chats hold as media, are left out.

    Raises:
        WorkspaceError: The folder is not there.
    """
    files = []
    for path, source in _list_files(folder):
        with path.open("rb") as file:
            files.append(ExportFile(path, source, hashlib.file_digest(file, "sha256").hexdigest()))
    return tuple(files)


def read_exports(folder: Path, settings: ConversationSettings) -> ExportRead:
    """Read all chat exports of a folder.

    A file in a subfolder belongs to the conversation named by the subfolder, another one to the conversation
    named by the file without its suffix. A file that cannot be read, or that no reader knows, is in
    quarantine.

    Args:
        folder: The folder of exports.
        settings: How to read them.

    Returns:
        Messages in the order of files and of places in them.

    Raises:
        WorkspaceError: The folder is not there.
        ExportSettingError: A file can be read once a setting says how.
    """
    started = time.perf_counter()
    messages = [pl.DataFrame(schema=RAW_SCHEMA)]
    quarantine = [empty(Quarantine)]
    sources = []
    for path, source in _list_files(folder):
        content = path.read_bytes()
        reader = _find_reader(content, path.name, settings)
        try:
            parsed = _parse(reader, content, settings, source)
        except ExportSettingError:
            raise
        except ExportError as error:
            reader = None
            reason = str(error).removeprefix(f"{source}: ")
            parsed = ParsedExport(pl.DataFrame(schema=ROW_SCHEMA), unread_frame({0: reason}))
        rows, unread = _with_source(parsed, source)
        messages.append(rows)
        quarantine.append(unread)
        sha256 = hashlib.sha256(content).hexdigest()
        sources.append(ReadSource(source, reader.name if reader else None, sha256, len(rows), len(unread)))
    read = ExportRead(pl.concat(messages), pl.concat(quarantine), tuple(sources))
    _logger.info(
        "read exports: sources=%d messages=%d quarantined=%d seconds=%.3f",
        len(sources),
        len(read.messages),
        len(read.quarantine),
        time.perf_counter() - started,
    )
    return read


def read_export(
    path: Path, settings: ConversationSettings, *, source: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read one chat export.

    Args:
        path: The file.
        settings: How to read it.
        source: Its path relative to the folder of exports; by default its name.

    Returns:
        Messages in the columns of ``RAW_SCHEMA``, and what could not be read in those of ``Quarantine``.

    Raises:
        ExportSettingError: The file can be read once a setting says how.
        ExportError: The file as a whole cannot be read, or no reader knows it.
    """
    content = path.read_bytes()
    source = source or path.name
    reader = _find_reader(content, path.name, settings)
    return _with_source(_parse(reader, content, settings, source), source)


def conversation_of(source: str) -> str:
    """Name the conversation that an export belongs to, by its path in the folder of exports."""
    folder, _, name = source.rpartition("/")
    return folder or Path(name).stem


def _list_files(folder: Path) -> list[tuple[Path, str]]:
    if not folder.is_dir():
        raise WorkspaceError(f"{folder} is not there; make the folder and put chat exports into it")
    files = []
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if not hidden and path.suffix.lower() in _EXPORT_SUFFIXES and path.is_file():
            files.append((path, relative.as_posix()))
    return sorted(files, key=lambda file: file[1])


def _find_reader(content: bytes, name: str, settings: ConversationSettings) -> ExportReader | None:
    return next((reader for reader in READERS if reader.detects(content, name, settings)), None)


def _parse(
    reader: ExportReader | None, content: bytes, settings: ConversationSettings, source: str
) -> ParsedExport:
    if reader is None:
        known = ", ".join(reader.name for reader in READERS)
        raise ExportError(
            f"{source}: not a chat export in a known format ({known}); move it out of the folder"
        )
    return reader.read(content, settings, source)


def _with_source(parsed: ParsedExport, source: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = parsed.rows.select(
        pl.lit(conversation_of(source)).alias("conversation_id"), pl.all(), pl.lit(source).alias("source")
    )
    unread = conform(parsed.unread.with_columns(pl.lit(source).alias("source")), Quarantine)
    return rows, unread
