"""OpenDocument texts and presentations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.formats.markup import fence_code, keep_line, write_heading
from backstory.ingest.documents.formats.office.package import (
    Package,
    compose_document,
    damaged,
    open_package,
    write_table,
)
from backstory.ingest.documents.page_texts import PAGE_BREAK, find_starts
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_CONTENT: Final = "content.xml"
_BLOCK_BREAK: Final = "\n\n"
TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
DRAW: Final = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
OFFICE: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
PRESENTATION: Final = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_UNSEEN: Final = (
    f"{TEXT}tracked-changes", f"{TEXT}table-of-content", f"{TEXT}sequence-decls", f"{OFFICE}annotation",
    f"{OFFICE}forms",
)  # fmt: skip
_CODE: Final = re.compile(r"Preformatted|Source|Code", re.IGNORECASE)
_MOST_REPEATED: Final = 1000


def write_blocks(parent: Element) -> list[str]:
    """Write the paragraphs, headings, lists and tables of an element as blocks of Markdown, in order."""
    blocks: list[str] = []
    for is_code, group in groupby(_list_blocks(parent), itemgetter(1)):
        texts = [text for text, _ in group]
        if is_code and any(map(str.strip, texts)):
            texts = [fence_code("\n".join(texts).split("\n"))]
        blocks += filter(str.strip, texts)
    return blocks


def _list_blocks(parent: Element) -> Iterator[tuple[str, bool]]:
    """List blocks, and for each whether it is a line of code."""
    for element in parent:
        if element.tag in _UNSEEN:
            continue
        if element.tag == f"{TEXT}h":
            level = max(_read_number(element, f"{TEXT}outline-level"), 1)
            title = " ".join(_read_text(element).split())
            yield (write_heading(level, title) if title else ""), False
        elif element.tag == f"{TEXT}p":
            yield from _write_paragraph(element)
        elif element.tag == f"{TEXT}list":
            yield "\n".join(_write_list(element, 0)), False
        elif element.tag == f"{TABLE}table":
            yield write_table([_read_row(row) for row in element.iter(f"{TABLE}table-row")]), False
        else:
            yield from _list_blocks(element)


def _write_paragraph(paragraph: Element) -> Iterator[tuple[str, bool]]:
    text = _read_text(paragraph)
    if _CODE.match(paragraph.get(f"{TEXT}style-name", "")):
        yield text, True
    else:
        yield "\n".join(keep_line(line) for line in text.strip().split("\n")), False
    for frame in paragraph.iter(f"{DRAW}text-box"):  # its text stands below the paragraph that holds it
        yield from _list_blocks(frame)
    for note in paragraph.iter(f"{TEXT}note-body"):
        yield f"Note: {' '.join(' '.join(write_blocks(note)).split())}", False


def _write_list(element: Element, level: int) -> Iterator[str]:
    for item in element:
        mark = "- "
        for part in item:
            if part.tag == f"{TEXT}list":
                yield from _write_list(part, level + 1)
            elif text := " ".join(" ".join(block for block, _ in _write_paragraph(part)).split()):
                yield f"{'  ' * level}{mark}{text}"
                mark = "  "


def _read_row(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if cell.tag in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
            cells += [" ".join(write_blocks(cell))] * _read_number(cell, f"{TABLE}number-columns-repeated")
    return cells


def _read_number(element: Element, name: str) -> int:
    """Return a number that an attribute states, 1 without."""
    stated = element.get(name, "1")
    return min(int(stated), _MOST_REPEATED) if stated.isdecimal() else 1


def _read_text(element: Element) -> str:
    return "".join(_list_texts(element))


def _list_texts(element: Element) -> Iterator[str]:
    if element.text:
        yield " ".join(element.text.split("\n"))
    for child in element:
        if child.tag == f"{TEXT}s":
            yield " " * _read_number(child, f"{TEXT}c")
        elif child.tag == f"{TEXT}tab":
            yield "\t"
        elif child.tag == f"{TEXT}line-break":
            yield "\n"
        elif child.tag not in _UNSEEN and child.tag not in (f"{TEXT}note", f"{DRAW}frame"):
            yield from _list_texts(child)
        if child.tail:
            yield " ".join(child.tail.split("\n"))


def read_opendocument_text(content: bytes, _: str) -> ParsedDocument:
    """Read a text as one text without pages, which only a printer makes."""
    package = open_package(content, "an OpenDocument text")
    text = _BLOCK_BREAK.join(write_blocks(_find_body(package, "text")))
    return _compose(package, text, ())


def read_opendocument_slides(content: bytes, _: str) -> ParsedDocument:
    """Read a presentation: each slide is a page, with its notes below it."""
    package = open_package(content, "an OpenDocument presentation")
    slides = [_write_slide(page) for page in _find_body(package, "presentation").iter(f"{DRAW}page")]
    return _compose(package, PAGE_BREAK.join(slides), find_starts(slides))


def _find_body(package: Package, kind: str) -> Element:
    body = package.parse(_CONTENT).find(f"{OFFICE}body/{OFFICE}{kind}")
    if body is None:
        raise damaged(f"it holds no {kind}")
    return body


def _write_slide(page: Element) -> str:
    notes = page.find(f"{PRESENTATION}notes")
    spoken = [] if notes is None else write_blocks(notes)
    blocks: list[str] = []
    for frame in page:
        if frame.tag == f"{PRESENTATION}notes":
            continue
        written = write_blocks(frame)
        if frame.get(f"{PRESENTATION}class") == "title" and written:
            blocks.insert(0, f"# {' '.join(' '.join(written).split())}")
        else:
            blocks += written
    return _BLOCK_BREAK.join([*blocks, *(["Notes:", *spoken] if spoken else [])])


def _compose(package: Package, text: str, starts: tuple[int, ...]) -> ParsedDocument:
    properties = package.parse_optional("meta.xml")
    return compose_document(text, properties, package.count_images("Pictures/"), starts=starts)


ODT: Final = DocumentFormat(
    "odt", "OpenDocument", frozenset({".odt", ".ott"}), read_opendocument_text, None, gives_markdown=True
)

ODP: Final = DocumentFormat("odp", "OpenDocument", frozenset({".odp"}), read_opendocument_slides, None)
