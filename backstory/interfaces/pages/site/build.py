"""Builds the site of a workspace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from backstory.base.ids import digest
from backstory.interfaces.pages.site.addresses import INDEX
from backstory.interfaces.pages.site.folder import Written, write_folder
from backstory.interfaces.pages.site.library import Library
from backstory.interfaces.pages.site.links import collect_links
from backstory.interfaces.pages.site.pages import Frame, list_pages
from backstory.interfaces.pages.site.reading import read_library
from backstory.interfaces.pages.site.reports import list_reports
from backstory.interfaces.pages.site.state import (
    hash_inputs,
    is_as_written,
    name_pages,
    read_pages,
    record_pages,
)
from backstory.pipeline.chats.copies import record_copy
from backstory.pipeline.rendered_pages import SITE_FOLDER, list_site_pages
from backstory.pipeline.workspace import Workspace


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


def build_site(workspace: Workspace, output: Path | None = None, *, windows: bool = False) -> Site:
    """Write the site of a workspace: an index, and a page for each post, document, tag and month.

    A page of a site in the workspace is made only if something that it is made from has changed, or if it is not as it
    was written.

    Args:
        workspace: A workspace with windows.
        output: Folder to write; None for ``site`` in the workspace.
        windows: Whether it has a page for each window, too, which shows all messages and all found passages.

    Raises:
        InputError: There are no windows yet, or the folder holds something else.
    """
    site = _build_site(workspace, (output or workspace.root / SITE_FOLDER).absolute(), windows=windows)
    if output is not None:
        record_copy(workspace, site.index.parent)
    return site


def _build_site(workspace: Workspace, folder: Path, *, windows: bool) -> Site:
    # Before they are read: what changes meanwhile is rendered by the next build.
    inputs = hash_inputs(workspace)
    inputs = replace(inputs, common=digest([inputs.common, str(windows)]))
    library = read_library(workspace)
    if is_as_written(workspace, folder, inputs):
        written = Written(0, len(list_site_pages(folder)), 0)
    else:
        links = collect_links(library)
        settings = workspace.settings.site
        reports = list_reports(workspace, library, links, inputs) if windows else {}
        pages = list_pages(library, links, reports, Frame(settings.title, settings.base_url, inputs.common))
        stored = read_pages(workspace, folder)
        names = name_pages(workspace, folder, pages)
        known = {address: stored[name] for address, name in names.items() if name in stored}
        written, entries = write_folder(folder, pages, known)
        record_pages(workspace, folder, inputs, entries)
    return Site(folder / INDEX, library, written)
