"""Markdown files with YAML or TOML front matter."""

from __future__ import annotations

from backstory.chunking.outline import outline_markdown
from backstory.documents.front_matter import split_front_matter
from backstory.documents.parsed_document import ParsedDocument
from backstory.errors import DocumentError


class MarkdownReader:
    """Reads Markdown in UTF-8; of the front matter, it uses title, slug, date, tags, kind and tenant."""

    suffixes = frozenset({".md", ".markdown"})

    def read(self, content: bytes, uri: str) -> ParsedDocument:
        """Read one file; see :class:`backstory.documents.DocumentReader`."""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise DocumentError(f"{uri}:{line}: this is not UTF-8 text; save the file as UTF-8") from error
        front, body = split_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"), uri)
        if not body.strip():
            raise DocumentError(
                f"{uri}: there is no text after the front matter; write some, or remove the file"
            )
        headings = outline_markdown(body).heading_paths()
        return ParsedDocument(
            text=body,
            title=front.text("title") or next(filter(None, headings), None),
            slug=front.text("slug"),
            published_at=front.date("date"),
            tags=front.texts("tags"),
            kind=front.text("kind"),
            tenant=front.text("tenant"),
        )
