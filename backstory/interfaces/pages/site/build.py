"""Builds the site of a workspace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backstory.base.errors import InputError
from backstory.interfaces.pages.report.documents import link_sources
from backstory.interfaces.pages.report.page import TrailLink
from backstory.interfaces.pages.report.window_page import render_window_page
from backstory.interfaces.pages.report.window_reading import read_window_report
from backstory.interfaces.pages.site.addresses import INDEX, address_post, address_window, link_pages
from backstory.interfaces.pages.site.folder import Written, encode_page, write_folder
from backstory.interfaces.pages.site.library import Library
from backstory.interfaces.pages.site.links import collect_links
from backstory.interfaces.pages.site.pages import render_pages
from backstory.interfaces.pages.site.reading import read_library
from backstory.interfaces.pages.site.state import hash_inputs, is_as_written, record_pages
from backstory.pipeline.chats.copies import record_copy
from backstory.pipeline.workspace import Workspace
from backstory.storage.rendered_pages import SITE_FOLDER, list_site_pages


@dataclass(frozen=True)
class Site:
    """A site that was built.

    Attributes:
        index: Its first page.
        library: What it shows.
        written: Which pages were written.
    """

    index: Path
    library: Library
    written: Written


def build_site(workspace: Workspace, output: Path | None = None) -> Site:
    """Write the site of a workspace: an index, and a page for each post, document, tag and window.

    Pages of a site in the workspace are rendered only if something that they are made from has changed, or a page is
    not as it was written.

    Args:
        workspace: A workspace with windows.
        output: Folder to write; None for ``site`` in the workspace.

    Raises:
        InputError: There are no windows yet, or the folder holds something else.
    """
    folder = (output or workspace.root / SITE_FOLDER).absolute()
    inputs = hash_inputs(
        workspace
    )  # before they are read: what changes meanwhile is rendered by the next build
    library = read_library(workspace)
    if is_as_written(workspace, folder, inputs):
        written = Written(0, len(list_site_pages(folder)), 0)
    else:
        pages = render_pages(library, _render_reports(workspace, library, folder))
        written = write_folder(folder, pages)
        record_pages(workspace, folder, inputs, {name: encode_page(html) for name, html in pages.items()})
    if output is not None:
        record_copy(workspace, folder)
    return Site(folder / INDEX, library, written)


def _render_reports(workspace: Workspace, library: Library, folder: Path) -> dict[str, str]:
    """Render the report of each window that has a context, by the address of its page."""
    posts = {
        window_id: address_post(post.slug) for post in library.posts for window_id in post.window.window_ids
    }
    windows = [*posts, *(window.window_id for window in library.without_post)]
    links = collect_links(library)
    pages = {}
    for window_id in windows:
        here = address_window(window_id)
        try:
            report = read_window_report(workspace, window_id)
        except InputError:  # the window has no context, which the list of windows without a post says
            continue
        sources = link_sources(report, workspace.documents_dir, (folder / here).parent, workspace.root)
        sources |= {
            document.document_id: address
            for document in report.documents
            if (address := links.point(here, document.document_id))
        }
        trail = [TrailLink(link_pages(here, INDEX), "All posts")]
        if window_id in posts:
            trail.append(TrailLink(link_pages(here, posts[window_id]), "The post of this window"))
        pages[here] = render_window_page(report, sources, trail)
    return pages
