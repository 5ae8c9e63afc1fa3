"""Files of pages, some of which may be images whose text has to be recognised -> documents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits
from backstory.base.telemetry import log_event
from backstory.base.wording import inflect
from backstory.ingest.documents.page_texts import PAGE_BREAK, PagedFile, find_starts, list_pages
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.documents.recognition import (
    DPI,
    INSTALL,
    RecognisedPage,
    find_obstacle,
    find_tesseract,
    recognise_pages,
)
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.limited_calls import call_limited
from backstory.settings.inputs import DocumentSettings

WORDLESS: Final = (
    "no text is recognised in its images; if they show text, scan them again with 300 dpi, or name its languages in "
    "`documents.ocr_languages`"
)
"""The error of a file whose pages are images in which no text is recognised."""
_LITTLE_CONFIDENCE: Final = 0.6
"""Below this mean confidence a recognised page is named, because many of its words are wrong."""
_BLANK: Final = "all its pages are blank; put text into it, or remove the file"
_DAMAGED: Final = "cannot be read: the file is damaged; write or export it again"
_MOST_PAGES: Final = 500
"""Pages that are recognised in one file; each takes seconds."""
_MOST_FAILURES: Final = 3
"""Pages that may exceed a limit before the rest of the file is given up: each takes minutes."""
_LIMITS: Final = ("too_slow", "too_large", "broken_reader")
_SCREEN_DPI, _SCREEN_PIXELS = 110, 4_000_000
"""Resolution for a screen, and a page of A2 at it; larger ones are drawn at a lower resolution."""
_RECOGNISED_PIXELS: Final = 40_000_000
"""A page of A2 at the resolution of recognition."""
logger = logging.getLogger(__name__)


@dataclass
class Recognition:
    """The text of pages by their numbers, why others have none, and why no further page was tried."""

    pages: dict[int, list[RecognisedPage]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    obstacle: str | None = None


def read_pages(format_name: str, content: bytes) -> PagedFile:
    """Read the text of every page of a PDF; an image is a page without text."""
    if not content.strip(b"\0 \t\r\n"):
        raise ReadError("the file is empty; export it again, or remove it", code="empty_document")
    if format_name == PDF.name:
        # Loading the libraries takes a third of a second, which only workspaces with a PDF should pay.
        from backstory.ingest.documents.formats.pdf import read_pdf

        return read_pdf(content)
    if not (name_binary_kind(content) or "").startswith("an image"):
        raise ReadError("this is not an image; give the file its right ending, or remove it")
    return PagedFile(texts=("",), pictures=(1,))


def _read_typed(format_name: str, content: bytes, _: str) -> ParsedDocument:
    return compose_document(read_pages(format_name, content), Recognition(obstacle=INSTALL))


PDF: Final = DocumentFormat("pdf", "PDF", frozenset({".pdf"}), partial(_read_typed, "pdf"), None)
IMAGE: Final = DocumentFormat(
    "image",
    "image (PNG, JPEG, TIFF, WebP)",
    frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"}),
    partial(_read_typed, "image"),
    None,
)
"""Scans and photographs of text; a picture without text, such as a photograph beside a post, is no document."""


def read_paged(
    format_name: str, content: bytes, uri: str, settings: DocumentSettings, limits: ReadingLimits
) -> ParsedDocument:
    """Read a file of pages within the limits, which apply to its text, and then to each image in it."""
    paged = call_limited(read_pages, format_name, content, limits=limits)
    recognition = Recognition()
    if paged.pictures:
        recognition = _recognise(paged.pictures, format_name, content, settings, limits)
        done, failed = len(recognition.pages), len(recognition.failures)
        log_event(logger, "recognised", pages=done, failed=failed, uri=uri)
    return compose_document(paged, recognition)


def _recognise(
    pictures: Sequence[int],
    format_name: str,
    content: bytes,
    settings: DocumentSettings,
    limits: ReadingLimits,
) -> Recognition:
    tesseract = find_tesseract()
    found = Recognition(obstacle=find_obstacle(settings, tesseract))
    if found.obstacle is not None or tesseract is None:
        return found
    means = (tesseract.program, settings.ocr_languages, settings.read_megabytes)
    if len(pictures) > _MOST_PAGES:
        found.obstacle = f"{_MOST_PAGES} pages of one file are recognised; split the file"
    over_limits = 0
    for page in pictures[:_MOST_PAGES]:
        try:
            found.pages[page] = call_limited(
                recognise_page, format_name, content, page, *means, limits=limits
            )
        except ReadError as error:
            found.failures[page] = str(error)
            over_limits += error.code in _LIMITS
        if over_limits == _MOST_FAILURES:
            found.obstacle = f"{over_limits} other pages exceed the limits, and Backstory did not try these"
            break
    return found


def recognise_page(
    format_name: str, content: bytes, page: int, program: str, languages: list[str], megabytes: int
) -> list[RecognisedPage]:
    """Recognise one page of a PDF, or all pages of an image, in the process with limits."""
    if format_name == PDF.name:
        content = draw_picture(content, page, DPI, _RECOGNISED_PIXELS, True)
    return recognise_pages(content, program, languages, megabytes)


def draw_page(content: bytes, page: int, settings: DocumentSettings) -> bytes:
    """Draw a page of a PDF for a screen as PNG; raise ``ReadError`` (``unknown_page``) if it has no such page."""
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    return call_limited(draw_picture, content, page, _SCREEN_DPI, _SCREEN_PIXELS, False, limits=limits)


def draw_picture(content: bytes, page: int, dpi: int, most_pixels: int, is_grey: bool) -> bytes:
    """Draw a page of a PDF, in the process with limits."""
    from backstory.ingest.documents.formats.pdf import draw_pdf

    return draw_pdf(content, page, dpi, most_pixels, is_grey=is_grey)


def compose_document(paged: PagedFile, recognition: Recognition) -> ParsedDocument:
    """Put the pages together; raise ``ReadError`` if none holds text that could be read or recognised here."""
    texts: list[str] = []
    confidences: list[float | None] = []
    for number, text in enumerate(paged.texts, 1):
        recognised = recognition.pages.get(number, [RecognisedPage(text, None)])
        texts += [page.text for page in recognised]
        confidences += [page.confidence for page in recognised]
    unread = _list_unread(paged, recognition, confidences)
    if not any(text.strip() for text in texts):
        code = "damaged_file" if paged.damaged else "empty_document"
        if recognition.failures or (paged.pictures and recognition.obstacle):
            code = "read" if recognition.failures else "needs_ocr"
        wordless = WORDLESS if paged.pictures else _BLANK
        raise ReadError("; ".join(unread) or wordless, code=code)
    return ParsedDocument(
        text=PAGE_BREAK.join(texts),
        title=paged.title,
        change=paged.change,
        page_starts=find_starts(texts),
        chunker="page",
        confidences=tuple(confidences) if recognition.pages else (),
        unread="; ".join(unread) or None,
    )


def _list_unread(
    paged: PagedFile, recognition: Recognition, confidences: Sequence[float | None]
) -> list[str]:
    found = list(paged.notes)
    waiting = [
        page for page in paged.pictures if page not in recognition.pages and page not in recognition.failures
    ]
    if waiting:
        verb = inflect(len(waiting), "holds", "hold")
        found.append(f"{list_pages(waiting)} {verb} only images; {recognition.obstacle}")
    for reason in sorted(set(recognition.failures.values())):
        pages = [page for page, why in recognition.failures.items() if why == reason]
        found.append(f"the text of {list_pages(pages)} cannot be recognised: {reason}")
    if paged.damaged:
        found.append(f"{list_pages(paged.damaged)} {_DAMAGED}")
    unsure = [
        page for page, sure in enumerate(confidences, 1) if sure is not None and sure < _LITTLE_CONFIDENCE
    ]
    if unsure:
        found.append(
            f"the text of {list_pages(unsure)} was recognised with little confidence (below {_LITTLE_CONFIDENCE}), and "
            "may be wrong; scan with 300 dpi, or name the languages in `documents.ocr_languages`"
        )
    return found
