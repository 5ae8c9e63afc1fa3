"""The address of each page of a site: its path in the folder, safe as a file name and as a link."""

from __future__ import annotations

import re
from typing import Final

from backstory.base.ids import digest

INDEX: Final = "index.html"
TAGS: Final = "tags.html"
ARCHIVE: Final = "archive.html"
SEARCH: Final = "search.html"
WITHOUT_POST: Final = "without-post.html"
ATOM: Final = "feed.xml"
JSON_FEED: Final = "feed.json"
SITEMAP: Final = "sitemap.xml"

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}\Z")
_UNSAFE: Final = re.compile(r"[^a-z0-9]+")
_HASH_CHARACTERS: Final = 8
_WORDS_CHARACTERS: Final = 60


def address_post(slug: str) -> str:
    """Return the page of a post."""
    return f"posts/{name_file(slug)}.html"


def address_document(document_id: str) -> str:
    """Return the page of a document."""
    return f"documents/{name_file(document_id)}.html"


def address_window(window_id: str) -> str:
    """Return the page of a window's report."""
    return f"windows/{name_file(window_id)}.html"


def address_tag(tag: str) -> str:
    """Return the page of a tag."""
    return f"tags/{name_file(tag)}.html"


def address_month(month: str) -> str:
    """Return the page of a month, such as 2025-03."""
    return f"archive/{name_file(month)}.html"


def address_conversation(conversation_id: str) -> str:
    """Return the page of a conversation."""
    return f"conversations/{name_file(conversation_id)}.html"


def link_pages(here: str, there: str) -> str:
    """Return the link from one page to another, relative, so that the folder can be moved."""
    return "../" * here.count("/") + there


def name_file(key: str) -> str:
    """Name the file of a key. Keys that no file system tells apart get a hash: some ignore case."""
    if _SAFE.match(key):
        return key
    words = _UNSAFE.sub("-", key.casefold()).strip("-")[:_WORDS_CHARACTERS]
    return f"{words}.{digest([key], length=_HASH_CHARACTERS)}".lstrip(".")
