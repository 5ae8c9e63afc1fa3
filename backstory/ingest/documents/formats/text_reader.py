"""Text files: plain text, and the markups whose headings are written line by line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.asciidoc import convert_asciidoc
from backstory.ingest.documents.formats.marked_text import MarkedText
from backstory.ingest.documents.formats.org_mode import convert_org_mode
from backstory.ingest.documents.formats.restructured_text import convert_restructured_text
from backstory.ingest.documents.formats.text_decoding import decode_text
from backstory.ingest.documents.metadata.front_matter import Field, collect_fields
from backstory.ingest.documents.metadata.stated_fields import find_date, find_update_date, is_draft, list_tags
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.chunking.outline import outline_markdown
from backstory.text.encoding import find_encoding

PLAIN_TEXT: Final = "text"
"""Format of plain text, in which most messengers export chats, too."""

_TITLE_LINE: Final = re.compile(r"\s*(?!#)(\S.{0,98}\S)[ \t]*\n[ \t]*\n\s*\S")
_ENDS: Final = (".", "!", ",", ";", ":", "。", "！", "，", "；", "：")
"""Marks after which a line is a sentence, or begins one."""


@dataclass(frozen=True)
class TextReader:
    r"""Reads text in any encoding that :func:`backstory.text.encoding.find_encoding` detects.

    Attributes:
        format: Name of the type.
        suffixes: File name endings.
        convert: Turns the text, newlines as ``\n``, into Markdown and fields. The fields have the meaning of those in
            the front matter of Markdown.
    """

    format: str
    suffixes: frozenset[str]
    convert: Callable[[str], MarkedText]
    find_encoding = staticmethod(find_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        marked = self.convert(decode_text(content, uri))
        fields = collect_fields(uri, marked.fields)
        if is_draft(fields) and not drafts:
            return None
        if not marked.text.strip():
            raise ReadError(
                f"{uri}: there is no text in it; write some, or remove the file", code="empty_document"
            )
        published_at = find_date(fields)
        return ParsedDocument(
            text=marked.text,
            title=fields.text("title")
            or next(filter(None, outline_markdown(marked.text).heading_paths()), None),
            slug=fields.text("slug"),
            published_at=published_at,
            updated_at=None if published_at else find_update_date(fields),
            tags=list_tags(fields),
            kind=fields.text("kind"),
            tenant=fields.text("tenant"),
        )


def convert_plain_text(text: str) -> MarkedText:
    """Find the title of a plain text: a short first line that is no sentence, before a blank line and more text."""
    match = _TITLE_LINE.match(text)
    if match is None or not any(map(str.isalpha, match[1])) or match[1].endswith(_ENDS):
        return MarkedText(text)
    line = text.count("\n", 0, match.start(1)) + 1
    return MarkedText(text, (Field("title", match[1], line),))


TEXT_READERS = (
    TextReader(PLAIN_TEXT, frozenset({".txt", ".text"}), convert_plain_text),
    TextReader("restructuredtext", frozenset({".rst"}), convert_restructured_text),
    TextReader("asciidoc", frozenset({".adoc", ".asciidoc"}), convert_asciidoc),
    TextReader("org", frozenset({".org"}), convert_org_mode),
)
