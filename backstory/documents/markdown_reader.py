"""Markdown files with YAML, TOML or JSON front matter."""

from __future__ import annotations

from backstory.chunking.outline import outline_markdown
from backstory.documents.front_matter_block import split_front_matter
from backstory.documents.inline_tags import find_inline_tags
from backstory.documents.parsed_document import ParsedDocument
from backstory.documents.stated_fields import find_date, find_update_date, is_draft, list_tags
from backstory.errors import DocumentError, EmptyDocumentError


class MarkdownReader:
    """Reads Markdown in UTF-8.

    Of the front matter it uses title, slug, kind and tenant, and what :mod:`backstory.documents.stated_fields` lists:
    the date, the tags, and whether it is a draft. Tags in the text follow those of the front matter.
    """

    format = "markdown"
    encoding = "utf-8"
    suffixes = frozenset({".md", ".markdown"})

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:
        """Read one file; see :class:`backstory.documents.DocumentReader`."""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise DocumentError(f"{uri}:{line}: this is not UTF-8 text; save the file as UTF-8") from error
        front, body = split_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"), uri)
        if is_draft(front) and not drafts:
            return None
        if not body.strip():
            raise EmptyDocumentError(
                f"{uri}: there is no text after the front matter; write some, or remove the file"
            )
        headings = outline_markdown(body).heading_paths()
        published_at = find_date(front)
        return ParsedDocument(
            text=body,
            title=front.text("title") or next(filter(None, headings), None),
            slug=front.text("slug"),
            published_at=published_at,
            updated_at=None if published_at else find_update_date(front),
            tags=tuple(dict.fromkeys((*list_tags(front), *find_inline_tags(body)))),
            kind=front.text("kind"),
            tenant=front.text("tenant"),
        )
