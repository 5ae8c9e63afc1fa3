"""One file -> a document, read in the process with limits, which also recognises and draws single pages."""

from __future__ import annotations

import logging
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits
from backstory.base.telemetry import log_event
from backstory.ingest.documents.formats.texts import MARKDOWN, PLAIN_TEXT
from backstory.ingest.documents.page_texts import PagedFile
from backstory.ingest.documents.pages import IMAGE, PDF, Recognition, compose_document, read_pages
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.documents.reader import READERS
from backstory.ingest.documents.recognition import (
    RecognisedPage,
    find_obstacle,
    find_tesseract,
    recognise_pages,
)
from backstory.ingest.limited_calls import call_limited
from backstory.settings.inputs import DocumentSettings

SMALL_BYTES: Final = 1 << 18
"""Maximum size of Markdown and plain text that is read in this process: reading time grows only with the length."""
MOST_PAGES: Final = 500
"""Pages that are recognised in one file; each takes seconds."""
_MOST_FAILURES: Final = 3
"""Pages that may exceed a limit before the rest of the file is given up: each takes minutes."""
_LIMITS: Final = ("too_slow", "too_large", "broken_reader")
logger = logging.getLogger(__name__)


def read_document(
    reader: DocumentFormat, content: bytes, uri: str, settings: DocumentSettings
) -> ParsedDocument:
    """Read a file, and recognise the text of its images where Tesseract is installed and the settings allow it.

    The limits of the settings apply to the text of the whole file, and then to each image. It raises ``ReadError`` if
    the file holds no text, cannot be read, or exceeds the limits, or if all its text is in images and none of it could
    be recognised here; the message does not name the file.
    """
    limits = _limit(settings)
    if reader in (PDF, IMAGE):
        paged = call_limited(read_pages, reader.name, content, limits=limits)
        recognition = _recognise(paged, reader, content, uri, settings) if paged.pictures else Recognition()
        return compose_document(paged, recognition)
    if reader in (MARKDOWN, PLAIN_TEXT) and len(content) <= SMALL_BYTES:
        return reader.read(content, uri)
    return call_limited(read_content, reader.name, content, uri, limits=limits)


def draw_page(content: bytes, page: int, settings: DocumentSettings) -> bytes:
    """Draw a page of a PDF for a screen, as a PNG file.

    It raises ``ReadError`` if there is no such page (``unknown_page``), it cannot be drawn, or a limit is exceeded.
    """
    return call_limited(draw_picture, content, page, limits=_limit(settings))


def _limit(settings: DocumentSettings) -> ReadingLimits:
    return ReadingLimits(settings.read_seconds, settings.read_megabytes)


def read_content(format_name: str, content: bytes, uri: str) -> ParsedDocument:
    """Read a file of a format, in the process with limits."""
    return next(reader for reader in READERS if reader.name == format_name).read(content, uri)


def draw_picture(content: bytes, page: int) -> bytes:
    """Draw a page of a PDF for a screen, in the process with limits."""
    from backstory.ingest.documents.formats.pdf import draw_pdf_picture

    return draw_pdf_picture(content, page)


def recognise_page(
    format_name: str, content: bytes, page: int, program: str, languages: list[str], megabytes: int
) -> list[RecognisedPage]:
    """Recognise one page of a PDF, or all pages of an image, in the process with limits."""
    if format_name == PDF.name:
        from backstory.ingest.documents.formats.pdf import draw_pdf_page

        content = draw_pdf_page(content, page)
    return recognise_pages(content, program, languages, megabytes)


def _recognise(
    paged: PagedFile, reader: DocumentFormat, content: bytes, uri: str, settings: DocumentSettings
) -> Recognition:
    tesseract = find_tesseract()
    obstacle = find_obstacle(settings, tesseract)
    if obstacle is not None or tesseract is None:
        return Recognition(obstacle=obstacle)
    means = (tesseract.program, settings.ocr_languages, settings.read_megabytes)
    pages: dict[int, list[RecognisedPage]] = {}
    failures: dict[int, str] = {}
    if len(paged.pictures) > MOST_PAGES:
        obstacle = f"{MOST_PAGES} pages of one file are recognised; split the file"
    over_limits = 0
    for page in paged.pictures[:MOST_PAGES]:
        try:
            pages[page] = call_limited(
                recognise_page, reader.name, content, page, *means, limits=_limit(settings)
            )
        except ReadError as error:
            failures[page] = str(error)
            over_limits += error.code in _LIMITS
        if over_limits == _MOST_FAILURES:
            obstacle = f"{over_limits} other pages exceed the limits, and Backstory did not try these"
            break
    log_event(logger, "recognised", pages=len(pages), failed=len(failures), uri=uri)
    return Recognition(pages, failures, obstacle)
