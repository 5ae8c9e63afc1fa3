"""The stage of the table ``documents``: files read into revisions, with their languages.

A document with a text that the embedding service refuses is a failed file until it, or the model, changes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.base.progress import announce
from backstory.base.wording import name_some
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.files import FolderListing
from backstory.ingest.documents.folder import DocumentRead, name_reading, read_listed_documents
from backstory.ingest.documents.rows import DRAFT
from backstory.ingest.documents.written import drop_former_posts, list_written, name_source
from backstory.ingest.privacy.erasure_list import leave_out_documents, read_forgotten
from backstory.ingest.sources.listing import fetch_sources, hash_listing
from backstory.pipeline.chats.copies import clear_copies_of_documents
from backstory.pipeline.chats.removals import require_documents
from backstory.pipeline.incremental.inputs import (
    code_version,
    hash_dependencies,
    is_made_by_this_code,
    read_previous,
)
from backstory.pipeline.incremental.report import CLEARED, log_unread
from backstory.pipeline.stages.stage import TableStage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE, Made
from backstory.text.languages import detect_language

logger = logging.getLogger(__name__)

_READING = "documents_reading"
_DOCUMENTS = "documents"
_NAMED = 5

_LOST_HISTORY: Final = (
    "the table documents of the last run is damaged, or of an earlier version of Backstory; this run built it again "
    "from the files. It lacks earlier revisions and deleted documents, and the run did not ask about missing documents"
)


class DocumentsStage(TableStage):
    """Reads the document files into ``documents`` (revisions, tombstones, errors), and every file into ``sources``.

    Files that have changed on the disk since the last run are hashed (:mod:`backstory.ingest.documents.file_hashes`),
    and those with another content are parsed. If the folder is absent or empty, the counts hold a ``notice``, because
    windows then get no context. If the earlier table cannot be read, the ``notice`` says that its history is lost.
    """

    table = "documents"
    partitioned = False
    side_outputs = ("sources",)

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the files and the settings."""
        return {WHOLE: _hash_inputs(self.workspace, self._listing, self._hashes)}

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if the stage would write anything."""
        sources = self.workspace.catalog.read("sources").get(_DOCUMENTS)
        written = self.workspace.tables.hash_files("sources").get(_DOCUMENTS, "")
        if sources is None or (sources.inputs, sources.content) != (self.inputs[WHOLE], written):
            return [WHOLE]
        return super().stale_partitions()

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:  # noqa: ARG002 - there is one
        """Return the documents that :meth:`begin` has read."""
        return {WHOLE: self._rows}

    def inputs_after(self) -> Mapping[str, str]:
        """Return the hash of the files after they were read."""
        return self._inputs_after

    def begin(self) -> None:
        """Read the documents, and write ``sources``.

        If all documents that an earlier run read are gone, nothing is written (``RemovalError``).
        """
        workspace = self.workspace
        fetch_sources(workspace)
        was_made = WHOLE in workspace.catalog.read(_DOCUMENTS)
        hashes, inputs = self._hashes, self.inputs[WHOLE]
        hashes.save()
        unchanged = hashes.unchanged
        read, previous = read_documents(workspace, self._listing, hashes)
        self._inputs_after = {WHOLE: _hash_inputs(workspace, workspace.list_documents(), hashes)}
        self._rows = read.documents
        cleared = None if previous is None else clear_copies_of_documents(workspace, previous, self._rows)
        is_settled = self._inputs_after[WHOLE] == inputs
        sources = Made(fill_in_languages(workspace, read), inputs if is_settled else "")
        workspace.tables.commit({("sources", _DOCUMENTS): sources})
        log_unread(read.sources)
        self._reading = read.reading
        known = workspace.catalog.read(_READING).get(WHOLE)
        if known is None or known.inputs != read.reading:
            # A process killed here must not leave documents recorded under the inputs of another reading.
            workspace.catalog.forget(_READING, [WHOLE])
        self.counts |= {**_count_documents(workspace, read), "files_unchanged": unchanged}
        if was_made and previous is None:
            notices = [_LOST_HISTORY, *([str(self.counts["notice"])] if "notice" in self.counts else [])]
            self.counts["notice"] = "; ".join(notices)
        if cleared is not None:
            self.counts[CLEARED] = cleared

    def end(self) -> None:
        """Record the reading by which the documents were read."""
        if WHOLE not in self.workspace.catalog.read(_READING):
            self.workspace.catalog.record(_READING, {WHOLE: Entry(self._reading, "", 0)})

    @cached_property
    def _listing(self) -> FolderListing:
        return self.workspace.list_documents()

    @cached_property
    def _hashes(self) -> FileHashes:
        return FileHashes(self.workspace.catalog)


def read_documents(
    workspace: Workspace, listing: FolderListing, hashes: FileHashes
) -> tuple[DocumentRead, pl.DataFrame | None]:
    """Read the documents as they are to be stored, and the table as it is; None if that cannot be read.

    Nothing is written. Documents are parsed again whose hashes are not those of the table. If all documents that an
    earlier run read are gone, it raises ``RemovalError``.
    """
    previous = read_previous(workspace, "documents")
    known = workspace.catalog.read(_READING).get(WHOLE)
    is_known = previous is not None and is_made_by_this_code(workspace, "documents")
    read = read_listed_documents(
        listing,
        workspace.settings.documents,
        previous,
        previous_reading=known.inputs if known and is_known else "",
        hashes=hashes,
        timezone=workspace.settings.conversations.timezone,
        mentions_undated=workspace.has_chats,
        progress=workspace.runs.follow("files read", partial(announce, "reading documents")),
    )
    if previous is not None:
        require_documents(workspace, previous, read.documents)
    return _leave_out(workspace, read), previous


def read_posts_again(workspace: Workspace, posts: pl.DataFrame, slugs: Collection[str]) -> pl.DataFrame:
    """Read some of the written posts as they are now."""
    settings, folder = workspace.settings, workspace.settings.writers.folder
    uris = [f"{WRITTEN_PREFIX}{folder}/{slug}.md" for slug in slugs]
    is_read = pl.col("uri").is_in(uris)
    listing = list_written(workspace.posts_dir, folder)
    timezone = settings.conversations.timezone
    read = read_listed_documents(
        replace(listing, files=tuple(file for file in listing.files if file.uri in uris)),
        settings.documents,
        posts.filter(is_read),
        previous_reading=name_reading(settings.documents, timezone=timezone),
        timezone=timezone,
    )
    rows = _leave_out(workspace, read).documents
    return pl.concat([posts.filter(~is_read), rows]).sort("uri", maintain_order=True)


def _leave_out(workspace: Workspace, read: DocumentRead) -> DocumentRead:
    """Leave out what was forgotten, what the embedder refuses, and former posts."""
    folder = workspace.settings.documents.folder
    read = leave_out_documents(read, read_forgotten(workspace.forgotten), folder)
    read = leave_out_refused(workspace, read, folder)
    return replace(read, documents=drop_former_posts(read.documents))


def _hash_inputs(workspace: Workspace, listing: FolderListing, hashes: FileHashes) -> str:
    files = hash_listing(listing, hashes)
    reading = name_reading(workspace.settings.documents, timezone=workspace.settings.conversations.timezone)
    left_out = read_forgotten(workspace.forgotten).fingerprint
    dates = f"mentions_undated={workspace.has_chats}"
    refused = hash_refusals(workspace)
    return digest([hash_dependencies(workspace, "documents"), reading, files, left_out, dates, refused])


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
        counts["undated_documents"] = name_some(undated.to_list(), _NAMED)
    if not read.documents["status"].is_in(["ok"]).any():
        state = "holds no document that can be served" if read.present else "does not exist"
        counts["notice"] = (
            f"{workspace.settings.documents.folder}/ {state}, so windows get no context; "
            "put documents into it, or set `documents: {folder: ...}`"
        )
        logger.warning("%s", counts["notice"])
    return counts


REVISION_OF_LANGUAGES: Final = "2"
"""Version of the language detection. Change it when the detection changes."""

_LANGUAGES: Final = "document_languages"


def fill_in_languages(workspace: Workspace, read: DocumentRead) -> pl.DataFrame:
    """Fill in the languages of the files in ``sources``, and forget those of other documents."""
    detected = list_languages(workspace, read.documents, read.reading)
    workspace.catalog.forget(_LANGUAGES, workspace.catalog.read(_LANGUAGES).keys() - detected.keys())
    folder = workspace.settings.documents.folder
    languages = {name_source(folder, uri): language for uri, language in detected.items()}
    language = pl.col("source").replace_strict(languages, default=None, return_dtype=pl.String)
    return read.sources.with_columns(language=pl.when(pl.col("status") == "read").then(language))


def list_languages(workspace: Workspace, documents: pl.DataFrame, reading: str) -> dict[str, str | None]:
    """List the language of each document that can be served, by uri. Only changed documents are detected again."""
    rows = documents.filter(pl.col("status") == "ok").select("uri", "revision", "title", "text").rows()
    versions = [REVISION_OF_LANGUAGES, code_version("documents"), reading]
    inputs = {uri: digest([*versions, revision]) for uri, revision, _, _ in rows}
    recorded = {uri: entry.content for uri, entry in workspace.catalog.read(_LANGUAGES).items()}
    pending = set(workspace.catalog.pending(_LANGUAGES, inputs, recorded))
    detected = {
        uri: Entry(inputs[uri], detect_language([title, text]) or "", 0)
        for uri, _, title, text in rows
        if uri in pending
    }
    workspace.catalog.record(_LANGUAGES, detected)
    known = workspace.catalog.read(_LANGUAGES)
    return {uri: known[uri].content or None for uri in inputs}


_REFUSED: Final = "refused_documents"


def record_refusal(workspace: Workspace, uri: str, revision: str, reason: str) -> None:
    """Record that the embedder of the workspace refuses a text of a revision of a document."""
    entry = Entry(_name_refused(workspace, revision), reason, 0)
    workspace.catalog.record(_REFUSED, {uri: entry})


def hash_refusals(workspace: Workspace) -> str:
    """Hash what :func:`leave_out_refused` depends on besides the documents; empty if nothing was ever refused."""
    refused = workspace.catalog.read(_REFUSED)
    if not refused:
        return ""
    return digest(
        [workspace.embedder.id, *(f"{uri} {entry.inputs}" for uri, entry in sorted(refused.items()))]
    )


def leave_out_refused(workspace: Workspace, read: DocumentRead, folder: str) -> DocumentRead:
    """Drop documents whose text the embedder refuses; their files are ``failed`` in ``sources``, with the reason."""
    refused = workspace.catalog.read(_REFUSED)
    served = read.documents.filter(pl.col("status") == "ok", pl.col("uri").is_in(list(refused)))
    reasons = {
        name_source(folder, uri): refused[uri].content
        for uri, revision in served.select("uri", "revision").iter_rows()
        if refused[uri].inputs == _name_refused(workspace, revision)
    }
    if not reasons:
        return read
    names = pl.Series([name_source(folder, uri) for uri in read.documents["uri"]], dtype=pl.String)
    is_refused = pl.col("source").is_in(list(reasons))
    return replace(
        read,
        documents=read.documents.filter(~names.is_in(list(reasons))),
        sources=read.sources.with_columns(
            status=pl.when(is_refused).then(pl.lit("failed")).otherwise("status"),
            reason=pl.when(is_refused)
            .then(pl.col("source").replace_strict(reasons, default=None, return_dtype=pl.String))
            .otherwise("reason"),
            rows=pl.when(is_refused).then(pl.lit(0)).otherwise("rows").cast(read.sources.schema["rows"]),
        ),
    )


def _name_refused(workspace: Workspace, revision: str) -> str:
    return digest([workspace.embedder.id, revision])
