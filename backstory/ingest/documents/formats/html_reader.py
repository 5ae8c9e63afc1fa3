"""Web pages."""

from __future__ import annotations

import re
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.html_head import HtmlHead, convert_html, find_html_encoding
from backstory.ingest.documents.formats.text_decoding import decode_text
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.chunking.outline import outline_markdown

_XHTML: Final = re.compile(r"\s*<\?xml\b|.{0,2000}<html[^>]*\sxmlns\s*=", re.IGNORECASE | re.DOTALL)

_BROKEN: Final = (
    "a broken declaration (`<![`) hides the title, date and keywords after it; save the page "
    "again with a browser"
)


class HtmlReader:
    """Reads web pages in the encoding that they declare, else in any that is detected.

    Title, date and tags are those that the page states for programs
    (:class:`backstory.ingest.documents.formats.html_head.HtmlHead`); a page without a title has its first heading.
    """

    format = "html"
    suffixes = frozenset({".html", ".htm", ".xhtml"})
    find_encoding = staticmethod(find_html_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`. No page is a draft."""
        html = decode_text(content, uri, find_html_encoding(content))
        text, unread = convert_html(html, is_xml=_XHTML.match(html) is not None)
        if not text.strip() and unread is not None:
            raise ReadError(f"{uri}: {unread}", code="nested_too_deeply")
        if not text.strip():
            raise ReadError(
                f"{uri}: the page shows no text without its scripts; save it from a browser, or remove the file",
                code="empty_document",
            )
        head = HtmlHead()
        try:
            head.feed(html)
        except AssertionError:  # what the standard library's parser raises for some broken declarations
            unread = "; ".join(filter(None, (unread, _BROKEN)))
        published_at = head.published_at
        return ParsedDocument(
            text=text,
            title=head.title or next(filter(None, outline_markdown(text).heading_paths()), None),
            published_at=published_at,
            updated_at=None if published_at else head.updated_at,
            tags=head.tags,
            unread=unread,
        )
