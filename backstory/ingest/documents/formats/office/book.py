"""E-books (EPUB).

EbookLib is under the AGPL. A book is web pages and a list of their order, which are read here and by html-to-markdown.
"""

from __future__ import annotations

import posixpath
from typing import Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.html import convert_html, decode_html
from backstory.ingest.documents.formats.office.package import compose_document, open_package
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_PAGES: Final = ("application/xhtml+xml", "text/html")
_FONTS: Final = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Ways of scrambling fonts, which leave the text readable."""


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
    chapters: list[str] = []
    notes: list[str] = []
    names = _list_chapters(root, posixpath.dirname(main))
    if missing := sum(name not in package.parts for name in names):
        notes.append(f"{missing} of its chapters are missing in the file; get a whole copy")
    for name in names:
        page = package.parts.get(name, b"")
        text, unread = convert_html(decode_html(page), is_xml=True)
        chapters += filter(None, [text])
        notes += filter(None, [unread])
    return compose_document(
        package, ["\n\n".join(chapters)], properties=root.find("metadata"), notes=dict.fromkeys(notes)
    )


def _list_chapters(root: Element, folder: str) -> list[str]:
    """List the names of the pages in the order of reading, without the table of contents."""
    pages = {
        item.get("id", ""): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in root.iterfind("manifest/item")
        if item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split()
    }
    spine = (entry.get("idref", "") for entry in root.iterfind("spine/itemref"))
    return [pages[name] for name in spine if name in pages]


EPUB: Final = DocumentFormat("epub", "EPUB", frozenset({".epub"}), read_book, None, gives_markdown=True)
