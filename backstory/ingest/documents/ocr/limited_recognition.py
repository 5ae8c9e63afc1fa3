"""A file whose pages may be images -> a document, every page recognised by itself in the process with limits."""

from __future__ import annotations

import json
import logging
import resource
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from backstory.base.errors import ReadError, ReadingLimitError
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.base.telemetry import log_event
from backstory.ingest.documents.ocr.paged_file import (
    PagedFile,
    PictureReader,
    Recognition,
    compose_document,
    join_recognised,
)
from backstory.ingest.documents.ocr.recognised_page import RecognisedPage
from backstory.ingest.documents.ocr.recognition import (
    Tesseract,
    find_obstacle,
    find_tesseract,
    recognise_pages,
)
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.ingest.documents.reader import READERS, DocumentReader

if TYPE_CHECKING:
    from backstory.settings.inputs import DocumentSettings

MOST_PAGES: Final = 500
"""Pages that are recognised in one file; each takes seconds."""

_MOST_FAILURES: Final = 3
"""Pages that may exceed a limit before the rest of the file is given up: each takes minutes."""

_LIST: Final = f"{__name__}:list_request"
_RECOGNISE: Final = f"{__name__}:recognise_request"

logger = logging.getLogger(__name__)


def read_pictures(
    reader: DocumentReader, content: bytes, uri: str, settings: DocumentSettings
) -> ParsedDocument:
    """Read a file, and recognise the text of its images where Tesseract is installed and the settings allow it.

    The limits of the settings apply to the text of the whole file, and then to each image, which takes seconds.

    Args:
        reader: One of :data:`backstory.ingest.documents.reader.READERS` that is a
            :class:`~backstory.ingest.documents.ocr.paged_file.PictureReader`.
        content: Bytes of the file.
        uri: Name of the file in error messages.
        settings: Limits, and what is recognised.

    Raises:
        ReadError: All text of the file is in images, and none of it could be recognised here.
        ReadError: The file holds no text.
        ReadError: The file cannot be read, or exceeds the limits.
    """
    request = {"format": reader.format, "uri": uri}
    try:
        answer = _run(_LIST, request, content, settings)
    except ReadingLimitError as error:
        raise ReadError(f"{uri}: {error}", code=error.code) from error
    if "error" in answer:
        raise ReadError(answer["error"], code=answer["code"])
    paged = _decode(answer["file"])
    recognition = _recognise(paged, request, content, settings) if paged.pictures else Recognition()
    return compose_document(paged, recognition, uri)


def list_request(request: bytes) -> bytes:
    """Read the pages that a request of :func:`read_pictures` names, in the process with limits."""
    wanted, content = _split(request)
    try:
        paged = _find_reader(wanted).read_pages(content, wanted["uri"])
    except ReadError as error:
        return json.dumps({"error": str(error), "code": error.code}).encode()
    changed = paged.updated_at.isoformat() if paged.updated_at else None
    return json.dumps({"file": asdict(paged) | {"updated_at": changed}}).encode()


def measure_page(settings: DocumentSettings) -> float | None:
    """Recognise a page of 45 lines, and return the processor time that it takes here, in seconds.

    Args:
        settings: Limits, and the languages to expect.

    Returns:
        The time; None if no text is recognised here.
    """
    tesseract = find_tesseract()
    if tesseract is None or find_obstacle(settings, tesseract) is not None:
        return None
    wanted = {"format": "pdf", "uri": "", "page": 1} | _name_means(tesseract, settings)
    try:
        answer = _run(_RECOGNISE, wanted, _SAMPLE_PAGE, settings)
    except ReadingLimitError:
        return None
    return None if "error" in answer else float(answer["seconds"])


def recognise_request(request: bytes) -> bytes:
    """Recognise one page that a request of :func:`read_pictures` names, in the process with limits."""
    wanted, content = _split(request)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = used.ru_utime + used.ru_stime
    try:
        image = _find_reader(wanted).draw_page(content, wanted["page"])
        found = recognise_pages(image, wanted["program"], wanted["languages"], wanted["megabytes"])
    except ReadError as error:
        return json.dumps({"error": str(error)}).encode()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pages = [asdict(page) for page in join_recognised(found)]
    return json.dumps({"pages": pages, "seconds": used.ru_utime + used.ru_stime - before}).encode()


def _recognise(
    paged: PagedFile, request: dict[str, Any], content: bytes, settings: DocumentSettings
) -> Recognition:
    tesseract = find_tesseract()
    obstacle = find_obstacle(settings, tesseract)
    if obstacle is not None or tesseract is None:
        return Recognition(obstacle=obstacle)
    wanted = request | _name_means(tesseract, settings)
    pages: dict[int, list[RecognisedPage]] = {}
    failures: dict[int, str] = {}
    obstacle = f"{MOST_PAGES} pages of one file are recognised; split the file" if _has_more(paged) else None
    over_limits = 0
    for page in paged.pictures[:MOST_PAGES]:
        try:
            answer = _run(_RECOGNISE, wanted | {"page": page}, content, settings)
        except ReadingLimitError as error:
            answer = {"error": str(error)}
            over_limits += 1
        if "error" in answer:
            failures[page] = answer["error"]
        else:
            pages[page] = [RecognisedPage(**fields) for fields in answer["pages"]]
        if over_limits == _MOST_FAILURES:
            obstacle = f"{over_limits} other pages exceed the limits, and Backstory did not try these"
            break
    log_event(logger, "recognised", pages=len(pages), failed=len(failures), uri=request["uri"])
    return Recognition(pages, failures, obstacle)


def _name_means(tesseract: Tesseract, settings: DocumentSettings) -> dict[str, Any]:
    return {
        "program": tesseract.program,
        "languages": settings.ocr_languages,
        "megabytes": settings.read_megabytes,
    }


def _write_sample_page() -> bytes:
    """Write a PDF with a page of 45 lines of 12 words, as one of a letter or a report has."""
    line = b"(the garden of the house was dry and the water came late) Tj T* "
    drawn = b"BT /F1 11 Tf 15 TL 60 740 Td " + 45 * line + b"ET"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 5 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>",
    )
    written = b"".join(b"%d 0 obj\n%s\nendobj\n" % entry for entry in enumerate(objects, 1))
    return b"%PDF-1.7\n" + written + b"trailer\n<< /Size 6 /Root 1 0 R >>\n%%EOF\n"


_SAMPLE_PAGE: Final = _write_sample_page()


def _has_more(paged: PagedFile) -> bool:
    return len(paged.pictures) > MOST_PAGES


def _run(task: str, request: dict[str, Any], content: bytes, settings: DocumentSettings) -> dict[str, Any]:
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    sent = json.dumps(request).encode() + b"\n" + content
    answer: dict[str, Any] = json.loads(run_limited(task, sent, limits))
    return answer


def _split(request: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, content = request.partition(b"\n")
    return json.loads(line), content


def _find_reader(wanted: dict[str, Any]) -> PictureReader:
    return next(
        reader
        for reader in READERS
        if reader.format == wanted["format"] and isinstance(reader, PictureReader)
    )


def _decode(fields: dict[str, Any]) -> PagedFile:
    changed = fields["updated_at"]
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return PagedFile(
        **{**fields, **lists, "updated_at": datetime.fromisoformat(changed) if changed else None}
    )
