"""Files of pages -> documents, with the text of images recognised (OCR) by Tesseract, where it is installed."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

from backstory.base.errors import ReadError
from backstory.base.wording import inflect
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument
from backstory.ingest.documents.page_texts import (
    PAGE_BREAK,
    clean_page,
    find_starts,
    join_hyphenated,
    list_pages,
)
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.settings.inputs import DocumentSettings

WORDLESS: Final = (
    "no text is recognised in its images; if they show text, scan them again with 300 dpi, or name its languages in "
    "`documents.ocr_languages`"
)
"""The error of a file whose pages are images in which no text is recognised."""
INSTALL: Final = (
    "install Tesseract to have their text recognised: `apt install tesseract-ocr` (Debian, Ubuntu) or "
    "`brew install tesseract` (macOS)"
)
_UNSURE: Final = 0.6
"""Below this mean confidence a recognised page is named, because many of its words are wrong."""
_MOST_PAGES: Final = 500
"""Pages that are recognised in one file; each takes seconds."""
_UNTRIED: Final = (
    f"at most {_MOST_PAGES} are recognised, and none after one that takes too long; split the file"
)
_BYTES_OF_PICTURE: Final = 10 << 20
"""What a page adds to the size of a file, by which its time is limited: the picture of it that is drawn."""
_SCREEN_DPI, _SCREEN_PIXELS = 110, 4_000_000
"""Resolution for a screen, and a page of A2 at it; larger ones are drawn at a lower resolution."""
_DPI, _RECOGNISED_PIXELS = 300, 40_000_000
"""Resolution at which Tesseract reads best, and a page of A2 at it."""
_CODE_KIBIBYTES: Final = 512 << 10
"""Address space of Tesseract's own code and models."""
_QUESTIONS: Final = '"$0" --version && "$0" --list-langs'
_LIMITED: Final = 'ulimit -S -t "$0"; ulimit -S -v "$1"; shift; exec "$@"'
"""Runs a program with limits of processor time (seconds) and memory (KiB); macOS has only the first."""
_ANSWER_SECONDS: Final = 30
_COLUMNS: Final = 12
_WORD: Final = "5"


Page: TypeAlias = "tuple[str, float | None]"
"""The text of a page, and the mean confidence of its words, 0 to 1, if they were recognised."""
Recognised: TypeAlias = "dict[int, list[Page] | str]"
"""The text of pictures by their numbers, or why they have none. An image may hold several pages."""


def _read_pdf(content: bytes, _: str) -> ParsedDocument:
    # Loading the library takes a tenth of a second, which only workspaces with a PDF should pay.
    from backstory.ingest.documents.formats.pdf import read_pdf

    return read_pdf(content)


def _read_image(content: bytes, _: str) -> ParsedDocument:
    if not _is_image(content):
        raise ReadError("this is not an image; give the file its right ending, or remove it")
    return ParsedDocument(text="", page_starts=(0,), chunker="page", pictures=(1,))


def _is_image(content: bytes) -> bool:
    return (name_binary_kind(content) or "").startswith("an image")


PDF: Final = DocumentFormat("pdf", "PDF", frozenset({".pdf"}), _read_pdf, None)
_IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"})
IMAGE: Final = DocumentFormat("image", "image (PNG, JPEG, TIFF, WebP)", _IMAGES, _read_image, None)
"""Scans and photographs of text; a picture without text, such as a photograph beside a post, is no document."""


def read_pictures(document: ParsedDocument, content: bytes, settings: DocumentSettings) -> ParsedDocument:
    """Recognise the text of the pictures of a document, within limits of their own.

    It raises ``ReadError`` if no page holds text that could be read or recognised here.
    """
    program, answer = _find_tesseract(settings) if document.pictures else ("", "")
    found: Recognised = dict.fromkeys(document.pictures, _UNTRIED if program else answer)
    if program:
        tried = document.pictures[:_MOST_PAGES]
        limits, size = find_limits(settings), len(content) + len(tried) * _BYTES_OF_PICTURE
        try:
            found |= call_limited(recognise, content, tried, program, settings, limits=limits, size=size)
        except ReadError as error:
            found |= dict.fromkeys(tried, str(error))
    pages: list[Page] = []
    failed: dict[str, list[int]] = {}
    ends = [start - len(PAGE_BREAK) for start in document.page_starts[1:]]
    for number, (start, end) in enumerate(zip(document.page_starts, [*ends, None], strict=True), 1):
        reply = found.get(number, "")
        pages += [(document.text[start:end], None)] if isinstance(reply, str) else reply
        if reply and isinstance(reply, str):
            failed.setdefault(reply, []).append(number)
    unread = [document.unread] if document.unread else []
    for reason, numbers in failed.items():
        unread.append(f"{list_pages(numbers)} {inflect(len(numbers), 'holds', 'hold')} only images; {reason}")
    texts, sure = [text for text, _ in pages], [confidence for _, confidence in pages]
    if unsure := [place for place, mean in enumerate(sure, 1) if mean is not None and mean < _UNSURE]:
        unread.append(
            f"the text of {list_pages(unsure)} was recognised with little confidence (below {_UNSURE}), and may be "
            "wrong; scan with 300 dpi, or name the languages in `documents.ocr_languages`"
        )
    if not "".join(texts).strip():
        if not unread:
            blank = "all its pages are blank; put text into it, or remove the file"
            raise ReadError(WORDLESS if document.pictures else blank, code="empty_document")
        raise ReadError("; ".join(unread), code="needs_ocr" if failed and not program else "damaged_file")
    return replace(
        document,
        text=PAGE_BREAK.join(texts),
        page_starts=find_starts(texts),
        confidences=tuple(sure) if set(sure) != {None} else (),
        unread="; ".join(unread) or None,
        pictures=(),
    )


def recognise(content: bytes, pages: Sequence[int], program: str, settings: DocumentSettings) -> Recognised:
    """Recognise pages of a PDF, or all pages of an image, in the process with limits."""
    from backstory.ingest.documents.formats.pdf import draw_pdf

    found: Recognised = {}
    for page in pages:
        try:
            is_drawn = not _is_image(content)
            image = draw_pdf(content, page, _DPI, _RECOGNISED_PIXELS, True) if is_drawn else content
            found[page] = _recognise_pages(image, program, settings)
        except ReadError as error:
            found[page] = str(error)
            if error.code == "too_slow":  # others may, too, each for a minute
                break
    return found


def draw_page(content: bytes, page: int, settings: DocumentSettings) -> bytes:
    """Draw a page of a PDF, from 1, for a screen as PNG; raise ``ReadError`` if it cannot be drawn."""
    from backstory.ingest.documents.formats.pdf import draw_pdf

    limits = find_limits(settings)
    return call_limited(draw_pdf, content, page, _SCREEN_DPI, _SCREEN_PIXELS, False, limits=limits)


@cache
def _examine(program: str, _changed: int) -> tuple[str, list[str]] | None:
    """Ask a program for its version and its languages; None if it does not run."""
    # Imported here: it loads the types of keys, which take a tenth of a second, and most files need no recognition.
    from backstory.base.environment import reader_environment

    try:
        answer = subprocess.run(  # noqa: S603 - found in the PATH
            ["/bin/sh", "-c", _QUESTIONS, program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=reader_environment(), timeout=_ANSWER_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    version, _, listed = answer.stdout.decode("utf-8", "replace").partition("List")
    return version.partition("\n")[0], sorted(listed.splitlines()[1:])


def _find_tesseract(settings: DocumentSettings) -> tuple[str, str]:
    """Return the program that recognises text in images with its version and languages; or "" and what to do."""
    if settings.ocr == "off":
        return "", "set `documents: {ocr: auto}` to have their text recognised"
    program = shutil.which("tesseract")
    examined = _examine(program, Path(program).stat().st_mtime_ns) if program else None
    if program is None or examined is None:
        return "", INSTALL
    version, languages = examined
    if lacking := ", ".join(name for name in settings.ocr_languages if name not in languages):
        return "", f"Tesseract lacks {lacking} (`documents.ocr_languages`); install these, or name others"
    return program, " ".join([version, *languages])


def name_recognition(settings: DocumentSettings) -> str:
    """Return an id of what recognises text: the program, its languages, and the limits, which may stop it."""
    program, version = _find_tesseract(settings)
    limits = f"{settings.read_seconds} {settings.read_megabytes}"
    return " ".join([version, limits, *settings.ocr_languages]) if program else ""


def _recognise_pages(image: bytes, program: str, settings: DocumentSettings) -> list[Page]:
    """Recognise the text in an image file, by Tesseract with limits of its own, in the process with limits."""
    kibibytes = _CODE_KIBIBYTES + settings.read_megabytes * 1024
    limited = ["/bin/sh", "-c", _LIMITED, str(settings.read_seconds), str(kibibytes)]
    asked = ["stdin", "stdout", "-l", "+".join(settings.ocr_languages), "--dpi", str(_DPI), "tsv"]
    # The program is that of the PATH, and no argument is of the file.
    answer = subprocess.run([*limited, program, *asked], input=image, capture_output=True, check=False)  # noqa: S603
    code = answer.returncode
    if code == -signal.SIGXCPU:
        problem = "it takes more processor time than `documents.read_seconds` allows; raise the setting"
        raise ReadError(problem, code="too_slow")
    if code != 0:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise ReadError(f"Tesseract cannot read the image ({how}): it is damaged, too large, or no image")
    return parse_pages(answer.stdout.decode("utf-8", "replace"))


def parse_pages(table: str) -> list[Page]:
    """Read what Tesseract writes as ``tsv``, with the words joined that are cut at the ends of lines.

    A row has level, page, block, paragraph, line, ..., confidence and text of a word. A page may have no word.
    """
    listed = (line.split("\t") for line in table.splitlines())
    rows = [row for row in listed if len(row) == _COLUMNS and row[1].isdigit()]
    texts: list[str] = []
    confidences: list[float | None] = []
    for _, page in groupby(rows, lambda row: row[1]):
        words = [row for row in page if row[0] == _WORD and row[-1].strip()]
        lines = [
            (place, " ".join(row[-1].strip() for row in line))
            for place, line in groupby(words, lambda row: row[2:5])
        ]
        paragraphs = groupby(lines, lambda line: line[0][:2])
        texts.append(clean_page("\n\n".join("\n".join(text for _, text in part) for _, part in paragraphs)))
        mean = sum(float(row[-2]) for row in words) / len(words) if words else None
        confidences.append(None if mean is None else round(mean / 100, 3))
    return list(zip(join_hyphenated(texts), confidences, strict=True))
