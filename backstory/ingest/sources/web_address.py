"""Where a document lives in the web, as its text or the source that it was fetched from tells, and where links lead."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.html import HtmlHead, find_html_encoding
from backstory.ingest.documents.formats.texts import decode_text
from backstory.ingest.documents.front_matter import split_front_matter
from backstory.ingest.documents.written import SOURCE_MARK, locate
from backstory.ingest.sources.mirror import RemoteFile, read_state
from backstory.ingest.sources.roots import Source, list_sources
from backstory.settings.paths import WorkspacePaths

_FIELDS: Final = ("url", "canonical_url", "canonical", "canonicalURL")
_MARKDOWN: Final = frozenset({".md", ".markdown"})
_HTML: Final = frozenset({".html", ".htm", ".xhtml"})
_DRIVE: Final = "https://drive.google.com/open?id="


class WebAddresses:
    """Finds where documents live in the web. What a source knows of its copies is read once."""

    def __init__(self, workspace: WorkspacePaths) -> None:
        self._folder = workspace.documents_dir
        self._sources = {source.name: source for source in list_sources(workspace)}
        self._copies: dict[str, Mapping[str, RemoteFile]] = {}

    def find(self, uri: str) -> str | None:
        """Find where a document lives.

        It returns the address that its file states (``url`` in front matter, the canonical link of a page), else the
        one from which its source has fetched it; None if neither is known.
        """
        name, mark, below = uri.partition(SOURCE_MARK)
        if not mark:
            return _read_stated(self._folder / uri)
        if name not in self._sources:
            return None
        source = self._sources[name]
        stated = _read_stated(source.folder / below)
        if stated is not None or not source.settings.is_remote:
            return stated
        if name not in self._copies:
            self._copies[name] = read_state(source.root).copies
        copy = self._copies[name].get(below)
        if copy is not None and source.settings.drive is not None:
            return f"{_DRIVE}{copy.key}"
        return copy.key if copy is not None and is_web_address(copy.key) else None


def make_linker(workspace: WorkspacePaths) -> Callable[[str], str]:
    """Build a function that tells where a link of a post to a document leads, by the document's uri.

    That is its file, relative to the workspace and perhaps outside of it; of a document that was fetched, its web
    address, if it has one; and the empty text for a document of a source that the workspace does not have any more.
    """
    sources = {source.name: source for source in list_sources(workspace)}
    places = {name: _place_files(workspace, source) for name, source in sources.items()}
    addresses = WebAddresses(workspace)

    def link(uri: str) -> str:
        name, mark, below = uri.partition(SOURCE_MARK)
        if not mark:
            return locate(uri, workspace.settings.documents.folder)
        if name not in sources:
            return ""
        home = addresses.find(uri) if sources[name].settings.is_remote else None
        return home or str(PurePosixPath(places[name]) / below)

    return link


def list_link_places(workspace: WorkspacePaths) -> list[str]:
    """List, for each further source, what the links to its documents depend on besides the documents."""
    return [
        f"{source.name}{SOURCE_MARK} {source.settings.is_remote} {_place_files(workspace, source)}"
        for source in list_sources(workspace)
    ]


def _place_files(workspace: WorkspacePaths, source: Source) -> str:
    """Return the folder of a source's files, relative to the workspace."""
    return PurePosixPath(os.path.relpath(source.folder.resolve(), workspace.root.resolve())).as_posix()


def _read_stated(path: Path) -> str | None:
    suffix = path.suffix.lower()
    values: list[str | None] = []
    try:
        if suffix in _MARKDOWN and path.is_file():
            front, _ = split_front_matter(decode_text(path.read_bytes()))
            values = [front.text(name) for name in _FIELDS]
        elif suffix in _HTML and path.is_file():
            content = path.read_bytes()
            head = HtmlHead()
            head.feed(decode_text(content, find_html_encoding(content)))
            values = [head.address]
    except (ReadError, AssertionError):
        return None  # the table documents holds an earlier revision, and says why the file cannot be read
    return next((value for value in values if value and is_web_address(value)), None)


def is_web_address(value: str) -> bool:
    """Return whether a text is an address of the web; front matter of Hugo, for example, states a path as ``url``."""
    try:
        parts = urlsplit(value)
    except ValueError:  # such as an unclosed bracket of an address of IPv6
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
