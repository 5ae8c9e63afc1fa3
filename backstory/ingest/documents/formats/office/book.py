"""E-books (EPUB).

EbookLib is under the AGPL. A book is web pages and a list of their order, which are read here and by html-to-markdown.
"""

from __future__ import annotations

import posixpath
from typing import Final
from urllib.parse import unquote

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.html import convert_html, find_html_encoding
from backstory.ingest.documents.formats.office.package import Package, compose_document, damaged, open_package
from backstory.ingest.documents.formats.texts import decode_text
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

_CONTAINER: Final = "META-INF/container.xml"
_RIGHTS: Final = "META-INF/encryption.xml"
_OCF: Final = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF: Final = "{http://www.idpf.org/2007/opf}"
_PAGES: Final = ("application/xhtml+xml", "text/html")
_FONTS: Final = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
"""Ways of scrambling fonts, which leave the text readable."""


def read_book(content: bytes, _: str) -> ParsedDocument:
    """Read an e-book as one text in the order of reading. It has no pages, which depend on a screen."""
    package = open_package(content, "an e-book (EPUB)")
    _refuse_rights(package)
    main = _find_main(package)
    chapters, missing, is_cut = [], 0, False
    for name in _list_chapters(package, main):
        if name not in package.parts:
            missing += 1
            continue
        page = package.parts[name]
        text, unread = convert_html(decode_text(page, find_html_encoding(page)), is_xml=True)
        chapters.append(text)
        is_cut = is_cut or unread is not None
    text = "\n\n".join(filter(None, chapters))
    images = sum(name.lower().endswith((".jpg", ".jpeg", ".png", ".gif", ".webp")) for name in package.names)
    notes = (
        f"{missing} of its chapters are missing in the file; get a whole copy" if missing else None,
        "parts nested deeper than 1,024 tags were not read" if is_cut else None,
    )
    properties = package.parse(main).find(f"{_OPF}metadata")
    return compose_document(text, properties, images, notes=notes)


def _refuse_rights(package: Package) -> None:
    """Raise an error if chapters are encrypted, as in books with digital rights management."""
    rights = package.parse_optional(_RIGHTS)
    methods = () if rights is None else rights.iter("{http://www.w3.org/2001/04/xmlenc#}EncryptionMethod")
    if any(method.get("Algorithm", "").encode() not in _FONTS for method in methods):
        problem = "digital rights management protects it; get a copy without, or remove the file"
        raise ReadError(problem, code="protected")


def _find_main(package: Package) -> str:
    """Return the name of the part that lists the others."""
    entry = package.parse(_CONTAINER).find(f".//{_OCF}rootfile")
    name = "" if entry is None else entry.get("full-path", "")
    if name not in package.parts:
        raise damaged("it does not list its pages")
    return name


def _list_chapters(package: Package, main: str) -> list[str]:
    """List the names of the pages in the order of reading, without the table of contents."""
    root, folder = package.parse(main), posixpath.dirname(main)
    pages = {
        item.get("id", ""): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in root.iterfind(f"{_OPF}manifest/{_OPF}item")
        if item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split()
    }
    spine = (entry.get("idref", "") for entry in root.iterfind(f"{_OPF}spine/{_OPF}itemref"))
    return [pages[name] for name in spine if name in pages]


EPUB: Final = DocumentFormat("epub", "EPUB", frozenset({".epub"}), read_book, None, gives_markdown=True)
