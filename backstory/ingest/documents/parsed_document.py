"""The content of one file, and the interface of a reader of one type of file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from backstory.settings.inputs import ChunkerName
from backstory.text.encoding import find_encoding


@dataclass(frozen=True)
class ParsedDocument:
    r"""One document; a value that its content does not state is None.

    ``text``: the body, newlines as ``\n``, never blank unless it is a draft. ``published_at``: without a zone if it
    states none. ``change``: by when it was written, where it states no date of publication. ``conversation``: that of a
    written post; empty for a post that does not state it. ``page_starts``: the character of ``text`` at which each
    page, slide or sheet begins, the first at 0. ``chunker``: how the text is cut; the first line of each page cut by
    ``rows`` is its header. ``confidences``: for each page, the confidence (0 to 1) with which its text was recognised
    in an image, None for a page that held text; empty if no page was recognised. ``unread``: what of the file was not
    read, and what to do. ``pictures``: the pages, from 1, whose text is in an image, until it is recognised.
    """

    text: str
    title: str | None = None
    slug: str | None = None
    published_at: datetime | None = None
    change: datetime | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    tenant: str | None = None
    conversation: str | None = None
    page_starts: tuple[int, ...] = ()
    chunker: ChunkerName = "markdown"
    confidences: tuple[float | None, ...] = ()
    unread: str | None = None
    is_draft: bool = False
    pictures: tuple[int, ...] = ()


@dataclass(frozen=True)
class DocumentFormat:
    """The reader of one type of file, by the endings of its name, in small letters and with the dot.

    ``name`` is what the table ``sources`` gives, ``title`` what people call it. ``read`` reads the content of a file
    with a path; equal arguments always give an equal document. It raises ``ReadError``, with the code
    ``empty_document`` if the file holds no text; the message does not name the file. ``find_encoding`` is None for a
    binary type. ``gives_markdown``: whether the text is Markdown; other texts may hold marks that mean nothing.
    """

    name: str
    title: str
    suffixes: frozenset[str]
    read: Callable[[bytes, str], ParsedDocument]
    find_encoding: Callable[[bytes], str] | None = find_encoding
    gives_markdown: bool = False
