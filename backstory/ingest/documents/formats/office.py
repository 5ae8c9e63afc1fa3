"""Word documents, presentations, OpenDocument texts and e-books (EPUB), most by way of HTML.

markitdown reads Word in the same way, by mammoth, but brings pandas, onnxruntime and requests, 327 MB together. The
light path of docling (docling-slim with its office formats, 261 MB) imports torch. kreuzberg (98 MB) lost text after a
``<`` and the marks of lists in the documents that were compared. mammoth is pure Python under the BSD licence, 0.2 MB,
and its HTML keeps headings, lists, tables, notes, and insertions as accepted. It reads no file that a document names.
python-pptx (39 MB) writes presentations; to read their texts takes a few elements of XML. EbookLib is under the AGPL.
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from html import escape
from typing import Final
from urllib.parse import unquote
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element
from xml.parsers.expat import ExpatError

from backstory.base.errors import ReadError
from backstory.base.wording import count
from backstory.ingest.documents.formats.html import convert_html, decode_html
from backstory.ingest.documents.formats.package import compose_document, damaged, open_package, parse_xml
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument, read_attribute

_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WRAPPERS: Final = ("fldSimple", "dir", "bdo")
"""Elements around runs of text whose content mammoth does not read."""

_FORMS: Final = {
    "f": "({})", "num": "{}/", "sup": "^{}", "sub": "_{}", "lim": "_{}", "deg": "[{}]", "root": "√{}",
}  # fmt: skip
_SEPARATORS: Final = {"mr": " ", "m": "; ", "eqArr": "; ", "d": ", "}
_GROUPED: Final = ("num", "den", "sup", "sub", "lim", "root")
_ONE: Final = re.compile(r".|[\d.]+|\([^()]*\)")
_STYLES: Final = """\
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
"""

_TEXTS: Final = {"word/document.xml", "word/footnotes.xml", "word/endnotes.xml"}
_BOX: Final = re.compile(r'<input\b[^<>]*\btype="checkbox"[^<>]*>')
_UNREADABLE: Final = (ExpatError, ValueError, LookupError, TypeError, AttributeError, OSError)
"""What mammoth raises for parts that are no XML, or that lack what the format asks for."""
_TITLES: Final = ("title", "ctrTitle")
_FURNITURE: Final = ("dt", "ftr", "sldNum", "sldImg", "hdr")
"""Placeholders that repeat on every slide."""
_MAIN: Final = "ppt/presentation.xml"
_TAGS: Final = {
    "list": "ul", "list-item": "li", "table": "table", "table-row": "tr", "table-cell": "td",
    "covered-table-cell": "td", "tbl": "table", "tr": "tr", "tc": "td",
}  # fmt: skip
_SIGNS: Final = {"s": " ", "tab": "\t", "line-break": "<br>", "br": " "}
_UNSEEN: Final = ("tracked-changes", "table-of-content", "sequence-decls", "annotation", "forms")
_BESIDE: Final = ("note", "frame")
_CODE: Final = re.compile(r"Preformatted|Source|Code", re.IGNORECASE)
_MOST_REPEATED: Final = 1000
_PAGES: Final = ("application/xhtml+xml", "text/html")
_FONTS: Final = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Ways of scrambling fonts, which leave the text readable."""


def read_word(content: bytes, _: str) -> ParsedDocument:
    """Read a Word document since 2007 as one text without pages, which only a printer makes."""
    package = open_package(content, "a Word document (DOCX)", needs_extra=True)
    from mammoth import convert_to_html

    for name in package.parts.keys() & _TEXTS:
        package.parts[name] = _complete_part(parse_xml(package.parts[name], name))
    rewritten = package.rewrite()
    try:
        html: str = convert_to_html(rewritten, style_map=_STYLES, convert_image=lambda _: []).value
    except _UNREADABLE as error:
        raise damaged("its parts do not fit together as those of a Word document") from error
    text, unread = convert_html(_BOX.sub(lambda found: "☑ " if "checked=" in found[0] else "☐ ", html))
    return compose_document(package, [text], notes=[unread])


def _complete_part(root: Element) -> bytes:
    """Return a part of a document with its formulas as text, and what stands in fields as ordinary runs."""
    for element in list(root.iter()):
        namespace, _, name = element.tag.rpartition("}")
        if name in _WRAPPERS and "wordprocessingml" in namespace:
            element.tag = f"{namespace}}}smartTag"
        if name == "r" and (entries := element.findall(".//{*}ddList/{*}listEntry")):
            chosen = element.find(".//{*}ddList/{*}result")  # without it, the first one is
            place = "0" if chosen is None else chosen.get(f"{_WORD}val", "")
            texts = {str(number): entry.get(f"{_WORD}val", "") for number, entry in enumerate(entries)}
            ET.SubElement(element, f"{_WORD}t").text = texts.get(place, "")
    _write_formulas(root, _WORD)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _write_formulas(root: Element, namespace: str = "") -> None:
    """Put a run of text in place of each formula."""
    for element in list(root.iter()):
        for place, child in enumerate(element):
            if child.tag.rpartition("}")[2] in ("oMath", "oMathPara"):
                run = Element(f"{namespace}r")
                ET.SubElement(run, f"{namespace}t", {"xml:space": "preserve"}).text = _write_formula(child)
                run.tail = child.tail
                element[place] = run


def _write_formula(element: Element, above: str = "") -> str:
    """Write a formula on one line: fractions with a slash, exponents after ``^``, indices after ``_``.

    Brackets are around more than one letter or number, since letters beside each other are multiplied.
    """
    name = element.tag.rpartition("}")[2]
    if name == "t":
        return element.text or ""
    if name.endswith("Pr"):
        return ""
    signs = {each.tag.rpartition("}")[2]: "".join(each.attrib.values()) for each in element.iterfind("*/*")}
    parts = filter(None, (_write_formula(part, name) for part in element))
    text = _SEPARATORS.get(name, "").join(parts)
    if name == "nary":
        return f"{signs.get('chr', '∫')}{text}"
    if name == "d":
        return f"{signs.get('begChr', '(')}{text}{signs.get('endChr', ')')}"
    kind = "root" if above == "rad" and name == "e" else name
    if text and kind in _GROUPED and not _ONE.fullmatch(text):
        text = f"({text})"
    return _FORMS.get(kind, "{}").format(text) if text else ""


def read_slides(content: bytes, _: str) -> ParsedDocument:
    """Read a presentation since 2007: each slide is a page, hidden ones too, with its notes below it."""
    package = open_package(content, "a presentation (PPTX)")
    related = package.list_related(_MAIN)
    slides = []
    for entry in package.parse(_MAIN).iterfind("sldIdLst/sldId"):
        name = related.get(read_attribute(entry, "id"), ("", ""))[1]
        notes = dict(package.list_related(name).values()).get("notesSlide", "")
        spoken = _write_powerpoint(package.parse(notes, is_optional=True))
        blocks = [_write_powerpoint(package.parse(name)), f"Notes:\n\n{spoken}" if spoken else ""]
        slides.append("\n\n".join(filter(None, blocks)))
    return compose_document(package, slides, "page")


def _write_powerpoint(slide: Element) -> str:
    """Write a slide: its title as a heading, then its other shapes in the order of the file."""
    title, blocks = "", ""
    for choice in list(slide.iter("AlternateContent")):
        del choice[1:]  # what programs show that do not know the first
    _write_formulas(slide)
    for shape in (each for each in slide.iter() if each.tag in ("sp", "graphicFrame")):
        holder = shape.find("nvSpPr/nvPr/ph")
        kind = None if holder is None else holder.get("type", "body")
        lines = [(part, line) for part in shape.iter("p") if (line := _write_line(part)).strip()]
        if kind in _TITLES:
            title += "".join(f"{line} " for _, line in lines)
        elif kind == "body" and len(lines) > 1:
            depth = 0
            for part, line in lines:
                properties = part.find("pPr")
                level = 1 if properties is None else min(_read_number(properties, "lvl", 0), 8) + 1
                blocks += f"{'<ul>' * (level - depth)}{'</ul>' * (depth - level)}<li>{line}"
                depth = level
            blocks += "</ul>" * depth
        elif kind not in _FURNITURE:
            blocks += _write_blocks(shape)
    return convert_html(f"<h1>{title}</h1>{blocks}")[0]


def _read_open(kind: str, content: bytes, _: str) -> ParsedDocument:
    """Read a text as one text without pages, or a presentation whose slides are pages with their notes below them."""
    package = open_package(content, f"an OpenDocument {kind}")
    body = package.parse("content.xml").find(f"body/{kind}")
    if body is None:
        raise damaged(f"it holds no {kind}")
    objects = sum(name.endswith("/content.xml") for name in package.names)
    lack = f"{count(objects, 'formula or chart was', 'formulas or charts were')} not read; export it as PDF"
    notes = [lack] if objects else []
    if kind == "text":
        text, unread = convert_html(_write_blocks(body).replace("</pre><pre>", "\n"))
        return compose_document(package, [text], notes=[unread, *notes])
    return compose_document(package, [_write_slide(page) for page in body.iter("page")], "page", notes=notes)


def _write_slide(page: Element) -> str:
    title, blocks, notes = "", "", ""
    for frame in page:
        written = _write_blocks(frame)
        if frame.tag == "notes":
            notes = written and f"<p>Notes:</p>{written}"
        elif read_attribute(frame, "class") == "title":
            title += "".join(f"{_write_line(part)} " for part in frame.iter("p"))
        else:
            blocks += written
    return convert_html(f"<h1>{title}</h1>{blocks}{notes}")[0]


def _write_blocks(parent: Element) -> str:
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
            blocks += [_write_blocks(box) for box in element.iter("text-box")]
            notes = (" ".join(map(_write_line, note)) for note in element.iter("note-body"))
            blocks += [f"<p>Note: {note}</p>" for note in notes]
        elif element.tag not in _UNSEEN:
            tag, inner = _TAGS.get(element.tag, "div"), _write_blocks(element)
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


def _read_number(element: Element, name: str, default: int = 1) -> int:
    """Return a number that an attribute states."""
    stated = read_attribute(element, name)
    return min(int(stated), _MOST_REPEATED) if stated.isdecimal() else default


def read_book(content: bytes, _: str) -> ParsedDocument:
    """Read an e-book as one text in the order of reading. It has no pages, which depend on a screen."""
    package = open_package(content, "an e-book (EPUB)")
    methods = package.parse("META-INF/encryption.xml", is_optional=True).iter("EncryptionMethod")
    if any(method.get("Algorithm") not in _FONTS for method in methods):
        problem = "digital rights management protects it; get a copy without, or remove the file"
        raise ReadError(problem, code="protected")
    entry = package.parse("META-INF/container.xml").find(".//rootfile")
    main = "" if entry is None else entry.get("full-path", "")
    root = package.parse(main)
    names = _list_chapters(root, posixpath.dirname(main))
    missing = len([name for name in names if name not in package.parts])
    chapters = [convert_html(decode_html(package.parts.get(name, b""))) for name in names]
    lack = f"{missing} of its chapters are missing in the file; get a whole copy" if missing else None
    notes = dict.fromkeys([lack, *(unread for _, unread in chapters)])
    text = "\n\n".join(text for text, _ in chapters if text)
    return compose_document(package, [text], properties=root.find("metadata"), notes=notes)


def _list_chapters(root: Element, folder: str) -> list[str]:
    """List the names of the pages in the order of reading, without the table of contents."""
    pages = {
        item.get("id", ""): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in root.iterfind("manifest/item")
        if item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split()
    }
    spine = (entry.get("idref", "") for entry in root.iterfind("spine/itemref"))
    return [pages[name] for name in spine if name in pages]


DOCX: Final = DocumentFormat(
    "docx", "Word", frozenset({".docx", ".docm", ".dotx"}), read_word, None, gives_markdown=True
)
ODT: Final = DocumentFormat(
    "odt", "OpenDocument", frozenset({".odt", ".ott"}), partial(_read_open, "text"), None, gives_markdown=True
)
ODP: Final = DocumentFormat(
    "odp", "OpenDocument", frozenset({".odp"}), partial(_read_open, "presentation"), None
)
EPUB: Final = DocumentFormat("epub", "EPUB", frozenset({".epub"}), read_book, None, gives_markdown=True)
PPTX: Final = DocumentFormat("pptx", "PowerPoint", frozenset({".pptx", ".pptm", ".ppsx"}), read_slides, None)
