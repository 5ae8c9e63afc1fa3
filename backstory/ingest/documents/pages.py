"""Files of pages, some of which may be images whose text has to be recognised -> documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.wording import inflect
from backstory.ingest.documents.page_texts import PAGE_BREAK, PagedFile, find_starts, list_pages
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.documents.recognition import INSTALL, RecognisedPage
from backstory.ingest.file_kinds import name_binary_kind

LITTLE_CONFIDENCE: Final = 0.6
"""Below this mean confidence a recognised page is named, because many of its words are wrong."""
WORDLESS: Final = (
    "no text is recognised in its images; if they show text, scan them again with 300 dpi, or name its languages in "
    "`documents.ocr_languages`"
)
"""The error of a file whose pages are images in which no text is recognised."""
_DAMAGED: Final = "cannot be read: the file is damaged; write or export it again"


@dataclass(frozen=True)
class Recognition:
    """What became of the pages whose text has to be recognised.

    Attributes:
        pages: The text by page; an image file may hold several pages.
        failures: Why a page could not be recognised, and what to do, by page.
        obstacle: Why no further page was tried, and what to do; None if all were tried.
    """

    pages: Mapping[int, Sequence[RecognisedPage]] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    obstacle: str | None = None


def read_pages(format_name: str, content: bytes) -> PagedFile:
    """Read the text of every page of a PDF; an image is a page without text.

    It raises ``ReadError`` if the file is empty or cannot be read.
    """
    if not content.strip(b"\0 \t\r\n"):
        raise ReadError("the file is empty; export it again, or remove it", code="empty_document")
    if format_name == PDF.name:
        # Loading the libraries takes a third of a second, which only workspaces with a PDF should pay.
        from backstory.ingest.documents.formats.pdf import read_pdf

        return read_pdf(content)
    if not (name_binary_kind(content) or "").startswith("an image"):
        raise ReadError("this is not an image; give the file its right ending, or remove it")
    return PagedFile(texts=("",), pictures=(1,))


def _read_pdf(content: bytes, _: str) -> ParsedDocument:
    return compose_document(read_pages(PDF.name, content), Recognition(obstacle=INSTALL))


def _read_image(content: bytes, _: str) -> ParsedDocument:
    return compose_document(read_pages(IMAGE.name, content), Recognition(obstacle=INSTALL))


PDF: Final = DocumentFormat("pdf", "PDF", frozenset({".pdf"}), _read_pdf, None)
IMAGE: Final = DocumentFormat(
    "image",
    "image (PNG, JPEG, TIFF, WebP)",
    frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"}),
    _read_image,
    None,
)
"""Scans and photographs of text; a picture without text, such as a photograph beside a post, is no document."""


def compose_document(paged: PagedFile, recognition: Recognition) -> ParsedDocument:
    """Put the pages together, with a blank line between two.

    It raises ``ReadError`` if the file holds no text, no page can be read, or all text is in images and none of it
    could be recognised here.
    """
    texts: list[str] = []
    confidences: list[float | None] = []
    for number, text in enumerate(paged.texts, 1):
        recognised = recognition.pages.get(number)
        texts += [text] if recognised is None else [page.text for page in recognised]
        confidences += [None] if recognised is None else [page.confidence for page in recognised]
    if not any(text.strip() for text in texts):
        raise _name_lack(paged, recognition)
    return ParsedDocument(
        text=PAGE_BREAK.join(texts),
        title=paged.title,
        change=paged.change,
        page_starts=find_starts(texts),
        chunker="page",
        confidences=tuple(confidences) if recognition.pages else (),
        unread="; ".join(_list_unread(paged, recognition, confidences)) or None,
    )


def _name_lack(paged: PagedFile, recognition: Recognition) -> ReadError:
    if recognition.failures:
        page, reason = next(iter(recognition.failures.items()))
        return ReadError(f"it holds only images, and the text of page {page} cannot be recognised: {reason}")
    if paged.pictures and recognition.obstacle:
        return ReadError(f"it holds only images; {recognition.obstacle}", code="needs_ocr")
    if paged.damaged:
        return ReadError(f"{list_pages(paged.damaged)} {_DAMAGED}", code="damaged_file")
    if paged.pictures:
        return ReadError(WORDLESS, code="empty_document")
    return ReadError("all its pages are blank; put text into it, or remove the file", code="empty_document")


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
    reasons = sorted(set(recognition.failures.values()))
    for reason in reasons:
        pages = [page for page, why in recognition.failures.items() if why == reason]
        found.append(f"the text of {list_pages(pages)} cannot be recognised: {reason}")
    if paged.damaged:
        found.append(f"{list_pages(paged.damaged)} {_DAMAGED}")
    unsure = [
        page for page, sure in enumerate(confidences, 1) if sure is not None and sure < LITTLE_CONFIDENCE
    ]
    if unsure:
        found.append(
            f"the text of {list_pages(unsure)} was recognised with little confidence (below {LITTLE_CONFIDENCE}), and "
            "may be wrong; scan with 300 dpi, or name the languages in `documents.ocr_languages`"
        )
    return found
