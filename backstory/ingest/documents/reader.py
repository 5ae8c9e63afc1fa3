"""The interface of a document reader, and the registry of readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Final, Protocol

from backstory.ingest.documents.formats.code_reader import CodeReader
from backstory.ingest.documents.formats.csv_reader import CsvReader
from backstory.ingest.documents.formats.html_reader import HtmlReader
from backstory.ingest.documents.formats.json_reader import JsonLinesReader, JsonReader
from backstory.ingest.documents.formats.markdown_reader import MarkdownReader
from backstory.ingest.documents.formats.office.book_reader import BookReader
from backstory.ingest.documents.formats.office.opendocument_reader import (
    OpenDocumentSlidesReader,
    OpenDocumentTextReader,
)
from backstory.ingest.documents.formats.office.sheet_reader import SheetReader
from backstory.ingest.documents.formats.office.slide_reader import SlideReader
from backstory.ingest.documents.formats.office.word_reader import WordReader
from backstory.ingest.documents.formats.parquet_reader import ParquetReader
from backstory.ingest.documents.formats.pdf_reader import PdfReader
from backstory.ingest.documents.formats.text_reader import TEXT_READERS
from backstory.ingest.documents.ocr.image_reader import ImageReader
from backstory.ingest.documents.parsed_document import ParsedDocument


class DocumentReader(Protocol):
    """Reads one type of file."""

    @property
    def format(self) -> str:
        """Name of the type, as the table ``sources`` gives it."""
        ...

    @property
    def suffixes(self) -> frozenset[str]:
        """File name endings of this type, lower-case and with the dot."""
        ...

    @property
    def find_encoding(self) -> Callable[[bytes], str] | None:
        """Detects the encoding of a file of this type; None for a binary type."""
        ...

    def read(self, content: bytes, uri: str, *, drafts: bool) -> ParsedDocument | None:
        """Read one file.

        It returns the document, or None for a skipped draft; equal bytes always give an equal document. It raises
        ``ReadError`` if the file contains no text; or the file cannot be read.
        """
        ...


READERS: tuple[DocumentReader, ...] = (
    MarkdownReader(),
    CsvReader(),
    JsonReader(),
    JsonLinesReader(),
    ParquetReader(),
    CodeReader(),
    PdfReader(),
    ImageReader(),
    *TEXT_READERS,
    HtmlReader(),
    WordReader(),
    SlideReader(),
    SheetReader(),
    OpenDocumentTextReader(),
    OpenDocumentSlidesReader(),
    BookReader(),
)


def find_reader(uri: str, readers: Iterable[DocumentReader]) -> DocumentReader | None:
    """Return the first reader that supports the file's suffix, in any case; None if there is none."""
    suffix = PurePosixPath(uri).suffix.lower()
    return next((reader for reader in readers if suffix in reader.suffixes), None)


_MARKDOWN: Final = ("markdown", "html", "docx", "odt", "epub", "restructuredtext", "asciidoc", "org")


def gives_markdown(uri: str) -> bool:
    """Tell whether the text that a file is read as is Markdown; other texts may hold marks that mean nothing."""
    reader = find_reader(uri, READERS)
    return reader is not None and reader.format in _MARKDOWN
