"""The registry of document formats, and the reading of one file in the process with limits."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from backstory.ingest.documents.formats.html import HTML
from backstory.ingest.documents.formats.office.documents import DOCX, EPUB, ODP, ODT, PPTX
from backstory.ingest.documents.formats.office.sheets import SPREADSHEET
from backstory.ingest.documents.formats.tables import CSV, JSON, JSON_LINES, PARQUET
from backstory.ingest.documents.formats.texts import (
    ASCIIDOC,
    CODE,
    MARKDOWN,
    ORG_MODE,
    PLAIN_TEXT,
    RESTRUCTURED_TEXT,
)
from backstory.ingest.documents.pages import IMAGE, PDF, read_paged
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.settings.inputs import DocumentSettings

READERS: Final[tuple[DocumentFormat, ...]] = (
    MARKDOWN, CSV, JSON, JSON_LINES, PARQUET, CODE, PDF, IMAGE, PLAIN_TEXT, RESTRUCTURED_TEXT, ASCIIDOC, ORG_MODE,
    HTML, DOCX, PPTX, SPREADSHEET, ODT, ODP, EPUB,
)  # fmt: skip
_SMALL_BYTES: Final = 1 << 18
"""Maximum size of Markdown and plain text that is read in this process: reading time grows only with the length."""


def find_reader(uri: str) -> DocumentFormat | None:
    """Return the first format that a file's suffix names, in any case; None if there is none."""
    suffix = PurePosixPath(uri).suffix.lower()
    return next((reader for reader in READERS if suffix in reader.suffixes), None)


def list_titles() -> str:
    """List the formats as people call them, each once."""
    return ", ".join(dict.fromkeys(reader.title for reader in READERS))


def gives_markdown(uri: str) -> bool:
    """Tell whether the text that a file is read as is Markdown; other texts may hold marks that mean nothing."""
    reader = find_reader(uri)
    return reader is not None and reader.gives_markdown


def read_document(
    reader: DocumentFormat, content: bytes, uri: str, settings: DocumentSettings
) -> ParsedDocument:
    """Read a file, and recognise the text of its images where Tesseract is installed and the settings allow it.

    It raises ``ReadError`` if the file cannot be read or exceeds the limits; the message does not name the file.
    """
    if reader in (PDF, IMAGE):
        return read_paged(reader.name, content, settings)
    if reader in (MARKDOWN, PLAIN_TEXT) and len(content) <= _SMALL_BYTES:
        return reader.read(content, uri)
    return call_limited(read_content, reader.name, content, uri, limits=find_limits(settings))


def read_content(format_name: str, content: bytes, uri: str) -> ParsedDocument:
    """Read a file of a format, in the process with limits."""
    return next(reader for reader in READERS if reader.name == format_name).read(content, uri)
