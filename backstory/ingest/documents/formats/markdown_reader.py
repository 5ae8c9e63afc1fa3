"""Markdown files with YAML, TOML or JSON front matter."""

from __future__ import annotations

import re

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.text_decoding import decode_text
from backstory.ingest.documents.metadata.front_matter import FrontMatter
from backstory.ingest.documents.metadata.front_matter_block import split_front_matter
from backstory.ingest.documents.metadata.stated_fields import find_date, find_update_date, is_draft, list_tags
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.chunking.outline import outline_markdown
from backstory.text.encoding import find_encoding

# As in Obsidian, a tag is at the start of a line or after white space, and does not consist of digits alone.
_TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")


class MarkdownReader:
    """Reads Markdown in any encoding that :func:`backstory.text.encoding.find_encoding` detects.

    The reader uses these fields of the front matter: title, slug, kind and tenant, and the date, tags and draft fields
    in :mod:`backstory.ingest.documents.metadata.stated_fields`. Tags in the text are listed after those of the front
    matter.
    """

    format = "markdown"
    suffixes = frozenset({".md", ".markdown"})
    find_encoding = staticmethod(find_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        front, body = split_front_matter(decode_text(content, uri), uri)
        if is_draft(front) and not drafts:
            return None
        if not body.strip():
            raise ReadError(
                f"{uri}: there is no text after the front matter; write some, or remove the file",
                code="empty_document",
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
            conversation=_find_conversation(front),
        )


def _find_conversation(front: FrontMatter) -> str | None:
    """Return whose post a file is: no text for a post of an earlier version, which did not say; None for no post."""
    return front.text("conversation") or ("" if front.text("window") else None)


def find_inline_tags(text: str) -> tuple[str, ...]:
    """Find the tags in the running text of Markdown, without duplicates; code, links and HTML are skipped.

    It returns the tags without ``#``, in order.
    """
    if _TAG.search(text) is None:
        return ()
    from markdown_it import MarkdownIt

    texts = [
        child.content
        for token in MarkdownIt("commonmark").parse(text)
        for child in token.children or ()
        if child.type == "text"
    ]
    tags = (tag.strip("/-") for part in texts for tag in _TAG.findall(part))
    return tuple(dict.fromkeys(tag for tag in tags if tag))
