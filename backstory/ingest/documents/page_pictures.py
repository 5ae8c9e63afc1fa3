"""A page of a document as a picture for a screen, drawn in the process with limits."""

from __future__ import annotations

import json
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.settings.inputs import DocumentSettings

DRAWN_FORMAT: Final = "pdf"
"""The one format whose pages can be drawn."""

_TASK: Final = f"{__name__}:draw_request"


def draw_page(content: bytes, uri: str, page: int, settings: DocumentSettings) -> bytes:
    """Draw a page of a PDF as a PNG file.

    It raises ``ReadError`` if there is no such page (``unknown_page``), it cannot be drawn, or a limit is exceeded.
    """
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    try:
        answer = run_limited(_TASK, json.dumps({"page": page}).encode() + b"\n" + content, limits)
    except ReadError as error:
        raise ReadError(f"{uri}: {error}", code=error.code) from error
    line, _, picture = answer.partition(b"\n")
    failure = json.loads(line)
    if failure:
        raise ReadError(f"{uri}: {failure['error']}", code=failure["code"])
    return picture


def draw_request(request: bytes) -> bytes:
    """Handle a request of :func:`draw_page`, in the process with limits."""
    from backstory.ingest.documents.formats.pdf_pages import draw_pdf_picture

    line, _, content = request.partition(b"\n")
    try:
        return b"{}\n" + draw_pdf_picture(content, json.loads(line)["page"])
    except ReadError as error:
        return json.dumps({"error": str(error), "code": error.code}).encode() + b"\n"
