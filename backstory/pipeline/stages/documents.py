"""The stage of the table ``documents``: files read into revisions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import polars as pl

from backstory.base.ids import digest
from backstory.base.progress import announce
from backstory.base.wording import name_some
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.files import FolderListing, join_listings
from backstory.ingest.documents.folder import DocumentRead, name_reading, read_listed_documents
from backstory.ingest.documents.sources import DRAFT
from backstory.ingest.documents.written import drop_former_posts, list_written
from backstory.ingest.privacy.erasure_list import leave_out_documents, read_forgotten
from backstory.ingest.sources.fetching import fetch_sources
from backstory.ingest.sources.listing import list_documents
from backstory.pipeline.chats.copies import clear_copies_of_documents
from backstory.pipeline.chats.removals import require_documents
from backstory.pipeline.incremental.document_fingerprint import hash_document_files, hash_documents
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.incremental.partitions import is_made_by_this_code, read_previous, write_side_output
from backstory.pipeline.incremental.report import CLEARED, StageResult, log_unread
from backstory.pipeline.stages.document_languages import fill_in_languages
from backstory.pipeline.stages.refusals import hash_refusals, leave_out_refused
from backstory.pipeline.stages.stage import TableStage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

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
        return {WHOLE: _hash_inputs(self.workspace, self._hashes)}

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if the stage would write anything."""
        sources = self.workspace.catalog.read("sources").get(_DOCUMENTS)
        written = self.workspace.tables.hash_files("sources").get(_DOCUMENTS, "")
        if sources is None or (sources.inputs, sources.content) != (self.inputs[WHOLE], written):
            return [WHOLE]
        return super().stale_partitions()

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:  # noqa: ARG002 - there is one
        """Return the documents that :meth:`build` has read."""
        return {WHOLE: self._rows}

    def inputs_after(self) -> Mapping[str, str]:
        """Return the hash of the files after they were read."""
        return self._inputs_after

    def build(self) -> StageResult:
        """Read the documents, and write both tables.

        Raises:
            RemovalError: All documents that an earlier run read are gone. Nothing is written.
        """
        workspace, settings = self.workspace, self.workspace.settings.documents
        known = workspace.catalog.read(_READING).get(WHOLE)
        is_current_code = is_made_by_this_code(workspace, "documents")
        apart = workspace.list_other_parts()
        fetch_sources(workspace)
        was_made = WHOLE in workspace.catalog.read(_DOCUMENTS)
        previous = read_previous(workspace, "documents")
        hashes, inputs = self._hashes, self.inputs[WHOLE]
        hashes.save()
        unchanged = hashes.unchanged
        read = read_listed_documents(
            _list_documents(workspace, apart),
            settings,
            previous,
            previous_reading=known.inputs if known and is_current_code and previous is not None else "",
            hashes=hashes,
            timezone=workspace.settings.conversations.timezone,
            mentions_undated=workspace.has_chats,
            progress=workspace.runs.follow("files read", partial(announce, "reading documents")),
        )
        self._inputs_after = {WHOLE: _hash_inputs(workspace, hashes)}
        if previous is not None:
            require_documents(workspace, previous, read.documents)
        read = leave_out_documents(read, read_forgotten(workspace.forgotten), settings.folder)
        read = leave_out_refused(workspace, read, settings.folder)
        self._rows = drop_former_posts(read.documents)
        read = replace(read, documents=self._rows)
        cleared = None if previous is None else clear_copies_of_documents(workspace, previous, self._rows)
        sources = {_DOCUMENTS: fill_in_languages(workspace, read)}
        is_settled = self._inputs_after[WHOLE] == inputs
        write_side_output(workspace, "sources", sources, inputs if is_settled else "")
        log_unread(read.sources)
        is_another = known is None or known.inputs != read.reading
        if is_another:
            # A process killed here must not leave documents recorded under the inputs of another reading.
            workspace.catalog.forget(_READING, [WHOLE])
        self.counts |= {**_count_documents(workspace, read), "files_unchanged": unchanged}
        if was_made and previous is None:
            notices = [_LOST_HISTORY, *([str(self.counts["notice"])] if "notice" in self.counts else [])]
            self.counts["notice"] = "; ".join(notices)
        if cleared is not None:
            self.counts[CLEARED] = cleared
        report = super().build()
        if is_another:
            workspace.catalog.record(_READING, {WHOLE: Entry(read.reading, "", 0)})
        return report

    @cached_property
    def _hashes(self) -> FileHashes:
        return FileHashes(self.workspace.catalog)


def _list_documents(workspace: Workspace, apart: Sequence[Path]) -> FolderListing:
    """List the files of the documents, with those of the written posts if they are documents, too."""
    listing = list_documents(workspace, apart)
    if not workspace.feeds_back:
        return listing
    return join_listings(listing, list_written(workspace.posts_dir, workspace.settings.writers.folder))


def _hash_inputs(workspace: Workspace, hashes: FileHashes) -> str:
    posts = hash_document_files(workspace, workspace.list_other_parts(), hashes)
    if workspace.feeds_back:
        posts = digest([posts, hash_documents(workspace.posts_dir, (), hashes)])
    reading = name_reading(workspace.settings.documents, timezone=workspace.settings.conversations.timezone)
    left_out = read_forgotten(workspace.forgotten).fingerprint
    dates = f"mentions_undated={workspace.has_chats}"
    refused = hash_refusals(workspace)
    return digest([hash_dependencies(workspace, "documents"), reading, posts, left_out, dates, refused])


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
