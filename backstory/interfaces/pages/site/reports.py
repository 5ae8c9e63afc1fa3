"""The pages of a site that show its windows: the messages, and why a window has its documents."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from backstory.base.ids import digest
from backstory.base.local_times import localize_window
from backstory.interfaces.pages.report.page import TrailLink, encode_page
from backstory.interfaces.pages.report.window_page import render_window_page
from backstory.interfaces.pages.report.window_reading import DOCUMENT_COLUMNS, ReportTables, read_report
from backstory.interfaces.pages.site.addresses import INDEX, address_post, address_window, link_pages
from backstory.interfaces.pages.site.library import Library
from backstory.interfaces.pages.site.links import SiteLinks
from backstory.interfaces.pages.site.page import Page
from backstory.interfaces.pages.site.state import SiteInputs
from backstory.pipeline.chats.named_documents import hash_shown_documents
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.workspace import Workspace

_TABLES: Final = ("windows", "window_contexts", "window_chunks", "hits", "decisions", "contexts")
_DAY: Final = timedelta(days=1)


def list_reports(
    workspace: Workspace, library: Library, links: SiteLinks, inputs: SiteInputs
) -> dict[str, Page]:
    """List the report of each window that has a context and all its messages, by the address of its page.

    Args:
        workspace: A workspace with windows.
        library: What the site shows.
        links: The pages of its posts and documents.
        inputs: What the site is made from.
    """
    return dict(_list(workspace, library, links, inputs))


def _list(
    workspace: Workspace, library: Library, links: SiteLinks, inputs: SiteInputs
) -> Iterator[tuple[str, Page]]:
    posts = {one: address_post(post.slug) for post in library.posts for one in post.window.window_ids}
    shown = posts.keys() | {window.window_id for window in library.without_post}
    with_context = set(workspace.tables.read("window_contexts", columns=("window_id",))["window_id"])
    stored = set(workspace.tables.read("messages", columns=("message_id",))["message_id"])
    found = _read_found(workspace)
    documents = _hash_documents(workspace)
    people, named = read_people(workspace), hash_shown_documents(workspace)
    days = sorted(inputs.tables["messages"])
    tables = ReportTables(workspace)
    for window in workspace.tables.read("windows").iter_rows(named=True):
        key = window["window_id"]
        # Between two stages of a run, a window may lack its context, which the list of windows without a post says.
        if key not in shown or key not in with_context or not stored.issuperset(window["message_ids"]):
            continue
        here = address_window(key)
        trail = [TrailLink(link_pages(here, INDEX), "All posts")]
        if key in posts:
            trail.append(TrailLink(link_pages(here, posts[key]), "The post of this window"))
        sources = {one: address for one in found.get(key, ()) if (address := links.point(here, one))}
        made_from = [
            *(inputs.tables[table].get(window["partition"], "") for table in _TABLES),
            *_pick_messages(window, days, inputs.tables["messages"]),
            *(documents.get(one, "") for one in found.get(key, ())),
            named,
            # Who joins may take a name away from somebody whose messages stay the same.
            repr(sorted(people.names_in(window["conversation_id"]).items())),
        ]
        yield (
            here,
            Page(
                digest([inputs.common, *made_from, repr(trail), repr(sources)]),
                partial(_render, workspace, localize_window(window), tables, sources, trail),
            ),
        )


def _render(
    workspace: Workspace,
    window: Mapping[str, Any],
    tables: ReportTables,
    sources: Mapping[str, str],
    trail: Sequence[TrailLink],
) -> bytes:
    report = read_report(workspace, window, tables)
    return encode_page(render_window_page(report, sources, trail))


def _read_found(workspace: Workspace) -> dict[str, tuple[str, ...]]:
    """Read the ids of the documents that were found for each window."""
    pairs = workspace.tables.read("decisions", columns=("window_id", "document_id")).unique()
    found: dict[str, list[str]] = defaultdict(list)
    for window_id, document_id in pairs.sort("window_id", "document_id").iter_rows():
        found[window_id].append(document_id)
    return {key: tuple(ids) for key, ids in found.items()}


def _hash_documents(workspace: Workspace) -> dict[str, str]:
    """Hash what a report reads of each document. The text of a stored chunk follows from its id."""
    rows: dict[str, list[str]] = defaultdict(list)
    documents = workspace.tables.read("documents", columns=DOCUMENT_COLUMNS)
    for row in documents.sort("document_id", "revision").iter_rows():
        rows[row[0]].append(repr(row))
    return {key: digest(lines) for key, lines in rows.items()}


def _pick_messages(
    window: Mapping[str, Any], days: Sequence[str], hashes: Mapping[str, str]
) -> Iterator[str]:
    """Return the hashes of the partitions that hold a window's messages, and of some before, to be safe.

    A window with an overlap begins in an earlier partition, whose key sorts before the day of its beginning.
    """
    begin = str((window["started_at"] - _DAY).date())
    first = max(bisect_left(days, begin) - 1, 0)
    last = bisect_left(days, window["partition"]) + 1
    return (hashes[key] for key in days[first:last])
