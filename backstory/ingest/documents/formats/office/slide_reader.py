"""Presentations of PowerPoint.

python-pptx, by which markitdown and docling read, brings Pillow, lxml and a writer of spreadsheets (39 MB) to write
presentations. Reading takes their texts, lists, tables, notes and the values of charts, a few elements of XML.
"""

from __future__ import annotations

import posixpath
from typing import Final
from xml.etree.ElementTree import Element

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.office.composition import describe_images, mention_images
from backstory.ingest.documents.formats.office.drawing_text import write_slide
from backstory.ingest.documents.formats.office.package import Package, damaged, open_package
from backstory.ingest.documents.formats.office.properties import read_properties
from backstory.ingest.documents.parsed_document import ParsedDocument

PAGE_BREAK: Final = "\n\n"
"""What stands between two slides."""

_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_MAIN: Final = "ppt/presentation.xml"


class SlideReader:
    """Reads presentations since 2007: each slide is a page, hidden ones too, with its notes below it."""

    format = "pptx"
    suffixes = frozenset({".pptx", ".pptm", ".ppsx"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`. No file is a draft."""
        package = open_package(content, uri, "a presentation (PPTX)")
        related = _list_related(package, _MAIN)
        slides = [
            _read_slide(package, _target(related, entry.get(f"{_R}id", ""), uri))
            for entry in package.parse(_MAIN).iterfind(f"{_P}sldIdLst/{_P}sldId")
        ]
        images = package.count_images("ppt/media/")
        text = PAGE_BREAK.join(slides)
        if not text.strip():
            raise ReadError(
                f"{uri}: there is no text on its slides{mention_images(images)}", code="empty_document"
            )
        properties = read_properties(package.parse_optional("docProps/core.xml"))
        return ParsedDocument(
            text=text,
            title=_choose_title(properties.title, slides),
            published_at=properties.published_at,
            updated_at=properties.change.moment,
            updated_by=properties.change.origin,
            tags=properties.tags,
            page_starts=find_starts(slides),
            chunker="page",
            unread=describe_images(text, images),
        )


def find_starts(pages: list[str]) -> tuple[int, ...]:
    """Return where each page begins in the pages joined by :data:`PAGE_BREAK`."""
    starts, position = [], 0
    for page in pages:
        starts.append(position)
        position += len(page) + len(PAGE_BREAK)
    return tuple(starts)


def _choose_title(stated: str | None, slides: list[str]) -> str | None:
    """Return the stated title, unless it is the one that PowerPoint writes by itself, else that of the first slide."""
    if stated and stated.casefold() != "powerpoint presentation":
        return stated
    headings = (slide.partition("\n")[0] for slide in slides if slide.startswith("# "))
    return next((heading.removeprefix("# ") for heading in headings), None)


def _read_slide(package: Package, name: str) -> str:
    charts: dict[str, Element] = {}
    notes = None
    for relation, (kind, target) in _list_related(package, name).items():
        if kind == "chart" and target in package.parts:
            charts[relation] = package.parse(target)
        elif kind == "notesSlide" and target in package.parts:
            notes = package.parse(target)
    text = write_slide(package.parse(name), charts)
    spoken = "" if notes is None else write_slide(notes, {})
    return "\n\n".join(filter(None, [text, f"Notes:\n\n{spoken}" if spoken else ""]))


def _list_related(package: Package, name: str) -> dict[str, tuple[str, str]]:
    """List kind and name of the parts that a part names, by the id of the relation."""
    folder, file = posixpath.split(name)
    root = package.parse_optional(f"{folder}/_rels/{file}.rels")
    found = {}
    for relation in root if root is not None else ():
        target = relation.get("Target", "")
        path = (
            target.lstrip("/")
            if target.startswith("/")
            else posixpath.normpath(posixpath.join(folder, target))
        )
        found[relation.get("Id", "")] = (relation.get("Type", "").rpartition("/")[2], path)
    return found


def _target(related: dict[str, tuple[str, str]], relation: str, uri: str) -> str:
    if relation not in related:
        raise damaged(uri, "it names a slide that it does not hold")
    return related[relation][1]
