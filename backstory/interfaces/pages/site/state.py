"""Detect whether a site or any of its inputs has changed since the site was written.

All inputs that may be read are hashed: a site is rebuilt too often rather than too seldom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import backstory
from backstory.base.ids import digest
from backstory.index.snapshot.publication import current_version
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.pipeline.incremental.document_fingerprint import hash_document_files, hash_documents
from backstory.pipeline.workspace import Workspace
from backstory.storage.rendered_pages import list_site_pages
from backstory.storage.tables.ledger import Entry
from backstory.storage.tables.parquet import hash_partitions
from backstory.storage.tables.schemas import TABLES

_SITE: Final = "site"
"""Name in the ledger of the sites in the workspace, by folder: inputs, hash of the pages, and their number."""

_RENDERERS: Final = ("jinja2", "markdown-it-py")


def hash_inputs(workspace: Workspace) -> str:
    """Hash the inputs of a workspace's pages: tables, files of posts and documents, the fit, settings and code."""
    tables = [
        f"{table} {key} {content}"
        for table in TABLES
        for key, content in sorted(hash_partitions(workspace.tables, table).items())
    ]
    files = [
        hash_documents(workspace.posts_dir, (), FileHashes(workspace.ledger)),
        hash_document_files(workspace, workspace.list_other_parts()),
        current_version(workspace.index),
        # Reports describe the fit by which their documents were weighed, as long as it is the one of today.
        hashlib.sha256(workspace.learned.read_bytes()).hexdigest() if workspace.learned.is_file() else "",
    ]
    return digest([_hash_code(), workspace.settings.model_dump_json(), *files, *tables])


def is_as_written(workspace: Workspace, folder: Path, inputs: str) -> bool:
    """Return whether the folder holds exactly the pages that were written from these inputs."""
    known = workspace.ledger.read(_SITE).get(_name(workspace, folder))
    return known is not None and known.inputs == inputs and known.content == _hash_folder(folder)


def record_pages(workspace: Workspace, folder: Path, inputs: str, pages: Mapping[str, bytes]) -> None:
    """Record the pages that were written into a folder in the workspace. Nothing is recorded of other folders."""
    if not folder.is_relative_to(workspace.root):
        return
    written = _hash_pages({name: hashlib.sha256(page).hexdigest() for name, page in pages.items()})
    workspace.ledger.record(_SITE, {_name(workspace, folder): Entry(inputs, written, len(pages))})


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
