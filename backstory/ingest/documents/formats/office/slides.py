"""Presentations of PowerPoint.

python-pptx, by which markitdown and docling read, brings Pillow, lxml and a writer of spreadsheets (39 MB) to write
presentations. Reading takes their texts, lists, tables and notes, a few elements of XML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.formats.html import convert_html
from backstory.ingest.documents.formats.office.package import compose_document, damaged, open_package
from backstory.ingest.documents.formats.texts import keep_line
from backstory.ingest.documents.metadata import read_attribute
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_TITLES: Final = ("title", "ctrTitle")
_FURNITURE: Final = ("dt", "ftr", "sldNum", "sldImg", "hdr")
"""Placeholders that repeat on every slide."""
_MAIN: Final = "ppt/presentation.xml"


def read_slides(content: bytes, _: str) -> ParsedDocument:
    """Read a presentation since 2007: each slide is a page, hidden ones too, with its notes below it."""
    package = open_package(content, "a presentation (PPTX)")
    related = package.list_related(_MAIN)
    slides = []
    for entry in package.parse(_MAIN).iterfind("sldIdLst/sldId"):
        relation = read_attribute(entry, "id")
        if relation not in related:
            raise damaged("it names a slide that it does not hold")
        name = related[relation][1]
        notes = dict(package.list_related(name).values()).get("notesSlide", "")
        spoken = _write_slide(package.parse(notes, is_optional=True))
        blocks = [_write_slide(package.parse(name)), f"Notes:\n\n{spoken}" if spoken else ""]
        slides.append("\n\n".join(filter(None, blocks)))
    return compose_document(package, slides, "page")


def _write_slide(slide: Element) -> str:
    """Write a slide as Markdown: its title as a heading, then its other shapes in the order of the file."""
    titles: list[str] = []
    blocks: list[str] = []
    for shape in _list_shapes(slide.iterfind("cSld/spTree/*")):
        holder = shape.find("nvSpPr/nvPr/ph")
        kind = None if holder is None else holder.get("type", "body")
        if kind in _FURNITURE:
            continue
        paragraphs = list(_list_paragraphs(shape))
        if kind in _TITLES:
            titles += [text for _, text in paragraphs]
        elif (table := shape.find(".//tbl")) is not None:
            rows = ("".join(map(_write_cell, row.iter("tc"))) for row in table.iter("tr"))
            blocks.append(convert_html(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")[0])
        elif kind == "body" and len(paragraphs) > 1:
            blocks.append("\n".join(f"{'  ' * level}- {text}" for level, text in paragraphs))
        else:
            blocks += [keep_line(text) for _, text in paragraphs]
    return "\n\n".join(filter(None, [f"# {' '.join(titles)}" if titles else "", *blocks]))


def _list_shapes(shapes: Iterable[Element]) -> Iterator[Element]:
    for shape in shapes:
        if shape.tag == "grpSp":
            yield from _list_shapes(shape)
        elif shape.tag == "AlternateContent":
            yield from _list_shapes(each for choice in shape[:1] for each in choice)
        else:
            yield shape


def _write_cell(cell: Element) -> str:
    return f"<td>{escape(' '.join(text for _, text in _list_paragraphs(cell)))}</td>"


def _list_paragraphs(shape: Element) -> Iterator[tuple[int, str]]:
    """List level and text of the paragraphs that are not blank."""
    for paragraph in shape.iter("p"):
        level = next((part.get("lvl", "0") for part in paragraph.iterfind("pPr")), "0")
        pieces = (
            " " if node.tag == "br" else node.text or ""
            for node in paragraph.iter()
            if node.tag in ("t", "br")
        )
        if text := " ".join("".join(pieces).split()):
            yield int(level) if level.isdecimal() else 0, text


PPTX: Final = DocumentFormat("pptx", "PowerPoint", frozenset({".pptx", ".pptm", ".ppsx"}), read_slides, None)
