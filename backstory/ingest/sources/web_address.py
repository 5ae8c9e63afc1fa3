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
from backstory.ingest.sources.roots import COPIES, Source, list_sources, locate_document
from backstory.settings.paths import WorkspacePaths

_FIELDS: Final = ("url", "canonical_url", "canonical", "canonicalURL")
_MARKDOWN: Final = frozenset({".md", ".markdown"})
_HTML: Final = frozenset({".html", ".htm", ".xhtml"})
_DRIVE: Final = "https://drive.google.com/open?id="


class WebAddresses:
    """Finds where documents live in the web. What a source knows of its copies is read once."""

    def __init__(self, workspace: WorkspacePaths) -> None:
        self._workspace = workspace
        self._remote = {
            source.name: source for source in list_sources(workspace) if source.settings.is_remote
        }
        self._copies: dict[str, Mapping[str, RemoteFile]] = {}

    def find(self, uri: str) -> str | None:
        """Find where a document lives.

        It returns the address that its file states (``url`` in front matter, the canonical link of a page), else the
        one from which its source has fetched it; None if neither is known.
        """
        path = (
            locate_document(self._workspace, uri)
            if SOURCE_MARK in uri
            else self._workspace.documents_dir / uri
        )
        stated = None if path is None or not path.is_file() else _read_stated(path)
        return stated or self._find_fetched(uri)

    def _find_fetched(self, uri: str) -> str | None:
        name, mark, below = uri.partition(SOURCE_MARK)
        source = self._remote.get(name) if mark else None
        if source is None:
            return None
        if name not in self._copies:
            self._copies[name] = read_state(source.root).copies
        copy = self._copies[name].get(below)
        if copy is None:
            return None
        if source.settings.drive is not None:
            return f"{_DRIVE}{copy.key}"
        return copy.key if is_web_address(copy.key) else None


def make_linker(workspace: WorkspacePaths) -> Callable[[str], str]:
    """Build a function that tells where a link of a post to a document leads.

    It returns a function of the document's uri. It returns the path of its file, relative to the workspace and perhaps
    outside of it; of a document that was fetched, its web address, or the path of its copy if it has none; and the
    empty text for a document of a source that the workspace does not have any more.
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
    root = source.root / COPIES if source.settings.is_remote else source.root
    folder = root.parent if root.is_file() else root
    return PurePosixPath(os.path.relpath(folder.resolve(), workspace.root.resolve())).as_posix()


def _read_stated(path: Path) -> str | None:
    suffix = path.suffix.lower()
    try:
        if suffix in _MARKDOWN:
            front, _ = split_front_matter(decode_text(path.read_bytes()))
            values = [front.text(name) for name in _FIELDS]
        elif suffix in _HTML:
            content = path.read_bytes()
            head = HtmlHead()
            head.feed(decode_text(content, find_html_encoding(content)))
            values = [head.address]
        else:
            return None
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
