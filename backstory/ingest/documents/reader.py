"""The registry of document formats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from backstory.ingest.documents.formats.html import HTML
from backstory.ingest.documents.formats.office.book import EPUB
from backstory.ingest.documents.formats.office.opendocument import ODP, ODT
from backstory.ingest.documents.formats.office.sheets import SPREADSHEET
from backstory.ingest.documents.formats.office.slides import PPTX
from backstory.ingest.documents.formats.office.word import DOCX
from backstory.ingest.documents.formats.tables import CSV, JSON, JSON_LINES, PARQUET
from backstory.ingest.documents.formats.texts import (
    ASCIIDOC,
    CODE,
    MARKDOWN,
    ORG_MODE,
    PLAIN_TEXT,
    RESTRUCTURED_TEXT,
)
from backstory.ingest.documents.pages import IMAGE, PDF
from backstory.ingest.documents.parsed_document import DocumentFormat

READERS: Final[tuple[DocumentFormat, ...]] = (
    MARKDOWN, CSV, JSON, JSON_LINES, PARQUET, CODE, PDF, IMAGE, PLAIN_TEXT, RESTRUCTURED_TEXT, ASCIIDOC, ORG_MODE,
    HTML, DOCX, PPTX, SPREADSHEET, ODT, ODP, EPUB,
)  # fmt: skip


def find_reader(uri: str, readers: Iterable[DocumentFormat] = READERS) -> DocumentFormat | None:
    """Return the first format that a file's suffix names, in any case; None if there is none."""
    suffix = PurePosixPath(uri).suffix.lower()
    return next((reader for reader in readers if suffix in reader.suffixes), None)


def gives_markdown(uri: str) -> bool:
    """Tell whether the text that a file is read as is Markdown; other texts may hold marks that mean nothing."""
    reader = find_reader(uri)
    return reader is not None and reader.gives_markdown
