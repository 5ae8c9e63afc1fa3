"""The content of one file, and the interface of a reader of one type of file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from backstory.ingest.documents.dates import NO_CHANGE, LastChange
from backstory.settings.inputs import ChunkerName
from backstory.text.encoding import find_encoding

Chunker: TypeAlias = ChunkerName
"""How a text is cut; the first line of each page cut by ``rows`` is its header."""


@dataclass(frozen=True)
class ParsedDocument:
    r"""One document; a value that its content does not state is None.

    Attributes:
        text: The body, newlines as ``\n``, never blank unless it is a draft.
        title: Title, from a field or else from the first heading.
        slug: Slug.
        published_at: When it was published; without a zone if it states none.
        change: By when it was written, where it states no date of publication.
        tags: Tags in the order given, each once.
        kind: Kind.
        tenant: Tenant.
        conversation: Conversation of a written post; empty for a post that does not state it.
        page_starts: Character of ``text`` at which each page begins, the first at 0; empty for a document without
            pages. A slide and a sheet are pages.
        chunker: How the text is cut.
        confidences: For each page, the confidence (0 to 1) with which its text was recognised in an image, None for a
            page that held text; empty if no page was recognised.
        unread: What of the file was not read, and what to do; None if all was read.
        is_draft: Whether it states that it is a draft.
    """

    text: str
    title: str | None = None
    slug: str | None = None
    published_at: datetime | None = None
    change: LastChange = NO_CHANGE
    tags: tuple[str, ...] = ()
    kind: str | None = None
    tenant: str | None = None
    conversation: str | None = None
    page_starts: tuple[int, ...] = ()
    chunker: Chunker = "markdown"
    confidences: tuple[float | None, ...] = ()
    unread: str | None = None
    is_draft: bool = False


@dataclass(frozen=True)
class DocumentFormat:
    """The reader of one type of file.

    Attributes:
        name: Name of the type, as the table ``sources`` gives it.
        title: What people call it.
        suffixes: Endings of file names, in small letters and with the dot.
        read: Reads the content of a file with a path; equal arguments always give an equal document. It raises
            ``ReadError``, with the code ``empty_document`` if the file holds no text. The message does not name the
            file.
        find_encoding: Detects the encoding; None for a binary type.
        gives_markdown: Whether the text is Markdown; other texts may hold marks that mean nothing.
    """

    name: str
    title: str
    suffixes: frozenset[str]
    read: Callable[[bytes, str], ParsedDocument]
    find_encoding: Callable[[bytes], str] | None = find_encoding
    gives_markdown: bool = False


def list_titles(formats: Iterable[DocumentFormat]) -> str:
    """List the formats as people call them, each once."""
    return ", ".join(dict.fromkeys(each.title for each in formats))
