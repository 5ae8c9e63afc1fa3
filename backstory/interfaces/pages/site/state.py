"""Detect whether a site, one of its pages or any of their inputs has changed since it was written.

All inputs that may be read are hashed: a site is looked through too often rather than too seldom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import backstory
from backstory.base.ids import digest
from backstory.index.snapshot import current_version
from backstory.ingest.documents.files import FileHashes, list_written
from backstory.ingest.sources.listing import hash_listing
from backstory.pipeline.rendered_pages import list_site_pages
from backstory.pipeline.run.plan import hash_document_files
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.schemas import TABLES

_SITE: Final = "site"
"""Name in the catalog of the sites in the workspace, by folder: inputs, hash of the pages, and their number."""

_PAGES: Final = "site pages"
"""Name in the catalog of the single pages of these sites, by hashes of folder and address: inputs and hash of a page.

An address may hold the id of a window, which must be gone from every file when the window is forgotten.
"""

_RENDERERS: Final = ("jinja2", "markdown-it-py")


@dataclass(frozen=True)
class SiteInputs:
    """Hashes of what a site is made from.

    Attributes:
        common: Of what any page may depend on: the code, the settings and the fit.
        tables: Of each partition, by table and key.
        files: Of the files of posts and documents, and the version of the index.
    """

    common: str
    tables: Mapping[str, Mapping[str, str]]
    files: str

    @property
    def whole(self) -> str:
        """Hash of everything."""
        partitions = [
            f"{table} {key} {content}"
            for table, hashes in self.tables.items()
            for key, content in sorted(hashes.items())
        ]
        return digest([self.common, self.files, *partitions])


def hash_inputs(workspace: Workspace) -> SiteInputs:
    """Hash the inputs of a workspace's pages: tables, files of posts and documents, the fit, settings and code."""
    # Reports describe the fit by which their documents were weighed, as long as it is the one of today.
    learned = (
        hashlib.sha256(workspace.learned.read_bytes()).hexdigest() if workspace.learned.is_file() else ""
    )
    files = [
        hash_listing(
            list_written(workspace.posts_dir, workspace.settings.writers.folder),
            FileHashes(workspace.catalog),
        ),
        hash_document_files(workspace),
        current_version(workspace.index),
    ]
    return SiteInputs(
        digest([_hash_code(), workspace.settings.model_dump_json(), learned]),
        {
            table: {key: entry.content for key, entry in found.items() if entry.rows}
            for table, found in workspace.catalog.read_all(TABLES).items()
        },
        digest(files),
    )


def is_as_written(workspace: Workspace, folder: Path, inputs: SiteInputs) -> bool:
    """Return whether the folder holds exactly the pages that were written from these inputs."""
    known = workspace.catalog.read(_SITE).get(_name(workspace, folder))
    return known is not None and known.inputs == inputs.whole and known.content == _hash_folder(folder)


def read_pages(workspace: Workspace, folder: Path) -> dict[str, Entry]:
    """Return inputs and hash of each page that was written into a folder in the workspace, by its name there.

    The names are those of :func:`name_pages`.
    """
    if not folder.is_relative_to(workspace.root):
        return {}
    place = _name_place(workspace, folder)
    return {key: entry for key, entry in workspace.catalog.read(_PAGES).items() if key.startswith(place)}


def name_pages(workspace: Workspace, folder: Path, addresses: Iterable[str]) -> dict[str, str]:
    """Return the names of pages in the catalog, by address."""
    place = _name_place(workspace, folder)
    return {address: f"{place}{digest([address])}" for address in addresses}


def record_pages(workspace: Workspace, folder: Path, inputs: SiteInputs, pages: Mapping[str, Entry]) -> None:
    """Record the pages that are in a folder in the workspace. Nothing is recorded of other folders.

    Args:
        workspace: An open workspace.
        folder: The folder of the site.
        inputs: What the site was made from.
        pages: Inputs and hash of each page, by address.
    """
    if not folder.is_relative_to(workspace.root):
        return
    known = read_pages(workspace, folder)
    names = name_pages(workspace, folder, pages)
    named = {names[address]: entry for address, entry in pages.items()}
    workspace.catalog.forget(_PAGES, known.keys() - named.keys())
    workspace.catalog.record(
        _PAGES, {name: entry for name, entry in named.items() if known.get(name) != entry}
    )
    written = _hash_pages({address: entry.content for address, entry in pages.items()})
    workspace.catalog.record(_SITE, {_name(workspace, folder): Entry(inputs.whole, written, len(pages))})


def _name_place(workspace: Workspace, folder: Path) -> str:
    return f"{digest([_name(workspace, folder)], length=8)}/"


def _name(workspace: Workspace, folder: Path) -> str:
    return folder.relative_to(workspace.root).as_posix() if folder.is_relative_to(workspace.root) else ""


def _hash_folder(folder: Path) -> str:
    return _hash_pages(
        {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in list_site_pages(folder)
        }
    )


def _hash_pages(hashes: Mapping[str, str]) -> str:
    return digest(f"{name} {content}" for name, content in sorted(hashes.items()))


@cache
def _hash_code() -> str:
    """Hash the code and the templates of this package, and the versions of the packages that render them."""
    package = Path(backstory.__file__).parent
    files = sorted(path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    hashes = [
        f"{path.relative_to(package).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in files
    ]
    return digest([*(f"{name} {metadata.version(name)}" for name in _RENDERERS), *hashes])
