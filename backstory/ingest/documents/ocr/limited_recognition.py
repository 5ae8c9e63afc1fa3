"""A file whose pages may be images -> a document, every page recognised by itself in the process with limits."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from backstory.base.errors import ReadError
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

    It raises ``ReadError`` if all text of the file is in images, and none of it could be recognised here; or the file
    holds no text; or the file cannot be read, or exceeds the limits.
    """
    request = {"format": reader.format, "uri": uri}
    try:
        answer = _run(_LIST, request, content, settings)
    except ReadError as error:
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


def recognise_request(request: bytes) -> bytes:
    """Recognise one page that a request of :func:`read_pictures` names, in the process with limits."""
    wanted, content = _split(request)
    try:
        image = _find_reader(wanted).draw_page(content, wanted["page"])
        found = recognise_pages(image, wanted["program"], wanted["languages"], wanted["megabytes"])
    except ReadError as error:
        return json.dumps({"error": str(error)}).encode()
    pages = [asdict(page) for page in join_recognised(found)]
    return json.dumps({"pages": pages}).encode()


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
        except ReadError as error:
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
