"""OpenDocument texts and presentations, by way of HTML."""

from __future__ import annotations

import re
from functools import partial
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.formats.html import convert_html
from backstory.ingest.documents.formats.office.package import compose_document, damaged, open_package
from backstory.ingest.documents.formats.properties import read_attribute
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_TAGS: Final = {
    "list": "ul", "list-item": "li", "table": "table", "table-row": "tr", "table-cell": "td",
    "covered-table-cell": "td",
}  # fmt: skip
_SIGNS: Final = {"s": " ", "tab": "\t", "line-break": "<br>"}
_UNSEEN: Final = ("tracked-changes", "table-of-content", "sequence-decls", "annotation", "forms")
_BESIDE: Final = ("note", "frame")
_CODE: Final = re.compile(r"Preformatted|Source|Code", re.IGNORECASE)
_MOST_REPEATED: Final = 1000


def read_opendocument(kind: str, title: str, content: bytes, _: str) -> ParsedDocument:
    """Read a text as one text without pages, or a presentation whose slides are pages with their notes below them."""
    package = open_package(content, title)
    body = package.parse("content.xml").find(f"body/{kind}")
    if body is None:
        raise damaged(f"it holds no {kind}")
    if kind == "text":
        text, unread = convert_html(write_blocks(body).replace("</pre><pre>", "\n"))
        return compose_document(package, [text], notes=filter(None, [unread]))
    return compose_document(package, [_write_slide(page) for page in body.iter("page")], "page")


def _write_slide(page: Element) -> str:
    title, blocks, notes = "", "", ""
    for frame in page:
        written = write_blocks(frame)
        if frame.tag == "notes":
            notes = written and f"<p>Notes:</p>{written}"
        elif read_attribute(frame, "class") == "title":
            title += "".join(f"{_write_line(part)} " for part in frame.iter("p"))
        else:
            blocks += written
    return convert_html(f"<h1>{title}</h1>{blocks}{notes}")[0]


def write_blocks(parent: Element) -> str:
    """Write the paragraphs, headings, lists and tables of an element as HTML, in order."""
    blocks: list[str] = []
    for element in parent:
        if element.tag in ("p", "h"):
            tag = "span" if parent.tag == "list-item" and not blocks else "p"
            if element.tag == "h":
                tag = f"h{min(max(_read_number(element, 'outline-level'), 1), 6)}"
            elif _CODE.match(read_attribute(element, "style-name")):
                tag = "pre"
            blocks.append(f"<{tag}>{_write_line(element)}</{tag}>")
            # What is beside its text stands below it.
            blocks += [write_blocks(box) for box in element.iter("text-box")]
            notes = (" ".join(map(_write_line, note)) for note in element.iter("note-body"))
            blocks += [f"<p>Note: {note}</p>" for note in notes]
        elif element.tag not in _UNSEEN:
            tag, inner = _TAGS.get(element.tag, "div"), write_blocks(element)
            blocks.append(f"<{tag}>{inner}</{tag}>" * _read_number(element, "number-columns-repeated"))
    return "".join(blocks)


def _write_line(paragraph: Element) -> str:
    """Write the text of a paragraph without its notes and boxes."""
    pieces = [escape((paragraph.text or "").replace("\n", " "))]
    for child in paragraph:
        if child.tag in _SIGNS:
            pieces.append(_SIGNS[child.tag] * _read_number(child, "c"))
        elif child.tag not in (*_UNSEEN, *_BESIDE):
            pieces.append(_write_line(child))
        pieces.append(escape((child.tail or "").replace("\n", " ")))
    return "".join(pieces)


def _read_number(element: Element, name: str) -> int:
    """Return a number that an attribute states, 1 without."""
    stated = read_attribute(element, name, "1")
    return min(int(stated), _MOST_REPEATED) if stated.isdecimal() else 1


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
