"""Word documents, by mammoth and html-to-markdown.

markitdown reads them in the same way, by mammoth, but brings pandas, onnxruntime and requests, 327 MB together. The
light path of docling (docling-slim with its office formats, 261 MB) imports torch. kreuzberg (98 MB) lost text after a
``<`` and the marks of lists in the documents that were compared. mammoth is pure Python under the BSD licence, 0.2 MB,
and its HTML keeps headings, lists, tables, notes, and insertions as accepted. It reads no file that a document names.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers.expat import ExpatError

from backstory.ingest.documents.formats.html_head import convert_html
from backstory.ingest.documents.formats.office.composition import compose_document
from backstory.ingest.documents.formats.office.package import Package, damaged, open_package, require_office
from backstory.ingest.documents.formats.office.word_parts import complete_part
from backstory.ingest.documents.parsed_document import ParsedDocument

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


class WordReader:
    """Reads Word documents since 2007, as one text without pages, which only a printer makes."""

    format = "docx"
    suffixes = frozenset({".docx", ".docm", ".dotx"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`. No file is a draft."""
        package = open_package(content, uri, "a Word document (DOCX)")
        require_office(uri, "a Word document")
        if not any(name.startswith("word/") for name in package.parts):
            raise damaged(uri, "it holds no Word document")
        text, unread = convert_html(_convert(package))
        properties = package.parse_optional("docProps/core.xml")
        images = package.count_images("word/media/")
        return compose_document(uri, text, properties, images, notes=[unread])


def _convert(package: Package) -> str:
    """Convert a document to HTML.

    It raises ``ReadError`` if one of its parts is damaged.
    """
    from mammoth import convert_to_html

    for name in _TEXTS:
        if (root := package.parse_optional(name)) is not None:
            package.parts[name] = complete_part(package.parts[name], root)
    content = package.rewrite()
    try:
        converted: str = convert_to_html(content, style_map=_STYLES, convert_image=lambda _: []).value
    except _UNREADABLE as error:
        for name in package.parts:
            if name.endswith((".xml", ".rels")):
                package.parse(name)  # a part that is no XML is named
        raise damaged(package.uri, "its parts do not fit together as those of a Word document") from error
    return _BOX.sub(lambda found: "☑ " if "checked=" in found[0] else "☐ ", converted)
