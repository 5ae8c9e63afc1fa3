"""Files of pages -> documents, with the text of images recognised (OCR) by Tesseract, where it is installed."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import Final, TypeAlias

from backstory.base.errors import ReadError
from backstory.base.wording import inflect, name_all, name_runs
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.settings.inputs import DocumentSettings

PAGE_BREAK: Final = "\n\n"
"""What stands between the texts of two pages."""
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


_LINE_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BREAK_MARKS: Final = "\x02\ufffe"
"""What PDFium writes for a hyphen at the end of a line, in place of the hyphen and of the end of the line."""
_UNWRITTEN: Final = re.compile(r"[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ufeff\uffff\ufdd0-\ufdef\ud800-\udfff]")
"""Control characters, what is no character, and halves of characters."""
_FORMS: Final = re.compile(r"[\ufb00-\ufdfc\ufe70-\ufefc]")
"""Ligatures (``ﬁ``) and letters by their shape in a word (Hebrew, Arabic), which no one types."""
_FORMS_OF_WORDS: Final = (r"\w+", r"-\w+", r"\w+-\w+")
_ADDRESS: Final = re.compile(r"://|www\.|@|\w[./]\w")
_AND: Final = (
    "and", "or", "to", "und", "oder", "bis", "et", "ou", "à", "y", "o", "e", "en", "of", "och", "og", "i",
)  # fmt: skip
"""Words before the second half of a pair: ``short- and long-term``."""
_BROKEN: Final = re.compile(
    rf"(\w[-\u2010] (?:{'|'.join(_AND)}) )?(\S*?)(\w+)(?:[\x02\ufffe]\n?|([-\u2010\u00ad]) *\n) *(\w+)(-?)"
)
_APART: Final = frozenset(["well", "self", "half", "mid"])
"""First parts that keep their hyphen before a word."""
_NUMBER: Final = re.compile(r"\d+|\A[ivxlc]{1,7}\Z", re.IGNORECASE)
_PAGE_NUMBER: Final = re.compile(r"(?i:[\W_]|\b(?:page|p|seite|s|sida|página|pagina|of|von|de|sur|di|av)\b)+")
_LEAST_PAGES: Final = 3
_SHARE_OF_PAGES: Final = 0.6
_EDGE_LINES: Final = 2
"""How many lines at the top and the bottom of a page may be a running head."""


def find_starts(pages: Sequence[str], separator: str = PAGE_BREAK) -> tuple[int, ...]:
    """Return where each page begins in the joined pages."""
    return tuple(accumulate((len(page) + len(separator) for page in pages[:-1]), initial=0))


def list_pages(numbers: Iterable[int]) -> str:
    """Name pages as a subject: ``page 3``, ``pages 3 and 5-7``."""
    listed = name_all(name_runs(numbers, "-"))
    return f"{'page' if listed.isdigit() else 'pages'} {listed}"


def clean_page(text: str) -> str:
    r"""Clean the text of one page; the marks of hyphenated lines are left for :func:`join_hyphenated`."""
    text = _UNWRITTEN.sub("", _LINE_ENDS.sub("\n", text))
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = re.sub(r"[ \t\u00a0]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def join_hyphenated(pages: Sequence[str]) -> list[str]:
    """Join the words that are cut at the end of a line, within each page.

    The hyphen is dropped between two lower-case letters, unless it is the word's own: in an address, beside another
    hyphen, in a half of a pair (``pre- and post-war``), or where the pages elsewhere hold both parts as words, or the
    word with its hyphen, and not without. It is kept beside digits and capitals (``COVID-19``). Soft hyphens are
    dropped everywhere.
    """
    whole = " ".join(_BROKEN.sub(" ", page) for page in pages) if any(map(_BROKEN.search, pages)) else ""
    words = set(re.findall(r"\w+", whole))
    forms = {form for pattern in _FORMS_OF_WORDS for form in re.findall(pattern, whole.lower())}

    def join(found: re.Match[str]) -> str:
        pair, before, first, mark, rest, after = found.groups("")
        before = pair + before
        if mark == "\u00ad":
            return before + first + rest + after
        is_whole, is_long = f"{first}{rest}".lower() in forms, len(first) > 2 and len(rest) > 3
        if rest.lower() in _AND and not is_whole and not after:
            return f"{before}{first}- {rest}"
        is_own = not is_whole and (
            f"{first}-{rest}".lower() in forms
            or before.endswith("-")
            or len(first) == 1
            or bool(pair)
            or _ADDRESS.search(before + first) is not None
            or (is_long and (f"-{rest}" in forms or first.lower() in _APART))
            or (is_long and first.lower() in forms and rest in words)
        )
        is_cut = first[-1].islower() and rest[0].islower() and not is_own and not after
        return f"{before}{first}{'' if is_cut else '-'}{rest}{after}"

    marks = str.maketrans({"\u00ad": "", **dict.fromkeys(_BREAK_MARKS, "-")})
    return [_BROKEN.sub(join, page).translate(marks) for page in pages]


def drop_running_heads(pages: Sequence[str]) -> list[str]:
    """Leave out the lines that stand, but for numbers, at an edge of most pages, or of most left or right ones.

    Such a line is kept once for each number in it, as a paragraph of its own, unless it is the number of a page.
    """
    split = [page.split("\n") for page in pages]
    edges = [_list_edges(lines) for lines in split]
    heads: set[str] = set()
    for side in (edges, edges[::2], edges[1::2]):
        shapes = Counter(shape for lines in side for shape in set(lines.values()))
        least = max(_LEAST_PAGES, _SHARE_OF_PAGES * sum(map(bool, side)))
        heads.update(shape for shape, number in shapes.items() if number >= least)
    kept: set[str] = set()
    for lines, shapes_of in zip(split, edges, strict=True):
        is_more = any(line.strip() and shapes_of.get(place) not in heads for place, line in enumerate(lines))
        for place, shape in shapes_of.items() if is_more else ():
            if shape in heads:
                line = lines[place].strip()
                lines[place] = "" if line in kept or _PAGE_NUMBER.fullmatch(shape) else f"\n{line}\n"
                kept.add(line)
    return [re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() for lines in split] if heads else list(pages)


def _list_edges(lines: Sequence[str]) -> dict[int, str]:
    """Return the lines at the top and the bottom of a page by their places, with # for each number."""
    written = [place for place, line in enumerate(lines) if line.strip()]
    edges = written if len(written) <= 2 * _EDGE_LINES else written[:_EDGE_LINES] + written[-_EDGE_LINES:]
    return {place: _NUMBER.sub("#", lines[place].strip()) for place in edges}
