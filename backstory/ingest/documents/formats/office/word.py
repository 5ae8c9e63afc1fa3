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
    parse_xml,
    require_office,
)
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WRAPPERS: Final = ("fldSimple", "dir", "bdo")
"""Elements around runs of text whose content mammoth does not read."""

_BETWEEN: Final = {"sup": "^", "sub": "_", "lim": "_"}
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
    return compose_document(package, [text], notes=filter(None, [unread]))


def _convert(package: Package) -> str:
    """Convert a document to HTML; raise ``ReadError`` if one of its parts is damaged."""
    from mammoth import convert_to_html

    for name in _TEXTS:
        if any(mark in package.parts.get(name, b"") for mark in _MARKS):
            package.parts[name] = _complete_part(parse_xml(package.parts[name], name))
    content = package.rewrite()
    try:
        converted: str = convert_to_html(content, style_map=_STYLES, convert_image=lambda _: []).value
    except _UNREADABLE as error:
        for name in package.parts:
            if name.endswith((".xml", ".rels")):
                package.parse(name)  # a part that is no XML is named
        raise damaged("its parts do not fit together as those of a Word document") from error
    return _BOX.sub(lambda found: "☑ " if "checked=" in found[0] else "☐ ", converted)


def _complete_part(root: Element) -> bytes:
    """Return a part of a document with its formulas as text, and what stands in fields as ordinary runs."""
    for element in list(root.iter()):
        namespace, _, name = element.tag.rpartition("}")
        if name in _WRAPPERS and "wordprocessingml" in namespace:
            element.tag = f"{namespace}}}smartTag"
        for place, child in enumerate(element):
            if child.tag.rpartition("}")[2] in ("oMath", "oMathPara"):
                run = Element(f"{_WORD}r")
                ET.SubElement(run, f"{_WORD}t", {"xml:space": "preserve"}).text = _write_formula(child)
                run.tail = child.tail
                element[place] = run
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _write_formula(element: Element) -> str:
    """Write a formula on one line: fractions with a slash, exponents after ``^``, indices after ``_``."""
    name = element.tag.rpartition("}")[2]
    if name == "t":
        return element.text or ""
    if name == "naryPr":  # the sign of a sum or an integral
        return next((value for part in element.iterfind("{*}chr") for value in part.attrib.values()), "∫")
    if name.endswith("Pr"):
        return ""
    parts = [(part.tag.rpartition("}")[2], text) for part in element if (text := _write_formula(part))]
    if name == "f":
        return "/".join(_group(text) for _, text in parts)
    if name == "rad":
        texts = {"deg": "", "e": ""} | dict(parts)
        degree = f"[{texts['deg']}]" if texts["deg"] else ""
        return f"√{degree}{_group(texts['e'])}"
    written = "".join(f"({text})" if kind == "f" and len(parts) > 1 else text for kind, text in parts)
    if name == "d":
        return f"({written})"
    return _BETWEEN[name] + _group(written) if name in _BETWEEN and written else written


def _group(text: str) -> str:
    """Put brackets around more than one letter or number, since letters beside each other are multiplied."""
    is_one = len(text) == 1 or text.replace(".", "").isdecimal() or _IN_BRACKETS.fullmatch(text)
    return text if is_one else f"({text})"


DOCX: Final = DocumentFormat(
    "docx", "Word", frozenset({".docx", ".docm", ".dotx"}), read_word, None, gives_markdown=True
)
