"""Presentations of PowerPoint.

python-pptx, by which markitdown and docling read, brings Pillow, lxml and a writer of spreadsheets (39 MB) to write
presentations. Reading takes their texts, lists, tables and notes, a few elements of XML.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from backstory.base.wording import count
from backstory.ingest.documents.formats.markup import keep_line
from backstory.ingest.documents.formats.office.package import (
    Package,
    compose_document,
    damaged,
    open_package,
    write_table,
)
from backstory.ingest.documents.page_texts import PAGE_BREAK, find_starts
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_TITLES: Final = ("title", "ctrTitle")
_FURNITURE: Final = ("dt", "ftr", "sldNum", "sldImg", "hdr")
"""Placeholders that repeat on every slide."""
_MAIN: Final = "ppt/presentation.xml"


def read_slides(content: bytes, _: str) -> ParsedDocument:
    """Read a presentation since 2007: each slide is a page, hidden ones too, with its notes below it."""
    package = open_package(content, "a presentation (PPTX)")
    related = package.list_related(_MAIN)
    slides = []
    for entry in package.parse(_MAIN).iterfind(f"{_P}sldIdLst/{_P}sldId"):
        relation = entry.get(f"{_R}id", "")
        if relation not in related:
            raise damaged("it names a slide that it does not hold")
        slides.append(_read_slide(package, related[relation][1]))
    properties, images = package.parse_optional("docProps/core.xml"), package.count_images("ppt/media/")
    charts = sum(name.startswith("ppt/charts/chart") for name in package.names)
    notes = [
        f"{count(charts, 'chart was', 'charts were')} not read; write the values as a table"
        if charts
        else None
    ]
    return compose_document(
        PAGE_BREAK.join(slides), properties, images, starts=find_starts(slides), notes=notes
    )


def _read_slide(package: Package, name: str) -> str:
    related = dict(package.list_related(name).values())
    notes = package.parse_optional(related.get("notesSlide", ""))
    text = _write_slide(package.parse(name))
    spoken = "" if notes is None else _write_slide(notes)
    return "\n\n".join(filter(None, [text, f"Notes:\n\n{spoken}" if spoken else ""]))


def _write_slide(slide: Element) -> str:
    """Write a slide as Markdown: its title as a heading, then its other shapes in the order of the file."""
    titles: list[str] = []
    blocks: list[str] = []
    for shape in _list_shapes(slide.find(f"{_P}cSld/{_P}spTree")):
        holder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        kind = None if holder is None else holder.get("type", "body")
        if kind in _FURNITURE:
            continue
        if kind in _TITLES:
            titles.append(" ".join(text for _, text in _list_paragraphs(shape)))
        else:
            blocks += _write_shape(shape, is_list=kind == "body")
    title = " ".join(" ".join(titles).split())
    return "\n\n".join(filter(None, [f"# {title}" if title else "", *blocks]))


def _list_shapes(tree: Element | None) -> Iterator[Element]:
    for shape in tree if tree is not None else ():
        if shape.tag == f"{_P}grpSp":
            yield from _list_shapes(shape)
        elif shape.tag == "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent":
            yield from _list_shapes(next(iter(shape), None))
        else:
            yield shape


def _write_shape(shape: Element, *, is_list: bool) -> Iterator[str]:
    table = shape.find(f".//{_A}tbl")
    if table is not None:
        yield write_table(
            [[" ".join(text for _, text in _list_paragraphs(cell)) for cell in row.iter(f"{_A}tc")]
             for row in table.iter(f"{_A}tr")]
        )  # fmt: skip
    else:
        paragraphs = list(_list_paragraphs(shape))
        if is_list and len(paragraphs) > 1:
            yield "\n".join(f"{'  ' * level}- {text}" for level, text in paragraphs)
        else:
            yield "\n\n".join(keep_line(text) for _, text in paragraphs)


def _list_paragraphs(shape: Element) -> Iterator[tuple[int, str]]:
    """List level and text of the paragraphs that are not blank."""
    for paragraph in shape.iter(f"{_A}p"):
        properties = paragraph.find(f"{_A}pPr")
        level = "0" if properties is None else properties.get("lvl", "0")
        pieces = (
            " " if node.tag == f"{_A}br" else (node.text or "")
            for node in paragraph.iter()
            if node.tag in (f"{_A}t", f"{_A}br")
        )
        text = " ".join("".join(pieces).split())
        if text:
            yield int(level) if level.isdecimal() else 0, text


PPTX: Final = DocumentFormat("pptx", "PowerPoint", frozenset({".pptx", ".pptm", ".ppsx"}), read_slides, None)
