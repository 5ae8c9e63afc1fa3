"""Read the data of a site from the tables of a workspace, and from the posts that a person has edited."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError, ReadError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.local_times import localize_window
from backstory.ingest.documents.files import locate
from backstory.ingest.documents.formats.texts import read_markdown
from backstory.ingest.documents.metadata import ParsedDocument
from backstory.ingest.sources.listing import DocumentLinks
from backstory.interfaces.pages.site.library import Library, Quote, SiteDocument, SitePost, Use, WithoutPost
from backstory.interfaces.pages.site.markdown import list_topics
from backstory.pipeline.chats.named_documents import list_unlinked, make_contact_scrub, make_page_view
from backstory.pipeline.stages.writer_material import read_assignment
from backstory.pipeline.workspace import Workspace
from backstory.writing.material import Citation, ContextMaterial, WindowMaterial
from backstory.writing.posts import PUBLISHED

_EDITED: Final = "edited"
_NOT_MADE: Final = "no run has processed it yet; run `backstory run`"
_NO_WRITER: Final = (
    "no writer is chosen; set `writers: {provider: digest}` in backstory.yaml, and run `backstory run`"
)


def read_library(workspace: Workspace) -> Library:
    """Read the data of a workspace's site.

    Raises:
        InputError: There are no windows yet.
    """
    windows = workspace.tables.read("windows").sort("started_at", "window_id")
    if windows.is_empty():
        raise InputError("there are no windows yet; run `backstory run`", code="no_windows")
    rows = {row["window_id"]: row for row in workspace.tables.read("posts").to_dicts()}
    published = {key for key, row in rows.items() if row["status"] in PUBLISHED}
    ids = _read_ids(workspace)
    material = _read_all_material(workspace, windows.filter(pl.col("window_id").is_in(list(published))))
    scrub = make_contact_scrub(workspace)
    posts = tuple(
        _make_post(workspace, rows[key], *material[key], ids, scrub)
        for key in windows["window_id"]
        if key in material
    )
    letters = {post.slug for post in posts}
    shown = {use.document_id: post.window.window_id for post in reversed(posts) for use in post.uses}
    return Library(
        posts,
        _read_documents(workspace, windows, shown, {post.document_id for post in posts if post.document_id}),
        tuple(
            _explain_absence(workspace, window, rows.get(window["window_id"]))
            for window in windows.iter_rows(named=True)
            if window["window_id"] not in material and not _is_told(rows.get(window["window_id"]), letters)
        ),
    )


def _is_told(row: Mapping[str, Any] | None, letters: Collection[str]) -> bool:
    """Return whether a letter of the site tells of a window."""
    return row is not None and row["status"] == "in_letter" and row["slug"] in letters


def _read_all_material(
    workspace: Workspace, windows: pl.DataFrame
) -> dict[str, tuple[WindowMaterial, ContextMaterial]]:
    wanted = set(windows["window_id"])
    return {
        window.window_id: (window, context)
        for key in windows["partition"].unique(maintain_order=True)
        for window, context in read_assignment(workspace, key, wanted).material
    }


def _read_ids(workspace: Workspace) -> dict[str, str]:
    """Read the document ids of the written posts, by their path in the workspace."""
    documents = workspace.tables.read("documents", columns=("uri", "document_id", "status")).filter(
        pl.col("status") == "ok", pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    )
    folder = workspace.settings.documents.folder
    return {locate(uri, folder): key for uri, key, _ in documents.iter_rows()}


def _make_post(
    workspace: Workspace,
    row: Mapping[str, Any],
    window: WindowMaterial,
    context: ContextMaterial,
    ids: Mapping[str, str],
    scrub: Callable[[str], str],
) -> SitePost:
    edited, notice = _read_edited(workspace, row)
    text = row["text"] if edited is None else edited.text
    cited = set(row["cited_documents"])
    return SitePost(
        window=window,
        slug=row["slug"],
        path=row["path"],
        document_id=ids.get(row["path"]),
        title=(None if edited is None else edited.title) or row["title"],
        tags=tuple(row["tags"] if edited is None else edited.tags),
        text=text,
        topics=list_topics(text),
        notice=notice,
        writer=" with ".join(filter(None, (row["writer"], row["model"]))),
        uses=tuple(_make_use(citation, window, cited, scrub) for citation in context.citations),
    )


def _read_edited(workspace: Workspace, row: Mapping[str, Any]) -> tuple[ParsedDocument | None, str]:
    """Read a post that a person has edited.

    Returns:
        The post, None if the table holds it, and a note for the reader.
    """
    if row["status"] != _EDITED:
        return None, ""
    path = workspace.root / row["path"]
    try:
        parsed = read_markdown(path.read_bytes(), row["path"])
    except FileNotFoundError:
        return None, f"The file {row['path']} is gone. This is the draft that the table posts holds."
    except ReadError as error:
        return None, f"A person has edited {row['path']}, but it cannot be read: {error}. This is the draft."
    return parsed, f"A person has edited this post: {row['reason']}."


def _make_use(
    citation: Citation, window: WindowMaterial, cited: Collection[str], scrub: Callable[[str], str]
) -> Use:
    return Use(
        number=citation.number,
        document_id=citation.document_id,
        title=scrub(citation.title),
        published_at=citation.published_at,
        path=citation.path,
        passage=scrub(citation.passage),
        because=tuple(
            Quote(
                place,
                message.sent_at,
                window.name_people(message.author or "") or None,
                scrub(window.name_people(message.text)),
            )
            for place, message in ((place, window.messages[place]) for place in citation.messages)
        ),
        cited=citation.document_id in cited,
        link=citation.target,
    )


def _read_documents(
    workspace: Workspace, windows: pl.DataFrame, shown: Mapping[str, str], posts: Collection[str]
) -> dict[str, SiteDocument]:
    """Read the documents that posts use, but posts, as the readers of the first window that uses each see them."""
    wanted = shown.keys() - posts
    show = make_page_view(workspace, dict(windows.select("window_id", "conversation_id").iter_rows()))
    unlinked = list_unlinked(workspace)
    addresses = DocumentLinks(workspace)
    rows = (
        workspace.tables.read("documents")
        .filter(pl.col("status") == "ok", pl.col("document_id").is_in(list(wanted)))
        .sort("published_at", "document_id", nulls_last=False)
    )
    folder = workspace.settings.documents.folder

    def describe(row: Mapping[str, Any]) -> SiteDocument:
        key = row["document_id"]
        tell = partial(show, shown[key], key)
        home = None if key in unlinked else addresses.find_address(row["uri"])
        return SiteDocument(
            document_id=key,
            title=tell(row["title"]),
            path="" if key in unlinked else locate(row["uri"], folder),
            published_at=row["published_at"],
            tags=tuple(map(tell, row["tags"])),
            text=tell(row["text"]),
            home=home if home is None or tell(home) == home else None,
        )

    return {row["document_id"]: describe(row) for row in workspace.date_locally(rows).iter_rows(named=True)}


def _explain_absence(
    workspace: Workspace, stored: Mapping[str, Any], row: Mapping[str, Any] | None
) -> WithoutPost:
    window = localize_window(stored)
    if row is None:
        reason = _NO_WRITER if workspace.writer is None else _NOT_MADE
    else:
        reason = f"{row['status'].replace('_', ' ')}: {row['reason']}"
    return WithoutPost(
        window_id=window["window_id"],
        conversation_id=window["conversation_id"],
        started_at=window["started_at"],
        ended_at=window["ended_at"],
        message_count=window["message_count"],
        reason=reason,
    )
