"""The pages of a PDF as text and as images; loaded only where a PDF is read.

PDFium reads the text: it keeps words whole that pypdf breaks, and takes an eighth of the time. Pages in a script from
right to left are read by pypdf, because PDFium turns some of their letters around.
``docs/decisions/0008-two-readers-of-pdf.md`` has the figures.
"""

from __future__ import annotations

import io
import math
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from typing import Final

import numpy as np
import pypdf
import pypdfium2
from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject, StreamObject, create_string_object
from pypdfium2 import raw

from backstory.base.errors import ReadError
from backstory.ingest.documents import page_texts
from backstory.ingest.documents.metadata import ParsedDocument, find_last_change, read_pdf_date, read_title

_MACHINE_NAME: Final = re.compile(r".*[\[\]#]|[a-z]{0,6}[ _-]?\d+", re.IGNORECASE)
"""Names that programs give to fields: ``form1[0].f1_1[0]``, ``Text 12``."""
_POINTS_PER_INCH: Final = 72
_FAST: Final = 3
_GREY, _RGB = 0, 2
_STAMP_CHARACTERS: Final = 60
"""A scanned page may bear so much text, such as its number or the name of an archive."""
_SCAN_SHARE: Final = 0.5
_GARBLED_SHARE: Final = 0.3
_RIGHT_TO_LEFT: Final = re.compile(
    r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
)

_PYPDF_ERRORS: Final = (
    PyPdfError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What pypdf raises on damaged files; it promises only the first."""


def read_pdf(content: bytes) -> ParsedDocument:
    """Read the text of all pages, the title and the date; raise ``ReadError`` if the file is protected or damaged."""
    texts: list[str] = []
    pictures: list[int] = []
    damaged: set[int] = set()
    unsure: list[int] = []
    with closing(_open(content)) as pdf:

        @cache
        def open_copy() -> pypdf.PdfReader:
            """Open a copy for pypdf, which is repaired, and readable without a package for ciphers."""
            copy = io.BytesIO()
            pdf.save(copy, flags=raw.FPDF_REMOVE_SECURITY)
            return pypdf.PdfReader(copy)

        for number in range(1, len(pdf) + 1):
            text, is_picture = "", False
            try:
                text, is_picture = _read_page(pdf, number)
            except pypdfium2.PdfiumError:
                damaged.add(number)
            pictures += [number] if is_picture else []
            if _RIGHT_TO_LEFT.search(text):
                turned = ""
                with suppress(*_PYPDF_ERRORS):
                    turned = page_texts.clean_page(open_copy().pages[number - 1].extract_text())
                unsure += [] if turned else [number]
                text = turned or text
            texts.append(text)
        # The number of pages is only claimed: those that follow the last one in the file take no place in the text.
        while len(texts) in damaged:
            texts.pop()
        problems = {
            "cannot be read: the file is damaged; write or export it again": damaged,
            "may hold letters in a wrong order; export the file again": unsure,
        }
        notes = [
            f"{page_texts.list_pages(numbers)} {problem}" for problem, numbers in problems.items() if numbers
        ]
        if pdf.get_formtype() != raw.FORMTYPE_NONE:
            try:
                for place, line in _list_filled(open_copy()):
                    texts[place] = f"{texts[place]}\n{line}".strip()
            except _PYPDF_ERRORS:
                notes.append("what is filled into its form cannot be read; print it as PDF")
        dates = (read_pdf_date(_read_information(pdf, name)) for name in ("CreationDate", "ModDate"))
        texts = page_texts.join_hyphenated(page_texts.drop_running_heads(texts))
        return ParsedDocument(
            text=page_texts.PAGE_BREAK.join(texts),
            title=read_title(_read_information(pdf, "Title")),
            change=find_last_change(*dates),
            page_starts=page_texts.find_starts(texts),
            chunker="page",
            unread="; ".join(notes) or None,
            pictures=tuple(pictures),
        )


def _list_filled(copy: pypdf.PdfReader) -> Iterator[tuple[int, str]]:
    """List the filled fields (``name: value``) and the boxes that are ticked, with their pages, from 0."""
    for place, page in enumerate(copy.pages):
        annotations = (annotation.get_object() for annotation in page.annotations or ())
        for field in (each for each in annotations if isinstance(each, DictionaryObject)):
            kind, stated, shown, given = (field.get_inherited(key, "") for key in ("/FT", "/V", "/TU", "/T"))
            # The name that people are shown, else the one that the program gave unless it says nothing.
            name = str(shown or ("" if _MACHINE_NAME.fullmatch(str(given)) else given))
            if isinstance(stated, StreamObject):
                stated = create_string_object(stated.get_data())
            values = stated if isinstance(stated, list) else [stated]
            value = " ".join(", ".join(str(text) for text in values if isinstance(text, str | bytes)).split())
            if kind == "/Btn" and field.get("/AS", stated) not in ("", "/Off"):
                yield place, f"☑ {name}".strip()
            elif kind in ("/Tx", "/Ch") and value:
                yield place, f"{name}: {value}" if name else value


def draw_pdf(content: bytes, page: int, dpi: int, most_pixels: int, is_grey: bool) -> bytes:
    """Draw a page, from 1, as a PNG file; raise ``ReadError`` if it cannot be drawn, or is not there."""
    with closing(_open(content)) as pdf:
        try:
            opened = pdf[page - 1]
            width, height = opened.get_size()
            scale = min(dpi / _POINTS_PER_INCH, math.sqrt(most_pixels / max(width * height, 1)))
            bitmap = opened.render(
                scale=scale, grayscale=is_grey, rev_byteorder=not is_grey, prefer_bgrx=False
            )
        except (pypdfium2.PdfiumError, LookupError, ValueError) as error:
            problem = "the page cannot be drawn: the file is damaged, or lacks it; write or export it again"
            raise ReadError(problem, code="damaged_file") from error
        return _encode_png(bitmap)


def _encode_png(bitmap: pypdfium2.PdfBitmap) -> bytes:
    colours = _GREY if bitmap.n_channels == 1 else _RGB
    header = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, colours, 0, 0, 0)
    rows = bitmap.to_numpy().reshape(bitmap.height, -1)
    # Each line of a PNG begins with its filter, here none.
    data = zlib.compress(np.pad(rows, ((0, 0), (1, 0))).tobytes(), _FAST)
    written = (
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            reason = "it is protected by a password or a certificate; save a copy without"
        else:
            reason = "this is no PDF, or it is damaged or incomplete; copy, write or export it again"
        raise ReadError(reason, code="damaged_file") from error


def _read_page(pdf: pypdfium2.PdfDocument, number: int) -> tuple[str, bool]:
    """Return a page's text, and whether its text has to be recognised in an image."""
    with closing(pdf[number - 1]) as page, closing(page.get_textpage()) as text_page:
        text = text_page.get_text_bounded()
        if is_garbled(text):
            return "", True
        text = page_texts.clean_page(text)
        if not text:
            return "", next(iter(page.get_objects(max_depth=1)), None) is not None
        return text, len(text) <= _STAMP_CHARACTERS and _is_scan(page)


def _is_scan(page: pypdfium2.PdfPage) -> bool:
    """Return whether an image covers most of a page."""
    width, height = page.get_size()
    images = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=1)
    bounds = (image.get_bounds() for image in images)
    least = _SCAN_SHARE * width * height
    return any(abs((right - left) * (top - bottom)) >= least for left, bottom, right, top in bounds)


def _read_information(pdf: pypdfium2.PdfDocument, field: str) -> str:
    try:
        return str(pdf.get_metadata_value(field))
    except UnicodeDecodeError:
        return ""


def is_garbled(text: str) -> bool:
    """Return whether a page's letters have no known characters, so that its text is numbers of shapes in a font."""
    kinds = [unicodedata.category(letter) for letter in text if not letter.isspace()]
    unknown = text.count("\ufffd") + sum(kind in ("Cc", "Co", "Cn") for kind in kinds)
    return unknown > _GARBLED_SHARE * len(kinds)
