"""The text and the properties of an office file or an e-book -> a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from backstory.base.errors import ReadError
from backstory.base.wording import count
from backstory.ingest.documents.formats.office.properties import read_properties
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.chunking.outline import outline_markdown

_LITTLE_TEXT: Final = 400
"""Characters for each image below which the images are likely to hold what the document says."""


def describe_images(text: str, images: int) -> str | None:
    """Report that images were not read if the document has little text beside them; None otherwise."""
    if not images or len(text) >= _LITTLE_TEXT * images:
        return None
    return f"{_count(images)} not read; export the document as PDF, whose images can be recognised"


def mention_images(images: int) -> str:
    """Describe what to do about a document without text, as the end of a sentence."""
    if images:
        return f", and {_count(images)} not read; export it as PDF, whose images can be recognised"
    return "; write some, or remove the file"


def _count(images: int) -> str:
    return count(images, "image was", "images were")


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

    It raises ``ReadError`` if there is no text.
    """
    if not text.strip():
        raise ReadError(f"{uri}: there is no text {place}{mention_images(images)}", code="empty_document")
    stated = read_properties(properties)
    return ParsedDocument(
        text=text,
        title=stated.title or next(filter(None, outline_markdown(text).heading_paths()), None),
        published_at=stated.published_at,
        updated_at=stated.change.moment,
        updated_by=stated.change.origin,
        tags=stated.tags,
        page_starts=starts,
        chunker="page" if starts else "markdown",
        unread="; ".join(filter(None, [*notes, describe_images(text, images)])) or None,
    )


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as a table whose header is the first row."""
    width = max(map(len, rows), default=0)
    if not any(cell.strip() for row in rows for cell in row):
        return ""
    lines = [_write_row([*row, *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])


def _write_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
