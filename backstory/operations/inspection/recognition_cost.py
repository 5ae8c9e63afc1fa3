"""What it costs to recognise text in the images of files that are not fetched yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import MissingExtraError, ReadError
from backstory.ingest.documents.formats.pdf_reader import PdfReader
from backstory.ingest.documents.ocr.image_reader import ImageReader
from backstory.ingest.documents.ocr.limited_recognition import measure_page
from backstory.ingest.documents.ocr.recognition import find_obstacle, find_tesseract
from backstory.ingest.sources.fetching import list_waiting_drive
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import DocumentSettings

BYTES_OF_PAGE: Final = 50_000
"""Bytes of a scanned page at least: one in black and white, of 300 dpi. Whoever divides by it gets the most pages."""


@dataclass(frozen=True)
class RecognitionCost:
    """What may be recognised in a Google Drive by the next run.

    Attributes:
        source: Name of the source.
        images: Image files to fetch, one page each.
        pdfs: PDFs to fetch. Those of Google's own presentations hold text, and do not count.
        pdf_bytes: Their bytes.
        pages: Pages of both at most, if all PDFs are scans of :data:`BYTES_OF_PAGE` for each page. How many hold
            images alone is known when they are fetched.
        seconds_of_page: Processor time of a sample page here, in seconds; None if no text is recognised.
        obstacle: Why no text is recognised, and what to do; None if it is.
        failure: Why the Drive could not be listed; None if it was.
    """

    source: str
    images: int = 0
    pdfs: int = 0
    pdf_bytes: int = 0
    pages: int = 0
    seconds_of_page: float | None = None
    obstacle: str | None = None
    failure: str | None = None

    @property
    def seconds(self) -> float | None:
        """Processor time at most; None if no text is recognised here."""
        return None if self.seconds_of_page is None else self.pages * self.seconds_of_page


def estimate_recognition(workspace: Workspace) -> list[RecognitionCost]:
    """List each Google Drive of a workspace with PDFs or images to fetch, or which cannot be asked."""
    documents = workspace.settings.documents
    measure = cache(lambda: measure_page(documents))
    costs = []
    for source in list_sources(workspace):
        try:
            waiting = list_waiting_drive(workspace, source)
        except (ReadError, MissingExtraError) as error:
            costs.append(RecognitionCost(source.name, failure=str(error)))
            continue
        images = sum(_has_ending(path, ImageReader.suffixes) for path in waiting)
        sizes = [
            file.size
            for path, file in waiting.items()
            if file.size is not None and _has_ending(path, PdfReader.suffixes)
        ]
        if images or sizes:
            costs.append(_estimate(source.name, images, sizes, documents, measure()))
    return costs


def _estimate(
    name: str, images: int, sizes: Sequence[int], documents: DocumentSettings, seconds: float | None
) -> RecognitionCost:
    return RecognitionCost(
        source=name,
        images=images,
        pdfs=len(sizes),
        pdf_bytes=sum(sizes),
        pages=images + sum(max(1, -(-size // BYTES_OF_PAGE)) for size in sizes),
        seconds_of_page=seconds,
        obstacle=find_obstacle(documents, find_tesseract()),
    )


def _has_ending(path: str, suffixes: frozenset[str]) -> bool:
    return PurePosixPath(path).suffix.lower() in suffixes
