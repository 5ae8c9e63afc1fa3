"""The text and the properties of an office file or an e-book -> a document."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from backstory.chunking.outline import outline_markdown
from backstory.documents.office.properties import read_properties
from backstory.documents.office.unread_images import describe_images, mention_images
from backstory.documents.parsed_document import ParsedDocument
from backstory.errors import EmptyDocumentError


def compose_document(
    uri: str,
    text: str,
    properties: Element | None,
    images: int,
    *,
    starts: tuple[int, ...] = (),
    notes: Iterable[str | None] = (),
    place: str = "in it",
) -> ParsedDocument:
    """Compose a document whose title is that of its properties, else its first heading.

    Args:
        uri: Name of the file in error messages.
        text: The text as Markdown.
        properties: The part with its properties, if it has one.
        images: Number of its images.
        starts: Where each page begins in the text; empty for a text without pages.
        notes: What else of it was not read, and what to do.
        place: Where a text is missing, if there is none.

    Raises:
        EmptyDocumentError: There is no text.
    """
    if not text.strip():
        raise EmptyDocumentError(f"{uri}: there is no text {place}{mention_images(images)}")
    stated = read_properties(properties)
    return ParsedDocument(
        text=text,
        title=stated.title or next(filter(None, outline_markdown(text).heading_paths()), None),
        updated_at=stated.updated_at,
        tags=stated.tags,
        page_starts=starts,
        chunker="page" if starts else "markdown",
        unread="; ".join(filter(None, [*notes, describe_images(text, images)])) or None,
    )
