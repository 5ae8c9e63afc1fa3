"""Stages for the documents of a workspace and their chunks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from backstory.document_chunks import cut_document_chunks
from backstory.documents import DocumentRead, name_reading
from backstory.documents.file_hashes import FileHashes
from backstory.documents.files import FolderListing, join_listings
from backstory.documents.folder import read_listed_documents
from backstory.documents.reader import READERS
from backstory.documents.sources import DRAFT
from backstory.documents.written import drop_former_posts, list_written
from backstory.errors import SettingsError
from backstory.forgotten import leave_out_documents, read_forgotten
from backstory.ids import digest
from backstory.pipeline.copies import clear_copies_of_documents
from backstory.pipeline.document_languages import fill_in_languages
from backstory.pipeline.incremental import (
    WHOLE,
    content_of,
    find_pending,
    is_made_by_this_code,
    materialize_partitions,
    read_made,
    read_previous,
    write_beside,
)
from backstory.pipeline.inputs import hash_dependencies
from backstory.pipeline.posts_fingerprint import hash_document_files, hash_posts
from backstory.pipeline.refusals import hash_refusals, leave_out_refused
from backstory.pipeline.removals import require_documents
from backstory.pipeline.stage_report import CLEARED, StageReport, log_unread
from backstory.settings import SETTINGS_FILE
from backstory.sources.fetching import fetch_sources
from backstory.sources.listing import list_documents
from backstory.tables import hash_partitions
from backstory.tables.ledger import Entry
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)

_READING = "documents_reading"
_DOCUMENTS = "documents"
_NAMED = 5

_LOST_HISTORY: Final = (
    "the table documents of the last run is damaged, or of an earlier version of Backstory; it was made again from the "
    "files, without earlier revisions and deleted documents, and documents that are gone were not asked about"
)


def materialize_documents(workspace: Workspace) -> StageReport:
    """Read the document files into ``documents`` (revisions, tombstones, errors), and every file into ``sources``.

    Files that have changed on the disk since the last run are hashed (:mod:`backstory.documents.file_hashes`), and
    those with another content are parsed. If the folder is absent or empty, the counts hold a ``notice``, because
    windows then get no context.

    If the earlier table cannot be read, the ``notice`` says that its history is lost.

    Raises:
        RemovalError: All documents that an earlier run read are gone. Nothing is written.
    """
    settings = workspace.settings.documents
    known = workspace.ledger.read(_READING).get(WHOLE)
    is_current_code = is_made_by_this_code(workspace, "documents")
    apart = list_other_parts(workspace)
    fetch_sources(workspace)
    was_made = WHOLE in workspace.ledger.read(_DOCUMENTS)
    previous = read_previous(workspace, "documents")
    hashes = FileHashes(workspace.ledger)
    inputs = _inputs_of_documents(workspace, hashes)
    hashes.save()
    unchanged = hashes.unchanged
    read = read_listed_documents(
        _list_documents(workspace, apart),
        settings,
        previous,
        previous_reading=known.inputs if known and is_current_code and previous is not None else "",
        hashes=hashes,
        mentions_undated=workspace.has_chats,
    )
    inputs_after = _inputs_of_documents(workspace, hashes)
    if previous is not None:
        require_documents(workspace, previous, read.documents)
    read = leave_out_documents(read, read_forgotten(workspace.forgotten), settings.folder)
    read = leave_out_refused(workspace, read, settings.folder)
    documents = drop_former_posts(read.documents)
    read = replace(read, documents=documents)
    cleared = None if previous is None else clear_copies_of_documents(workspace, previous, documents)
    write_beside(
        workspace,
        "sources",
        {_DOCUMENTS: fill_in_languages(workspace, read)},
        inputs if inputs_after == inputs else "",
    )
    log_unread(read.sources)

    def compute(_: list[str]) -> Mapping[str, pl.DataFrame]:
        return {WHOLE: documents}

    is_another = known is None or known.inputs != read.reading
    if is_another:
        # A process killed here must not leave documents recorded under the inputs of another reading.
        workspace.ledger.forget(_READING, [WHOLE])
    counts = {**_count_documents(workspace, read), "files_unchanged": unchanged}
    if was_made and previous is None:
        counts["notice"] = "; ".join(
            [_LOST_HISTORY, *([str(counts["notice"])] if "notice" in counts else [])]
        )
    if cleared is not None:
        counts[CLEARED] = cleared
    report = materialize_partitions(
        workspace,
        "documents",
        {WHOLE: inputs},
        compute,
        read_inputs_again=lambda: {WHOLE: inputs_after},
        counts=counts,
    )
    if is_another:
        workspace.ledger.record(_READING, {WHOLE: Entry(read.reading, "", 0)})
    return report


def find_pending_documents(workspace: Workspace) -> list[str]:
    """Check whether :func:`materialize_documents` would write anything."""
    inputs = _inputs_of_documents(workspace, FileHashes(workspace.ledger))
    sources = workspace.ledger.read("sources").get(_DOCUMENTS)
    written = hash_partitions(workspace.tables, "sources").get(_DOCUMENTS, "")
    if sources is None or (sources.inputs, sources.content) != (inputs, written):
        return [WHOLE]
    return find_pending(workspace, "documents", {WHOLE: inputs})


def _list_documents(workspace: Workspace, apart: Sequence[Path]) -> FolderListing:
    """List the files of the documents, with those of the written posts if they are documents, too."""
    listing = list_documents(workspace, apart)
    if not workspace.feeds_back:
        return listing
    return join_listings(listing, list_written(workspace.written, workspace.settings.writers.folder))


def _inputs_of_documents(workspace: Workspace, hashes: FileHashes) -> str:
    posts = hash_document_files(workspace, list_other_parts(workspace), hashes)
    if workspace.feeds_back:
        posts = digest([posts, hash_posts(workspace.written, (), hashes)])
    reading = name_reading(workspace.settings.documents)
    left_out = read_forgotten(workspace.forgotten).fingerprint
    dates = f"mentions_undated={workspace.has_chats}"
    refused = hash_refusals(workspace)
    return digest([hash_dependencies(workspace, "documents"), reading, posts, left_out, dates, refused])


def list_other_parts(workspace: Workspace) -> list[Path]:
    """List the paths that are not documents, even if the workspace itself is the folder of documents."""
    return workspace.list_other_parts()


def _count_documents(workspace: Workspace, read: DocumentRead) -> dict[str, int | float | str]:
    sources = read.sources
    counts: dict[str, int | float | str] = {
        f"status_{status}": count
        for status, count in read.documents["status"].value_counts(sort=True).iter_rows()
    }
    counts |= {
        f"files_{status}": count for status, count in sources["status"].value_counts(sort=True).iter_rows()
    }
    counts["drafts"] = sources.filter(pl.col("reason") == DRAFT).height
    undated = sources.filter((pl.col("status") == "read") & pl.col("first").is_null())["source"]
    counts["undated"] = len(undated)
    if len(undated):
        more = f" and {len(undated) - _NAMED} more" if len(undated) > _NAMED else ""
        counts["undated_documents"] = ", ".join(undated.head(_NAMED)) + more
    if not read.documents["status"].is_in(["ok"]).any():
        state = "holds no document that can be served" if read.present else "is not there"
        counts["notice"] = (
            f"{workspace.settings.documents.folder}/ {state}, so that windows are given no context; "
            "put documents into it, or set `documents: {folder: ...}`"
        )
        logger.warning("%s", counts["notice"])
    return counts


def materialize_document_chunks(workspace: Workspace) -> StageReport:
    """Cut the searched documents into chunks. Unchanged revisions keep their chunks.

    Raises:
        SettingsError: The setting ``chunks.chunkers`` names a format that no reader has.
    """
    settings = workspace.settings.chunks
    _require_formats(settings.chunkers)
    embedder = workspace.embedder
    inputs = _inputs_of_document_chunks(workspace)
    counts: dict[str, int | float | str] = {}

    def compute(_: list[str]) -> Mapping[str, pl.DataFrame]:
        previous = read_previous(workspace, "document_chunks")
        chunks = cut_document_chunks(
            read_made(workspace, "documents", [WHOLE]),
            settings,
            max_tokens=embedder.max_input_tokens,
            count_tokens=embedder.count_tokens,
            counter_id=embedder.id,
            previous=previous if is_made_by_this_code(workspace, "document_chunks") else None,
        )
        counts["kept"] = 0 if previous is None else chunks.join(previous, on="chunk_id", how="semi").height
        counts["tokens"] = int(chunks["token_count"].sum())
        return {WHOLE: chunks}

    return materialize_partitions(workspace, "document_chunks", {WHOLE: inputs}, compute, counts=counts)


def _require_formats(formats: Iterable[str]) -> None:
    known = sorted({reader.format for reader in READERS})
    unknown = sorted(set(formats) - set(known))
    if unknown:
        raise SettingsError(
            f"{SETTINGS_FILE}: chunks.chunkers names {', '.join(unknown)}, which no reader reads; the formats are "
            f"{', '.join(known)}"
        )


def find_pending_document_chunks(workspace: Workspace) -> list[str]:
    """Check whether :func:`materialize_document_chunks` would write anything."""
    return find_pending(workspace, "document_chunks", {WHOLE: _inputs_of_document_chunks(workspace)})


def _inputs_of_document_chunks(workspace: Workspace) -> str:
    contents = content_of(workspace, "documents", [WHOLE])
    return digest([hash_dependencies(workspace, "document_chunks"), contents[WHOLE]])
