"""Files of pages -> documents, with the text of images recognised (OCR) by Tesseract, where it is installed."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits
from backstory.base.wording import inflect
from backstory.ingest.documents.page_texts import (
    PAGE_BREAK,
    PagedFile,
    clean_page,
    find_starts,
    join_hyphenated,
    list_pages,
)
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.settings.inputs import DocumentSettings

WORDLESS: Final = (
    "no text is recognised in its images; if they show text, scan them again with 300 dpi, or name its languages in "
    "`documents.ocr_languages`"
)
"""The error of a file whose pages are images in which no text is recognised."""
_LITTLE_CONFIDENCE: Final = 0.6
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
_RECOGNISED_PIXELS: Final = 40_000_000
"""A page of A2 at the resolution of recognition."""
_DPI: Final = 300
"""Resolution at which Tesseract reads best, and at which pages are drawn for it."""
INSTALL: Final = (
    "install Tesseract to have their text recognised: `apt install tesseract-ocr` (Debian, Ubuntu) or "
    "`brew install tesseract` (macOS)"
)
_CODE_BYTES: Final = 512 << 20
"""Address space of Tesseract's own code and models."""
_ANSWER_SECONDS: Final = 30
_COLUMNS: Final = 12
_WORD: Final = "5"


@dataclass(frozen=True)
class RecognisedPage:
    """The text of one page, blank if there is none, and the mean confidence of its words, 0 to 1."""

    text: str
    confidence: float | None


@dataclass(frozen=True)
class Recognition:
    """The text of pages by their numbers, and why others have none."""

    pages: dict[int, list[RecognisedPage]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)


def read_pages(format_name: str, content: bytes) -> PagedFile:
    """Read the text of every page of a PDF; an image is a page without text."""
    if not content.strip(b"\0 \t\r\n"):
        raise ReadError("the file is empty; export it again, or remove it", code="empty_document")
    if format_name == PDF.name:
        # Loading the library takes a tenth of a second, which only workspaces with a PDF should pay.
        from backstory.ingest.documents.formats.pdf import read_pdf

        return read_pdf(content)
    if not (name_binary_kind(content) or "").startswith("an image"):
        raise ReadError("this is not an image; give the file its right ending, or remove it")
    return PagedFile(texts=("",), pictures=(1,))


def _read_unrecognised(format_name: str, content: bytes, _: str) -> ParsedDocument:
    paged = read_pages(format_name, content)
    return compose_document(paged, Recognition(failures=dict.fromkeys(paged.pictures, INSTALL)), "needs_ocr")


PDF: Final = DocumentFormat("pdf", "PDF", frozenset({".pdf"}), partial(_read_unrecognised, "pdf"), None)
IMAGE: Final = DocumentFormat(
    "image",
    "image (PNG, JPEG, TIFF, WebP)",
    frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"}),
    partial(_read_unrecognised, "image"),
    None,
)
"""Scans and photographs of text; a picture without text, such as a photograph beside a post, is no document."""


def read_paged(format_name: str, content: bytes, settings: DocumentSettings) -> ParsedDocument:
    """Read a file of pages within the limits, which apply to its text, and then to all images in it."""
    limits = find_limits(settings)
    paged = call_limited(read_pages, format_name, content, limits=limits)
    if not paged.pictures:
        return compose_document(paged, Recognition())
    tesseract = _choose_tesseract(settings)
    if isinstance(tesseract, str):
        failures = dict.fromkeys(paged.pictures, tesseract)
        return compose_document(paged, Recognition(failures=failures), "needs_ocr")
    tried = paged.pictures[:_MOST_PAGES]
    means = (tesseract.program, "+".join(settings.ocr_languages), limits)
    size = len(content) + len(tried) * _BYTES_OF_PICTURE
    try:
        found = call_limited(recognise, format_name, content, tried, *means, limits=limits, size=size)
    except ReadError as error:
        found = Recognition(failures=dict.fromkeys(tried, str(error)))
    untried = {page: _UNTRIED for page in paged.pictures if page not in found.pages}
    return compose_document(paged, Recognition(found.pages, untried | found.failures))


def recognise(
    format_name: str,
    content: bytes,
    pages: Sequence[int],
    program: str,
    languages: str,
    limits: ReadingLimits,
) -> Recognition:
    """Recognise pages of a PDF, or all pages of an image, in the process with limits."""
    found = Recognition()
    for page in pages:
        try:
            image = content
            if format_name == PDF.name:
                image = draw_picture(content, page, _DPI, _RECOGNISED_PIXELS, True)
            found.pages[page] = _recognise_pages(image, program, languages, limits)
        except ReadError as error:
            found.failures[page] = str(error)
            if error.code == "too_slow":  # others may, too, each for a minute
                break
    return found


def draw_page(content: bytes, page: int, settings: DocumentSettings) -> bytes:
    """Draw a page of a PDF for a screen as PNG; raise ``ReadError`` (``unknown_page``) if it has no such page."""
    screen = (_SCREEN_DPI, _SCREEN_PIXELS)
    return call_limited(draw_picture, content, page, *screen, False, limits=find_limits(settings))


def draw_picture(content: bytes, page: int, dpi: int, most_pixels: int, is_grey: bool) -> bytes:
    """Draw a page of a PDF, in the process with limits."""
    from backstory.ingest.documents.formats.pdf import draw_pdf

    return draw_pdf(content, page, dpi, most_pixels, is_grey=is_grey)


def compose_document(paged: PagedFile, found: Recognition, code: str = "damaged_file") -> ParsedDocument:
    """Put the pages together; raise ``ReadError`` if none holds text that could be read or recognised here.

    ``code``: that of the error if all text is in images that are not read.
    """
    pages = [
        page
        for number, text in enumerate(paged.texts, 1)
        for page in found.pages.get(number, [RecognisedPage(text, None)])
    ]
    texts = [page.text for page in pages]
    unread = list(paged.notes)
    for reason in dict.fromkeys(found.failures.values()):
        failed = [page for page, why in found.failures.items() if why == reason]
        unread.append(f"{list_pages(failed)} {inflect(len(failed), 'holds', 'hold')} only images; {reason}")
    sure = [1 if page.confidence is None else page.confidence for page in pages]
    unsure = [place for place, confidence in enumerate(sure, 1) if confidence < _LITTLE_CONFIDENCE]
    if unsure:
        unread.append(
            f"the text of {list_pages(unsure)} was recognised with little confidence (below {_LITTLE_CONFIDENCE}), and "
            "may be wrong; scan with 300 dpi, or name the languages in `documents.ocr_languages`"
        )
    if not "".join(texts).strip():
        if not unread:
            blank = "all its pages are blank; put text into it, or remove the file"
            raise ReadError(WORDLESS if paged.pictures else blank, code="empty_document")
        raise ReadError("; ".join(unread), code=code if found.failures else "damaged_file")
    return ParsedDocument(
        text=PAGE_BREAK.join(texts),
        title=paged.title,
        change=paged.change,
        page_starts=find_starts(texts),
        chunker="page",
        confidences=tuple(page.confidence for page in pages) if found.pages else (),
        unread="; ".join(unread) or None,
    )


@dataclass(frozen=True)
class Tesseract:
    """An installed Tesseract, by the path of its program, with the languages that are installed."""

    program: str
    version: str
    languages: tuple[str, ...]


@cache
def _examine(program: str, _changed: int) -> Tesseract | None:
    """Ask a program for its version and its languages; None if it does not run."""
    # Imported here: it loads the types of keys, which take a tenth of a second, and most files need no recognition.
    from backstory.base.environment import reader_environment

    def ask(question: str) -> list[str]:
        answer = subprocess.run(  # noqa: S603 - found in the PATH
            [program, question], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=reader_environment(), timeout=_ANSWER_SECONDS, check=True,
        )  # fmt: skip
        return answer.stdout.decode("utf-8", "replace").splitlines()

    try:
        version, languages = ask("--version")[:1], ask("--list-langs")[1:]
    except (OSError, subprocess.SubprocessError):
        return None
    return Tesseract(program, " ".join(version), tuple(sorted(languages)))


def _choose_tesseract(settings: DocumentSettings) -> Tesseract | str:
    """Return what recognises text in images, or why none is recognised, and what to do."""
    if settings.ocr == "off":
        return "set `documents: {ocr: auto}` to have their text recognised"
    program = shutil.which("tesseract")
    tesseract = _examine(program, Path(program).stat().st_mtime_ns) if program else None
    if tesseract is None:
        return INSTALL
    lacking = [name for name in settings.ocr_languages if name not in tesseract.languages]
    if not lacking:
        return tesseract
    packages = " ".join(f"tesseract-ocr-{name.replace('_', '-').lower()}" for name in lacking)
    return (
        f"Tesseract lacks {', '.join(lacking)} (`documents.ocr_languages`); install it by `apt install {packages}` "
        "(Debian, Ubuntu) or `brew install tesseract-lang` (macOS), or name others"
    )


def name_recognition(settings: DocumentSettings) -> str:
    """Return an id of what recognises text: the program, its languages, and the limits, which may stop it."""
    tesseract = _choose_tesseract(settings)
    if isinstance(tesseract, str):
        return ""
    limits = f"{settings.read_seconds} {settings.read_megabytes}"
    return " ".join([tesseract.version, limits, *settings.ocr_languages, *tesseract.languages])


def _recognise_pages(
    image: bytes, program: str, languages: str, limits: ReadingLimits
) -> list[RecognisedPage]:
    """Recognise the text in an image file, in the process with limits, with which Tesseract ends.

    On Linux it has limits of its own.
    """
    # The program is that of the PATH, and no argument is of the file.
    command = [program, "stdin", "stdout", "-l", languages, "--dpi", str(_DPI), "tsv"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing) as process:  # noqa: S603
        if sys.platform == "linux":  # it waits for the image, so that the limits come in time
            memory = _CODE_BYTES + (limits.megabytes << 20)
            for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, limits.seconds)):
                _, hard = resource.prlimit(process.pid, kind)
                soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.prlimit(process.pid, kind, (soft, hard))
        table, _ = process.communicate(image)
    code = process.returncode
    if code == -signal.SIGXCPU:
        problem = "it takes more processor time than `documents.read_seconds` allows; raise the setting"
        raise ReadError(problem, code="too_slow")
    if code != 0:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise ReadError(
            f"Tesseract cannot read the image ({how}): it is damaged, too large, or of another kind"
        )
    return parse_pages(table.decode("utf-8", "replace"))


def parse_pages(table: str) -> list[RecognisedPage]:
    """Read what Tesseract writes as ``tsv``, with the words joined that are cut at the ends of lines.

    A row has level, page, block, paragraph, line, ..., confidence and text of a word. A page may have no word.
    """
    listed = (line.split("\t") for line in table.splitlines())
    rows = [row for row in listed if len(row) == _COLUMNS and row[1].isdigit()]
    texts: list[str] = []
    confidences: list[float | None] = []
    for number in sorted({int(row[1]) for row in rows}):
        words = [row for row in rows if int(row[1]) == number and row[0] == _WORD and row[-1].strip()]
        lines = [
            (place, " ".join(row[-1].strip() for row in line))
            for place, line in groupby(words, lambda row: (row[2], row[3], row[4]))
        ]
        paragraphs = groupby(lines, lambda line: line[0][:2])
        texts.append(clean_page("\n\n".join("\n".join(text for _, text in part) for _, part in paragraphs)))
        sure = sum(float(row[-2]) for row in words) / len(words) / 100 if words else None
        confidences.append(None if sure is None else round(min(max(sure, 0.0), 1.0), 3))
    return list(map(RecognisedPage, join_hyphenated(texts), confidences))
