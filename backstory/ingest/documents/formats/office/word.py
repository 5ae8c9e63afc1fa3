"""Word documents, by mammoth and html-to-markdown.

markitdown reads them in the same way, by mammoth, but brings pandas, onnxruntime and requests, 327 MB together. The
light path of docling (docling-slim with its office formats, 261 MB) imports torch. kreuzberg (98 MB) lost text after a
``<`` and the marks of lists in the documents that were compared. mammoth is pure Python under the BSD licence, 0.2 MB,
and its HTML keeps headings, lists, tables, notes, and insertions as accepted. It reads no file that a document names.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element
from xml.parsers.expat import ExpatError

from backstory.ingest.documents.formats.html import convert_html
from backstory.ingest.documents.formats.office.package import (
    Package,
    compose_document,
    damaged,
    open_package,
    require_office,
)
from backstory.ingest.documents.formats.properties import local_name
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WRAPPERS: Final = ("fldSimple", "dir", "bdo")
"""Elements around runs of text whose content mammoth does not read."""

_BETWEEN: Final = {"sup": "^", "sub": "_", "lim": "_"}
_FACTOR_END: Final = re.compile(r"[\w)]\Z")
_FACTOR_START: Final = re.compile(r"[\w(√^_]")
"""What a fraction would run into without brackets around it."""
_IN_BRACKETS: Final = re.compile(r"\([^()]*\)")
_MARKS: Final = (b"oMath", b"fldSimple", b":bdo", b":dir")
_STYLES: Final = """\
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
"""

_TEXTS: Final = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
_BOX: Final = re.compile(r'<input\b[^<>]*\btype="checkbox"[^<>]*>')
_UNREADABLE: Final = (ExpatError, ValueError, LookupError, TypeError, AttributeError, OSError)
"""What mammoth raises for parts that are no XML, or that lack what the format asks for."""


def read_word(content: bytes, _: str) -> ParsedDocument:
    """Read a Word document since 2007 as one text without pages, which only a printer makes."""
    package = open_package(content, "a Word document (DOCX)")
    require_office("a Word document")
    if not any(name.startswith("word/") for name in package.parts):
        raise damaged("it holds no Word document")
    text, unread = convert_html(_convert(package))
    properties = package.parse_optional("docProps/core.xml")
    images = package.count_images("word/media/")
    return compose_document(text, properties, images, notes=[unread])


def _convert(package: Package) -> str:
    """Convert a document to HTML; raise ``ReadError`` if one of its parts is damaged."""
    from mammoth import convert_to_html

    for name in _TEXTS:
        if (root := package.parse_optional(name)) is not None:
            package.parts[name] = _complete_part(package.parts[name], root)
    content = package.rewrite()
    try:
        converted: str = convert_to_html(content, style_map=_STYLES, convert_image=lambda _: []).value
    except _UNREADABLE as error:
        for name in package.parts:
            if name.endswith((".xml", ".rels")):
                package.parse(name)  # a part that is no XML is named
        raise damaged("its parts do not fit together as those of a Word document") from error
    return _BOX.sub(lambda found: "☑ " if "checked=" in found[0] else "☐ ", converted)


def _complete_part(content: bytes, root: Element) -> bytes:
    """Return a part of a document with its formulas as text, and what stands in fields as ordinary runs."""
    if not any(mark in content for mark in _MARKS):
        return content
    for element in list(root.iter()):
        namespace, _, name = str(element.tag).rpartition("}")
        if name in _WRAPPERS and "wordprocessingml" in namespace:
            element.tag = f"{namespace}}}smartTag"
        for place, child in enumerate(element):
            if local_name(child.tag) in ("oMath", "oMathPara"):
                element[place] = _make_run(_write_formula(child), child.tail)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _make_run(text: str, tail: str | None) -> Element:
    run = Element(f"{_WORD}r")
    ET.SubElement(run, f"{_WORD}t", {"xml:space": "preserve"}).text = text
    run.tail = tail
    return run


def _write_formula(element: Element) -> str:
    """Write a formula on one line: fractions with a slash, exponents after ``^``, indices after ``_``."""
    name = local_name(element.tag)
    if name == "t":
        return element.text or ""
    if name.endswith("Pr"):
        return _write_operator(element)
    if name == "f":
        return "/".join(
            _group(_write_formula(part)) for part in element if not local_name(part.tag).endswith("Pr")
        )
    parts = [(local_name(part.tag), _write_formula(part)) for part in element]
    if name == "rad":
        degree, inner = ("".join(text for kind, text in parts if kind == wanted) for wanted in ("deg", "e"))
        return f"√{f'[{degree}]' if degree else ''}{_group(inner)}"
    written = ""
    for place, (kind, text) in enumerate(parts):
        after = "".join(following for _, following in parts[place + 1 :])
        is_factor = kind == "f" and (_FACTOR_END.search(written) or _FACTOR_START.match(after))
        written += f"({text})" if is_factor else text
    if name == "d":
        return f"({written})"
    if name in _BETWEEN:
        return _BETWEEN[name] + _group(written) if written else ""
    return written


def _write_operator(properties: Element) -> str:
    """Return the sign of a sum or an integral, which stands in its properties."""
    if local_name(properties.tag) != "naryPr":
        return ""
    signs = (value for part in properties if local_name(part.tag) == "chr" for value in part.attrib.values())
    return next(signs, "∫")


def _group(text: str) -> str:
    """Put brackets around more than one letter or number, since letters beside each other are multiplied."""
    is_one = len(text) == 1 or text.replace(".", "").isdecimal() or _IN_BRACKETS.fullmatch(text)
    return text if is_one else f"({text})"


DOCX: Final = DocumentFormat(
    "docx", "Word", frozenset({".docx", ".docm", ".dotx"}), read_word, None, gives_markdown=True
)
