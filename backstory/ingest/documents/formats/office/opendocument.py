"""OpenDocument texts and presentations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.formats.office.package import (
    compose_document,
    damaged,
    open_package,
    write_table,
)
from backstory.ingest.documents.formats.properties import read_attribute
from backstory.ingest.documents.formats.texts import fence_code, keep_line, write_heading
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_UNSEEN: Final = ("tracked-changes", "table-of-content", "sequence-decls", "annotation", "forms")
_CODE: Final = re.compile(r"Preformatted|Source|Code", re.IGNORECASE)
_MOST_REPEATED: Final = 1000


def read_opendocument(kind: str, title: str, content: bytes, _: str) -> ParsedDocument:
    """Read a text as one text without pages, or a presentation whose slides are pages with their notes below them."""
    package = open_package(content, title)
    body = package.parse("content.xml").find(f"body/{kind}")
    if body is None:
        raise damaged(f"it holds no {kind}")
    if kind == "text":
        return compose_document(package, ["\n\n".join(write_blocks(body))])
    return compose_document(package, [_write_slide(page) for page in body.iter("page")], "page")


def write_blocks(parent: Element) -> list[str]:
    """Write the paragraphs, headings, lists and tables of an element as blocks of Markdown, in order."""
    blocks: list[str] = []
    for is_code, group in groupby(_list_blocks(parent), itemgetter(1)):
        texts = [text for text, _ in group]
        if is_code and any(map(str.strip, texts)):
            texts = [fence_code("\n".join(texts))]
        blocks += filter(str.strip, texts)
    return blocks


def _list_blocks(parent: Element) -> Iterator[tuple[str, bool]]:
    """List blocks, and for each whether it is a line of code."""
    for element in parent:
        if element.tag in _UNSEEN:
            continue
        if element.tag == "h":
            level = max(_read_number(element, "outline-level"), 1)
            title = _write_line([_read_text(element)])
            yield (write_heading(level, title) if title else ""), False
        elif element.tag == "p":
            yield from _write_paragraph(element)
        elif element.tag == "list":
            yield "\n".join(_write_list(element, 0)), False
        elif element.tag == "table":
            yield write_table([_read_row(row) for row in element.iter("table-row")]), False
        else:
            yield from _list_blocks(element)


def _write_paragraph(paragraph: Element) -> Iterator[tuple[str, bool]]:
    text = _read_text(paragraph)
    if _CODE.match(read_attribute(paragraph, "style-name")):
        yield text, True
    else:
        yield "\n".join(keep_line(line) for line in text.strip().split("\n")), False
    for frame in paragraph.iter("text-box"):  # its text stands below the paragraph that holds it
        yield from _list_blocks(frame)
    for note in paragraph.iter("note-body"):
        yield f"Note: {_write_line(write_blocks(note))}", False


def _write_list(element: Element, level: int) -> Iterator[str]:
    for item in element:
        mark = "- "
        for part in item:
            if part.tag == "list":
                yield from _write_list(part, level + 1)
            elif text := _write_line(block for block, _ in _write_paragraph(part)):
                yield f"{'  ' * level}{mark}{text}"
                mark = "  "


def _read_row(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if cell.tag in ("table-cell", "covered-table-cell"):
            cells += [_write_line(write_blocks(cell))] * _read_number(cell, "number-columns-repeated")
    return cells


def _read_number(element: Element, name: str) -> int:
    """Return a number that an attribute states, 1 without."""
    stated = read_attribute(element, name, "1")
    return min(int(stated), _MOST_REPEATED) if stated.isdecimal() else 1


def _write_line(texts: Iterable[str]) -> str:
    return " ".join(" ".join(texts).split())


def _read_text(element: Element) -> str:
    """Return the text of a paragraph without its notes and boxes."""
    pieces = [" ".join((element.text or "").split("\n"))]
    for child in element:
        if child.tag == "s":
            pieces.append(" " * _read_number(child, "c"))
        elif child.tag in ("tab", "line-break"):
            pieces.append("\t" if child.tag == "tab" else "\n")
        elif child.tag not in (*_UNSEEN, "note", "frame"):
            pieces.append(_read_text(child))
        pieces.append(" ".join((child.tail or "").split("\n")))
    return "".join(pieces)


def _write_slide(page: Element) -> str:
    blocks: list[str] = []
    notes: list[str] = []
    for frame in page:
        written = write_blocks(frame)
        if frame.tag == "notes":
            notes = ["Notes:", *written] if written else []
        elif read_attribute(frame, "class") == "title" and written:
            blocks.insert(0, f"# {_write_line(written)}")
        else:
            blocks += written
    return "\n\n".join(blocks + notes)


ODT: Final = DocumentFormat(
    "odt",
    "OpenDocument",
    frozenset({".odt", ".ott"}),
    partial(read_opendocument, "text", "an OpenDocument text"),
    None,
    gives_markdown=True,
)
ODP: Final = DocumentFormat(
    "odp",
    "OpenDocument",
    frozenset({".odp"}),
    partial(read_opendocument, "presentation", "an OpenDocument presentation"),
    None,
)
