"""A file of pages, some of which may be images whose text has to be recognised -> a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final, Protocol, runtime_checkable

from backstory.base.errors import ReadError
from backstory.base.wording import inflect
from backstory.ingest.documents.metadata.last_change import UpdateOrigin
from backstory.ingest.documents.ocr.page_texts import join_hyphenated
from backstory.ingest.documents.ocr.recognised_page import RecognisedPage
from backstory.ingest.documents.parsed_document import ParsedDocument

PAGE_BREAK: Final = "\n\n"
"""What stands between the texts of two pages."""

LITTLE_CONFIDENCE: Final = 0.6
"""Below this mean confidence a recognised page is named, because many of its words are wrong."""


@dataclass(frozen=True)
class PagedFile:
    """What a file of pages holds before text is recognised in its images.

    Attributes:
        texts: The text of each page, blank where it has none.
        pictures: Pages, from 1, whose text has to be recognised.
        damaged: Pages, from 1, that cannot be read.
        title: Title.
        updated_at: By when it was written; without a zone if it states none.
        updated_by: What that date was taken from.
        notes: What else of it was not read, or not surely.
    """

    texts: tuple[str, ...]
    pictures: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()
    title: str | None = None
    updated_at: datetime | None = None
    updated_by: UpdateOrigin = "changed"
    notes: tuple[str, ...] = ()


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


@runtime_checkable
class PictureReader(Protocol):
    """A reader of files whose pages may be images."""

    def read_pages(self, content: bytes, uri: str) -> PagedFile:
        """Read the text of every page.

        It raises ``ReadError`` if the file is empty; or the file cannot be read.
        """
        ...

    def draw_page(self, content: bytes, page: int) -> bytes:
        """Return the image of a page, from 1, in a format that Tesseract reads.

        It raises ``ReadError`` if the page cannot be drawn.
        """
        ...


def compose_document(paged: PagedFile, recognition: Recognition, uri: str) -> ParsedDocument:
    """Put the pages together, with a blank line between two.

    It raises ``ReadError`` if all text of the file is in images, and none of it could be recognised here; or the file
    holds no text; or no page can be read.
    """
    texts: list[str] = []
    confidences: list[float | None] = []
    for number, text in enumerate(paged.texts, 1):
        recognised = recognition.pages.get(number)
        texts += [text] if recognised is None else [page.text for page in recognised]
        confidences += [None] if recognised is None else [page.confidence for page in recognised]
    if not any(text.strip() for text in texts):
        raise _name_lack(paged, recognition, uri)
    starts, position = [], 0
    for text in texts:
        starts.append(position)
        position += len(text) + len(PAGE_BREAK)
    return ParsedDocument(
        text=PAGE_BREAK.join(texts),
        title=paged.title,
        updated_at=paged.updated_at,
        updated_by=paged.updated_by,
        page_starts=tuple(starts),
        chunker="page",
        confidences=tuple(confidences) if recognition.pages else (),
        unread="; ".join(_list_unread(paged, recognition, confidences)) or None,
    )


def list_pages(numbers: Iterable[int]) -> str:
    """Name pages as a subject: ``page 3``, ``pages 3 and 5-7``."""
    ordered = sorted(numbers)
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])
    ]
    names = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{inflect(len(ordered), 'page')} {listed}"


def describe_wordless(uri: str) -> str:
    """Return the error of a file whose pages are images in which no text is recognised."""
    return (
        f"{uri}: no text is recognised in its images; if they show text, scan them again with 300 dpi, or name its "
        "languages in `documents.ocr_languages`"
    )


def join_recognised(pages: Sequence[RecognisedPage]) -> list[RecognisedPage]:
    """Join the hyphenated words of recognised pages."""
    return [
        RecognisedPage(text, page.confidence)
        for text, page in zip(join_hyphenated([page.text for page in pages]), pages, strict=True)
    ]


def _name_lack(paged: PagedFile, recognition: Recognition, uri: str) -> ReadError:
    if recognition.failures:
        page, reason = next(iter(recognition.failures.items()))
        return ReadError(
            f"{uri}: it holds only images, and the text of page {page} cannot be recognised: {reason}"
        )
    if paged.pictures and recognition.obstacle:
        return ReadError(f"{uri}: it holds only images; {recognition.obstacle}", code="needs_ocr")
    if paged.damaged:
        return ReadError(
            f"{uri}: {list_pages(paged.damaged)} cannot be read: the file is damaged; write or export it again",
            code="damaged_file",
        )
    if paged.pictures:
        return ReadError(describe_wordless(uri), code="empty_document")
    return ReadError(
        f"{uri}: all its pages are blank; put text into it, or remove the file", code="empty_document"
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
    reasons = sorted(set(recognition.failures.values()))
    for reason in reasons:
        pages = [page for page, why in recognition.failures.items() if why == reason]
        found.append(f"the text of {list_pages(pages)} cannot be recognised: {reason}")
    if paged.damaged:
        found.append(
            f"{list_pages(paged.damaged)} cannot be read: the file is damaged; write or export it again"
        )
    unsure = [
        page for page, sure in enumerate(confidences, 1) if sure is not None and sure < LITTLE_CONFIDENCE
    ]
    if unsure:
        found.append(
            f"the text of {list_pages(unsure)} was recognised with little confidence (below {LITTLE_CONFIDENCE}), and "
            "may be wrong; scan with 300 dpi, or name the languages in `documents.ocr_languages`"
        )
    return found
