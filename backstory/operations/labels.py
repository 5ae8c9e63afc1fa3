"""Labels of windows: the earlier documents that people named for them, by links, edited posts and corrections."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Self
from urllib.parse import unquote, urlsplit

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.local_times import read_clocks
from backstory.ingest.documents.files import locate
from backstory.ingest.sources.listing import DocumentLinks
from backstory.operations.corrections import Place, read_corrections
from backstory.pipeline.workspace import Workspace
from backstory.writing.citations import find_links
from backstory.writing.post_files import draft_path, inspect_file
from backstory.writing.posts import PUBLISHED

_WEB: Final = ("http", "https")
_BARE: Final = re.compile(r"https?://[^\s<>\[\]()\"'`]+|\bhref\s*=\s*[\"']([^\"'\n]+)", re.IGNORECASE)
_PUNCTUATION: Final = ".,;:!?*_~"
_DATE_AHEAD: Final = re.compile(r"^\d{4}-\d{2}-\d{2}-")
_PAGE: Final = re.compile(r"\.(?:html?|md|markdown)$", re.IGNORECASE)
_INDEX: Final = re.compile(r"index\.html?$", re.IGNORECASE)
_SEVERAL_WORDS: Final = re.compile(r"[^\W_][-_.+][^\W_]")
"""A word alone, such as `readme`, names a page of many sites."""

LINKED: Final = "a document of that day links to it"
KEPT: Final = "a person kept it in an edited post"
ADDED: Final = "a person added it to an edited post"
REMOVED: Final = "a person removed it from an edited post"
SAID_HERE: Final = "a person said that it should be here"
SAID_ABSENT: Final = "a person said that it should not be here"

_SAID: Final[Mapping[Place, str]] = {"here": SAID_HERE, "absent": SAID_ABSENT}
_REFUSED: Final = (REMOVED, SAID_ABSENT)

_PAIR: Final = ["window_id", "document_id"]
_FOUND: Final = {"window_id": pl.String, "document_id": pl.String, "source": pl.String}


class Labels(BaseModel):
    """The labels of ``windows`` windows, ``links`` pairs of a window and a document, and what is none.

    ``frame`` has ``window_id``, ``doc_id``, ``rel`` and ``topic``, as scores take them, and ``source``, which
    ``sources`` counts. ``refused`` counts the pairs that a person took back, by how; ``later`` those whose document is
    later than the window, or has no date; and ``lost`` the corrections whose window or document is gone.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    frame: pl.DataFrame = Field(exclude=True, repr=False)
    refused: Mapping[str, int]
    later: int
    lost: int
    windows: int
    links: int
    sources: Mapping[str, int]


def _count_sources(pairs: pl.DataFrame) -> dict[str, int]:
    return dict(pairs["source"].value_counts().sort("source").iter_rows())


def gather_labels(workspace: Workspace) -> Labels:
    """Gather the labels of a workspace's windows.

    A document that people wrote labels the windows of its day with the documents that it links to. The file of a post
    that a person has edited labels the post's window with the documents that it still cites, whatever others link to.
    What a person said of the explanation of a window counts whatever posts cite. Only a document with a date that is
    not after the first message of the window is a label.
    """
    windows = workspace.tables.read("windows").select("window_id", "started_at", "ended_at", "timezone")
    columns = ("document_id", "uri", "slug", "published_at", "text", "status")
    documents = (
        workspace.tables.read("documents", columns=columns)
        .filter(pl.col("status") == "ok", ~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
        .sort("uri")
    )
    places = Places.of_documents(
        documents, workspace.settings.documents.folder, DocumentLinks(workspace).link
    )
    corrections = [(*key, _SAID[place]) for key, place in read_corrections(workspace.state).items()]
    said = pl.DataFrame(corrections, schema=_FOUND, orient="row")
    known = said.join(windows, on="window_id", how="semi").join(documents, on="document_id", how="semi")
    edited, linked = _read_edited_posts(workspace, places), _read_links(workspace, windows, documents, places)
    # Of several sources of a pair, the first one counts.
    found = pl.concat([known, edited, linked]).unique(_PAIR, keep="first", maintain_order=True)
    is_refused = pl.col("source").is_in(_REFUSED)
    timed = (
        found.filter(~is_refused)
        .join(windows, on="window_id", maintain_order="left")
        .join(documents.select("document_id", "published_at"), on="document_id", maintain_order="left")
    )
    labels = timed.filter(pl.col("published_at") <= pl.col("started_at")).select(
        "window_id", doc_id="document_id", rel=pl.lit(1), topic="document_id", source="source"
    )
    return Labels(
        frame=labels,
        windows=labels["window_id"].n_unique(),
        links=len(labels),
        sources=_count_sources(labels),
        refused=_count_sources(found.filter(is_refused)),
        later=len(timed) - len(labels),
        lost=len(said) - len(known),
    )


def _read_links(
    workspace: Workspace, windows: pl.DataFrame, documents: pl.DataFrame, places: Places
) -> pl.DataFrame:
    """Read what the documents of people link to, for each window of their day."""
    folder = workspace.settings.documents.folder
    first, last = (read_clocks(windows, name).dt.date() for name in ("started_at", "ended_at"))
    days = windows.select("window_id", day=pl.date_ranges(first, last)).explode("day")
    dated = workspace.date_locally(documents)
    of_days = dated.with_columns(day=pl.col("published_at").dt.date()).join(
        days, on="day", how="semi", maintain_order="left"
    )
    links = [
        (target, day)
        for document_id, uri, text, day in of_days.select("document_id", "uri", "text", "day").iter_rows()
        for target in places.find_linked(text, locate(uri, folder))
        if target != document_id
    ]
    found = pl.DataFrame(links, schema={"document_id": pl.String, "day": pl.Date}, orient="row")
    linked = days.join(found, on="day", maintain_order="left_right")
    return linked.select("window_id", "document_id", source=pl.lit(LINKED))


def _read_edited_posts(workspace: Workspace, places: Places) -> pl.DataFrame:
    """Read what the posts that people have edited cite, and what people took out of their drafts.

    What they did to a letter labels those of its windows whose contexts hold the document.
    """
    rows = []
    posts = workspace.tables.read("posts")
    published = posts.filter(pl.col("status").is_in(list(PUBLISHED)))
    told = posts.filter(status="in_letter")
    for post in published.sort("window_id").iter_rows(named=True):
        path = workspace.root / post["path"]
        if inspect_file(path) != "edited":
            continue
        cited = places.find_linked(path.read_text(encoding="utf-8", errors="replace"), post["path"])
        drafted = dict.fromkeys(post["cited_documents"])
        rows += [(post["slug"], each, KEPT if each in drafted else ADDED) for each in cited]
        if not draft_path(path).exists():  # else the table holds a later draft, which nobody has read yet
            rows += [(post["slug"], each, REMOVED) for each in drafted if each not in cited]
    schema = {"slug": pl.String, "document_id": pl.String, "source": pl.String}
    windows = pl.concat([told, published]).select("slug", "window_id")
    found = pl.DataFrame(rows, schema=schema, orient="row").join(
        windows, on="slug", maintain_order="left_right"
    )
    shown = workspace.tables.read("contexts").select(_PAIR).with_columns(is_shown=True).unique()
    marked = found.join(shown, on=_PAIR, how="left", maintain_order="left")
    return marked.filter(~pl.col("slug").is_in(told["slug"].to_list()) | pl.col("is_shown")).select(
        _FOUND.keys()
    )


@dataclass(frozen=True)
class Places:
    """Where the documents of a workspace lie."""

    files: Mapping[str, str]
    """Document id by path, relative to the workspace, and by the web address that posts link to."""
    names: Mapping[str, str]
    """Document id by each slug and file name that one document alone has, in lower case, without suffix."""

    @classmethod
    def of_documents(
        cls, documents: pl.DataFrame, folder: str, link: Callable[[str], str] | None = None
    ) -> Self:
        """List the places of documents in a folder; ``link`` gives the address by which posts link to a uri."""
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
        addresses = [target for target in find_links(text) if not target.startswith("<")]
        addresses += [(found[1] or found[0]).rstrip(_PUNCTUATION) for found in _BARE.finditer(text)]
        found = (self._resolve(address, path) for address in addresses)
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
        place = (
            address if parts.netloc else posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        )
        if place in self.files:
            return self.files[place]
        name = PurePosixPath(_INDEX.sub("", target)).name
        if parts.netloc and not _SEVERAL_WORDS.search(_PAGE.sub("", name)):
            return None
        return self.names.get(_fold(name))


def _fold(name: str) -> str:
    return _PAGE.sub("", name).casefold()
