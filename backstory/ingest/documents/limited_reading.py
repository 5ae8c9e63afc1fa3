"""One file -> a document, read in a process with limits unless it is a small file of Markdown or plain text."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.ingest.documents.formats.text_reader import PLAIN_TEXT
from backstory.ingest.documents.ocr.limited_recognition import read_pictures
from backstory.ingest.documents.ocr.paged_file import PictureReader
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.ingest.documents.reader import READERS, DocumentReader

if TYPE_CHECKING:
    from backstory.settings.inputs import DocumentSettings

SMALL_BYTES: Final = 1 << 18
"""Maximum size of a file of Markdown or plain text that is read in this process."""

SMALL_FRONT_MATTER_BYTES: Final = 4096
"""Maximum size of its front matter, which takes far longer to parse than text."""

_TOO_DEEP: Final = "its parts are nested more deeply than any program writes them; write or export it again"
_TASK: Final = f"{__name__}:read_request"
_CHEAP: Final = ("markdown", PLAIN_TEXT)
_FRONT_MATTER: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:---|\+\+\+|\{)")
_END: Final = re.compile(rb"^(?:---|\.\.\.|\+\+\+)[ \t]*\r?$", re.MULTILINE)
_DATES: Final = ("published_at", "updated_at")
_TUPLES: Final = ("tags", "page_starts", "confidences")


def read_document(
    reader: DocumentReader, content: bytes, uri: str, settings: DocumentSettings
) -> ParsedDocument | None:
    """Read a file by :meth:`backstory.ingest.documents.reader.DocumentReader.read`, with limits where necessary.

    A reader that is not in :data:`backstory.ingest.documents.reader.READERS` is trusted by the caller and runs without
    limits.

    It raises ``ReadError`` if all text of the file is in images, and cannot be recognised here; or the file contains
    no text; or the file cannot be read, or exceeds the limits.
    """
    if reader in READERS and isinstance(reader, PictureReader):
        return read_pictures(reader, content, uri, settings)
    if reader not in READERS or _is_harmless(reader, content):
        return reader.read(content, uri, drafts=settings.drafts)
    request = json.dumps({"format": reader.format, "uri": uri, "drafts": settings.drafts}).encode()
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    try:
        answer = json.loads(run_limited(_TASK, request + b"\n" + content, limits))
    except ReadError as error:
        raise ReadError(f"{uri}: {error}", code=error.code) from error
    if "error" in answer:
        raise ReadError(answer["error"], code=answer["code"])
    return _decode(answer["document"])


def read_request(request: bytes) -> bytes:
    """Handle a request of :func:`read_document`, followed by the file's bytes, in the process with limits."""
    line, _, content = request.partition(b"\n")
    wanted = json.loads(line)
    reader = next(reader for reader in READERS if reader.format == wanted["format"])
    answer: dict[str, Any]
    try:
        document = reader.read(content, wanted["uri"], drafts=wanted["drafts"])
    except ReadError as error:
        answer = {"error": str(error), "code": error.code}
    except RecursionError:
        answer = {"error": f"{wanted['uri']}: {_TOO_DEEP}", "code": "nested_too_deeply"}
    else:
        answer = {"document": None if document is None else _encode(document)}
    return json.dumps(answer).encode()


def _is_harmless(reader: DocumentReader, content: bytes) -> bool:
    if reader.format not in _CHEAP or len(content) > SMALL_BYTES:
        return False
    if reader.format == PLAIN_TEXT or len(content) <= SMALL_FRONT_MATTER_BYTES:
        return True
    if b"\0" in content[:SMALL_FRONT_MATTER_BYTES]:
        return False  # UTF-16 or UTF-32, which encode the marks of front matter differently
    if _FRONT_MATTER.match(content) is None:
        return True
    return not content.startswith(b"{") and _END.search(content, 4, SMALL_FRONT_MATTER_BYTES) is not None


def _encode(document: ParsedDocument) -> dict[str, object]:
    dates = {name: value.isoformat() for name in _DATES if (value := getattr(document, name)) is not None}
    return asdict(document) | dict.fromkeys(_DATES) | dates


def _decode(fields: dict[str, object] | None) -> ParsedDocument | None:
    if fields is None:
        return None
    dates = {name: datetime.fromisoformat(str(fields[name])) for name in _DATES if fields[name] is not None}
    tuples = {name: tuple(value) for name in _TUPLES if isinstance(value := fields[name], list)}
    return ParsedDocument(**{**fields, **dates, **tuples})  # type: ignore[arg-type]
