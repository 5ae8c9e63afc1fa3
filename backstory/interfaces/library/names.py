"""The names of documents that people type, of which a part never matches the whole, and of places in their texts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.files.patterns import compose, matches_glob
from backstory.base.wording import name_some
from backstory.ingest.documents.files import SOURCE_MARK
from backstory.ingest.sources.listing import make_locator
from backstory.pipeline.workspace import Workspace

_SHOWN: Final = 80


def resolve_path(path: str | Path, base: Path = Path()) -> Path:
    """Return the absolute path of a file or folder, existing or not, with links resolved."""
    if not str(path).strip():
        raise InputError("the path is blank; name a file or a folder", code="blank_text")
    try:
        found = (base / Path(path).expanduser()).resolve()
        with suppress(FileNotFoundError, NotADirectoryError):
            found.lstat()  # finds names that are too long, and folders that may not be entered
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"{str(path)[:_SHOWN]!r} is no path that can be used ({reason}); name a file or a folder",
            code="unusable_path",
        ) from error
    return found


ADDED_FOLDER: Final = "added"
"""Folder, in the folder of the documents, of the texts that were added."""

CHUNK_MARK: Final = "#"
"""Stands between the id of a document and the rest of the id of a chunk."""

_LISTED = 10
_LEAST_ID = 6
"""Fewest characters of the beginning of a document's id that name it."""


@dataclass(frozen=True)
class DocumentNames:
    """A document by all its names; ``path`` is the absolute one of its file."""

    document_id: str
    uri: str
    title: str
    slug: str
    path: Path


def find_document(documents: Sequence[DocumentNames], name: str) -> DocumentNames:
    """Find the one document of a name.

    These are names, in this order: the id, the path as the tables have it, the path of the file (absolute, or relative
    to the current folder), the end of the path from the beginning of a folder or file name on, the slug, the title, the
    beginning of the id, and the id of one of its chunks. The first kind of name that fits any document decides.
    """
    if not name.strip():
        raise InputError("the name of a document is blank; give its path, title or id", code="blank_text")
    for is_named in _kinds_of_names(name):
        found = [document for document in documents if is_named(document)]
        if len(found) == 1:
            return found[0]
        if found:
            listed = name_some([document.uri for document in found], _LISTED)
            raise InputError(
                f"{name!r} names {len(found)} documents: {listed}; give the path of one of them",
                code="ambiguous_document",
            )
    raise InputError(f"no document is called {name!r}; {_suggest(documents, name)}", code="unknown_document")


def find_matching(documents: Sequence[DocumentNames], pattern: str) -> list[DocumentNames]:
    """Find the documents whose path, or whose path in its source, matches a glob."""
    if not pattern.strip():
        raise InputError("the pattern of paths is blank; write one such as notes/**/*.md", code="blank_text")
    wanted = PurePosixPath(pattern).parts
    if "/" not in pattern:
        wanted = ("**", *wanted)
    found = [
        document
        for document in documents
        for path in (document.uri, document.uri.partition(SOURCE_MARK)[2])
        if path and matches_glob(PurePosixPath(path).parts, wanted)
    ]
    if not found:
        raise InputError(
            f"no document matches the glob {pattern!r}; {_suggest(documents, pattern.replace('*', ''), 0.0)}",
            code="unmatched_pattern",
        )
    return list(dict.fromkeys(found))


def _kinds_of_names(name: str) -> Iterator[Callable[[DocumentNames], bool]]:
    real = None
    with suppress(InputError):  # most names are no paths
        real = resolve_path(name)
    name = compose(name)
    parts = PurePosixPath(name).parts
    of_chunk = name.partition(CHUNK_MARK)[0]
    folded = " ".join(name.split()).casefold()
    yield lambda document: document.document_id == name
    yield lambda document: compose(document.uri) == name
    yield lambda document: document.path == real
    yield lambda document: PurePosixPath(compose(document.uri)).parts[-len(parts) :] == parts
    yield lambda document: compose(document.slug) == name
    yield lambda document: compose(" ".join(document.title.split())).casefold() == folded
    yield lambda document: len(of_chunk) >= _LEAST_ID and document.document_id.startswith(of_chunk)


def _suggest(documents: Sequence[DocumentNames], name: str, least_likeness: float = 0.6) -> str:
    names = {key: one.uri for one in documents for key in (PurePosixPath(one.uri).name, one.title, one.uri)}
    close = [key for key in names if name.casefold() in key.casefold()]
    near = [*get_close_matches(name, names, cutoff=least_likeness), *close]
    found = dict.fromkeys(names[key] for key in near[:3])
    return f"did you mean {name_some(list(found), _LISTED)}?" if found else "`backstory documents` lists all"


def name_documents(workspace: Workspace, documents: pl.DataFrame) -> list[DocumentNames]:
    """Return documents by all their names."""
    locate_file = make_locator(workspace)
    rows = documents.select("document_id", "uri", "title", "slug")
    return [
        DocumentNames(key, uri, title, slug, locate_file(uri)) for key, uri, title, slug in rows.iter_rows()
    ]


@dataclass(frozen=True)
class PlacedText:
    """The text of a document, and the character at which each page begins, the first at 0; none without pages."""

    text: str
    page_starts: Sequence[int] = ()

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    @property
    def pages(self) -> int | None:
        """Number of pages; None for a text without pages."""
        return len(self.page_starts) or None

    def page_of(self, character: int) -> int | None:
        """Return the page of a character, from 1; None for a text without pages."""
        return bisect_right(self.page_starts, character) if self.page_starts else None

    def line_of(self, character: int) -> int:
        """Return the line of a character, from 1."""
        return bisect_right(self._line_starts, character)

    def bounds_of_line(self, line: int) -> tuple[int, int]:
        """Return the first character of a line, and the one after its last, without the line feed."""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end

    def bounds_of_pages(self, first: int, last: int) -> tuple[int, int]:
        """Return the first character of a range of pages, and the one after its last."""
        if not self.page_starts:
            raise InputError("this document has no pages; read it without them", code="no_pages")
        if not 1 <= first <= last <= len(self.page_starts):
            raise InputError(
                f"this document has pages 1 to {len(self.page_starts)}; pages {first}-{last} do not exist",
                code="out_of_range",
            )
        starts = [*self.page_starts, len(self.text)]
        return starts[first - 1], starts[last]
