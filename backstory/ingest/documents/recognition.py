"""Recognising text in images (OCR) by Tesseract, where it is installed."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits
from backstory.ingest.documents.page_texts import clean_page, join_hyphenated

if TYPE_CHECKING:
    from backstory.settings.inputs import DocumentSettings
DPI: Final = 300
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
class Tesseract:
    """An installed Tesseract: its absolute path, its version, and the languages that are installed with it."""

    program: str
    version: str
    languages: tuple[str, ...]


def find_tesseract() -> Tesseract | None:
    """Find Tesseract in the ``PATH``; None if it is not installed, or does not run."""
    program = shutil.which("tesseract")
    return None if program is None else _examine(program, Path(program).stat().st_mtime_ns)


@cache
def _examine(program: str, _changed: int) -> Tesseract | None:
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


def choose_tesseract(settings: DocumentSettings) -> Tesseract | str:
    """Return what recognises text in images, or why none is recognised, and what to do."""
    if settings.ocr == "off":
        return "set `documents: {ocr: auto}` to have their text recognised"
    tesseract = find_tesseract()
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
    tesseract = None if settings.ocr == "off" else find_tesseract()
    if tesseract is None:
        return ""
    limits = f"{settings.read_seconds} {settings.read_megabytes}"
    return " ".join([tesseract.version, limits, *settings.ocr_languages, *tesseract.languages])


def recognise_pages(
    image: bytes, program: str, languages: Sequence[str], limits: ReadingLimits
) -> list[RecognisedPage]:
    """Recognise the text in an image file, with the words that are cut at the ends of lines joined.

    The caller runs it in the process with limits, with which Tesseract ends. On Linux it has limits of its own.
    """
    from backstory.base.environment import reader_environment

    # Threads would multiply its time, and not its speed. The program is that of the PATH; no argument is of the file.
    environment = reader_environment() | {"OMP_THREAD_LIMIT": "1"}
    command = [program, "stdin", "stdout", "-l", "+".join(languages), "--dpi", str(DPI), "tsv"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, env=environment) as process:  # noqa: S603
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
    pages = parse_pages(table.decode("utf-8", "replace"))
    texts = join_hyphenated([page.text for page in pages])
    return [RecognisedPage(text, page.confidence) for text, page in zip(texts, pages, strict=True)]


def parse_pages(table: str) -> list[RecognisedPage]:
    """Read what Tesseract writes as ``tsv``; a page without words gives a blank text.

    A row has level, page, block, paragraph, line, ..., confidence and text of a word.
    """
    listed = (line.split("\t") for line in table.splitlines())
    rows = [row for row in listed if len(row) == _COLUMNS and row[1].isdigit()]
    pages = []
    for number in sorted({int(row[1]) for row in rows}):
        words = [row for row in rows if int(row[1]) == number and row[0] == _WORD and row[-1].strip()]
        paragraphs = [
            "\n".join(
                " ".join(row[-1].strip() for row in line) for _, line in groupby(group, lambda row: row[4])
            )
            for _, group in groupby(words, lambda row: (row[2], row[3]))
        ]
        sure = sum(float(row[-2]) for row in words) / len(words) / 100 if words else None
        confidence = None if sure is None else round(min(max(sure, 0.0), 1.0), 3)
        pages.append(RecognisedPage(clean_page("\n\n".join(paragraphs)), confidence))
    return pages
