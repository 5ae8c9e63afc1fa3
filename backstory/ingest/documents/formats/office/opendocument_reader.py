"""OpenDocument texts and presentations."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.formats.office.composition import compose_document
from backstory.ingest.documents.formats.office.opendocument_text import (
    DRAW,
    OFFICE,
    PRESENTATION,
    write_blocks,
)
from backstory.ingest.documents.formats.office.package import Package, damaged, open_package
from backstory.ingest.documents.formats.office.slide_reader import PAGE_BREAK, find_starts
from backstory.ingest.documents.parsed_document import ParsedDocument

_CONTENT: Final = "content.xml"
_BLOCK_BREAK: Final = "\n\n"


class OpenDocumentTextReader:
    """Reads texts (ODT) as one text without pages, which only a printer makes."""

    format = "odt"
    suffixes = frozenset({".odt", ".ott"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`. No file is a draft."""
        package = open_package(content, uri, "an OpenDocument text")
        text = _BLOCK_BREAK.join(write_blocks(_find_body(package, "text")))
        return _compose(package, text, ())


class OpenDocumentSlidesReader:
    """Reads presentations (ODP): each slide is a page, with its notes below it."""

    format = "odp"
    suffixes = frozenset({".odp"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`. No file is a draft."""
        package = open_package(content, uri, "an OpenDocument presentation")
        slides = [_write_slide(page) for page in _find_body(package, "presentation").iter(f"{DRAW}page")]
        return _compose(package, PAGE_BREAK.join(slides), find_starts(slides))


def _find_body(package: Package, kind: str) -> Element:
    body = package.parse(_CONTENT).find(f"{OFFICE}body/{OFFICE}{kind}")
    if body is None:
        raise damaged(package.uri, f"it holds no {kind}")
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
    return compose_document(package.uri, text, properties, package.count_images("Pictures/"), starts=starts)
