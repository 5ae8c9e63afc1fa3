"""Links in the texts of people -> the documents that they lead to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Self
from urllib.parse import unquote, urlsplit

import polars as pl

from backstory.ingest.documents.written import locate
from backstory.writing.citations import find_links

_WEB: Final = ("http", "https")
_BARE: Final = re.compile(r"https?://[^\s<>\[\]()\"'`]+|\bhref\s*=\s*[\"']([^\"'\n]+)", re.IGNORECASE)
_PUNCTUATION: Final = ".,;:!?*_~"
_DATE_AHEAD: Final = re.compile(r"^\d{4}-\d{2}-\d{2}-")
_PAGE: Final = re.compile(r"\.(?:html?|md|markdown)$", re.IGNORECASE)
_INDEX: Final = re.compile(r"index\.html?$", re.IGNORECASE)
_SEVERAL_WORDS: Final = re.compile(r"[^\W_][-_.+][^\W_]")
"""A word alone, such as `readme`, names a page of many sites."""


@dataclass(frozen=True)
class Places:
    """Where the documents of a workspace lie.

    Attributes:
        files: Document id by path, relative to the workspace, and by the web address that posts link to.
        names: Document id by each slug and file name that one document alone has, in lower case, without suffix.
    """

    files: Mapping[str, str]
    names: Mapping[str, str]

    @classmethod
    def of_documents(
        cls, documents: pl.DataFrame, folder: str, link: Callable[[str], str] | None = None
    ) -> Self:
        """List the places of documents (``document_id``, ``uri``, ``slug``) in a folder of the workspace.

        ``link`` tells where the links of posts to a document lead, by its uri; without it, each leads to its path.
        """
        files, linked, named = {}, {}, dict[str, set[str]]()
        for document_id, uri, slug in documents.select("document_id", "uri", "slug").iter_rows():
            path = locate(uri, folder)
            files[posixpath.normpath(path)] = document_id
            if link is not None:
                linked[link(uri)] = document_id
            for name in (slug, PurePosixPath(path).name):
                for written in (name, _DATE_AHEAD.sub("", name)):
                    named.setdefault(_fold(written), set()).add(document_id)
        return cls(linked | files, {name: next(iter(ids)) for name, ids in named.items() if len(ids) == 1})

    def find_linked(self, text: str, path: str) -> dict[str, None]:
        """Find the documents that the links of a Markdown text at a path in the workspace lead to, in their order."""
        found = (self._resolve(address, path) for address in _list_addresses(text))
        return dict.fromkeys(document_id for document_id in found if document_id is not None)

    def _resolve(self, address: str, path: str) -> str | None:
        """Return the document that an address leads to: by its file, or else by its name at the end of the address."""
        try:
            parts = urlsplit(address)
        except ValueError:  # such as an unclosed bracket of an address of IPv6
            return None
        if (parts.scheme and parts.scheme not in _WEB) or not parts.path:
            return None
        target = unquote(parts.path)
        is_elsewhere = bool(parts.netloc)
        if is_elsewhere and address in self.files:
            return self.files[address]
        if not is_elsewhere:
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if beside in self.files:
                return self.files[beside]
        name = PurePosixPath(_INDEX.sub("", target)).name
        if is_elsewhere and not _SEVERAL_WORDS.search(_PAGE.sub("", name)):
            return None
        return self.names.get(_fold(name))


def _fold(name: str) -> str:
    return _PAGE.sub("", name).casefold()


def _list_addresses(text: str) -> Iterator[str]:
    yield from (target for target in find_links(text) if not target.startswith("<"))
    for found in _BARE.finditer(text):
        yield (found[1] or found[0]).rstrip(_PUNCTUATION)
