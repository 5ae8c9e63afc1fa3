"""Where a document lives in the web, as its text or the source that it was fetched from tells, and where links lead."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from backstory.base.errors import ReadError
from backstory.ingest.documents.files import SOURCE_MARK, locate
from backstory.ingest.documents.formats.html import HTML, decode_html, read_statements
from backstory.ingest.documents.formats.texts import MARKDOWN, decode_text
from backstory.ingest.documents.metadata import split_front_matter
from backstory.ingest.sources.listing import list_sources, make_locator
from backstory.ingest.sources.remotes import read_state
from backstory.settings.paths import WorkspacePaths

_FIELDS: Final = ("url", "canonical_url", "canonical", "canonicalURL")
_DRIVE: Final = "https://drive.google.com/open?id="


class DocumentLinks:
    """Finds where documents live in the web, and where links to them lead. What a source knows is read once."""

    def __init__(self, workspace: WorkspacePaths) -> None:
        self._folder = workspace.settings.documents.folder
        self._sources = {source.name: source for source in list_sources(workspace)}
        self._places = {
            name: os.path.relpath(source.folder.resolve(), workspace.root.resolve())
            for name, source in self._sources.items()
        }
        self._locate = make_locator(workspace)
        self._read_copies = cache(lambda name: read_state(self._sources[name].root).files)

    def find_address(self, uri: str) -> str | None:
        """Find the address in the web of a document.

        It is the one that its file states (``url`` in front matter, the canonical link of a page), else the one from
        which its source has fetched it; None if neither is known.
        """
        stated = _read_stated(self._locate(uri))
        name, mark, below = uri.partition(SOURCE_MARK)
        source = self._sources.get(name) if mark else None
        if stated is not None or source is None or not source.settings.is_remote:
            return stated
        copy = self._read_copies(name).get(below)
        if copy is None:
            return None
        address = copy.key if source.settings.drive is None else f"{_DRIVE}{copy.key}"
        return address if _is_web_address(address) else None

    def link(self, uri: str) -> str:
        """Find where a link of a post to a document leads.

        That is its file, relative to the workspace and perhaps outside of it; of a document that was fetched, its web
        address, if it has one; and the empty text for a document of a source that the workspace does not have any more.
        """
        name, mark, below = uri.partition(SOURCE_MARK)
        if not mark:
            return locate(uri, self._folder)
        if name not in self._sources:
            return ""
        home = self.find_address(uri) if self._sources[name].settings.is_remote else None
        return home or str(PurePosixPath(self._places[name]) / below)

    def list_places(self) -> list[str]:
        """List, for each further source, what the links to its documents depend on besides the documents."""
        return [f"{name}{SOURCE_MARK} {place}" for name, place in self._places.items()]


def _read_stated(path: Path) -> str | None:
    suffix = path.suffix.lower()
    if suffix not in MARKDOWN.suffixes | HTML.suffixes:
        return None
    try:
        content = path.read_bytes()
        if suffix in MARKDOWN.suffixes:
            front, _ = split_front_matter(decode_text(content))
            values = [front.text(name) for name in _FIELDS]
        else:
            stated = read_statements(decode_html(content))
            values = [*stated["canonical"], *stated["og:url"]]
    except (OSError, ReadError):
        return None  # the table documents holds an earlier revision, and says why the file cannot be read
    return next((value for value in values if value and _is_web_address(value)), None)


def _is_web_address(value: str) -> bool:
    """Return whether a text is an address of the web; front matter of Hugo, for example, states a path as ``url``."""
    try:
        parts = urlsplit(value)
    except ValueError:  # such as an unclosed bracket of an address of IPv6
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
