"""The stages of the table ``document_chunks`` and of the search index: documents cut into chunks, and indexed."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import ClassVar

import polars as pl

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import ConflictError, ModelError, SearchIndexError, SettingsError, StateError
from backstory.index.build import arrange, publish_content
from backstory.index.calibration import calibrate
from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.index.milvus import is_served
from backstory.index.posts import with_posts
from backstory.index.snapshot import current_version, find_damage, prune, read_manifest
from backstory.ingest.documents.reader import READERS
from backstory.models.embeddings.protocol import Vectors
from backstory.models.failures import hide_quotes
from backstory.pipeline.incremental.inputs import is_made_by_this_code, read_previous
from backstory.pipeline.incremental.visible_documents import IS_POST
from backstory.pipeline.query_index import EMBEDDING_OF_INDEX
from backstory.pipeline.sharing import fetch_snapshot, send_snapshot
from backstory.pipeline.stages.documents import (
    DocumentsStage,
    read_posts_again,
    record_refusal,
)
from backstory.pipeline.stages.posts import FILES
from backstory.pipeline.stages.stage import AddedPosts, RunResources, Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.writing.post_files import hash_file

logger = logging.getLogger(__name__)


class DocumentChunksStage(Stage):
    """Cuts the searched documents into chunks. Unchanged revisions keep their chunks."""

    table = "document_chunks"
    reads = ("documents",)
    contents = ("documents",)
    partitioned = False

    def compute(self, _: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Cut the documents whose chunks are not known."""
        [documents], previous = tables, read_previous(self.workspace, "document_chunks")
        chunks = cut_documents(self.workspace, documents, previous)
        kept = 0 if previous is None else chunks.join(previous, on="chunk_id", how="semi").height
        self.counts |= {"kept": kept, "tokens": int(chunks["token_count"].sum())}
        return chunks


def cut_documents(
    workspace: Workspace, documents: pl.DataFrame, previous: pl.DataFrame | None
) -> pl.DataFrame:
    """Cut documents into chunks; revisions whose chunks are in the table as it was keep them."""
    settings, embedder = workspace.settings.chunks, workspace.embedder
    known = {reader.name for reader in READERS}
    if unknown := settings.chunkers.keys() - known:
        raise SettingsError(
            f"{SETTINGS_FILE}: chunks.chunkers names {', '.join(sorted(unknown))}, which no reader reads; the formats "
            f"are {', '.join(sorted(known))}",
            code="unknown_format",
        )
    return cut_document_chunks(
        documents,
        settings,
        max_tokens=embedder.max_input_tokens,
        counter=embedder,
        counter_id=embedder.id,
        previous=previous if is_made_by_this_code(workspace, "document_chunks") else None,
    )


class SearchIndexStage(Stage):
    """Embeds the chunks that are not in the cache, and publishes a snapshot if anything changed.

    A document with a text that the service refuses becomes a failed file (:mod:`backstory.pipeline.stages.documents`).
    """

    table = "search_index"
    reads = ("documents", "document_chunks")
    contents = ("documents", "document_chunks")
    partitioned = False
    without_refused: ClassVar[tuple[type[Stage], ...]] = (DocumentsStage, DocumentChunksStage)
    """What is made again if the service refuses a document."""

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if the stage would publish a snapshot."""
        workspace = self.workspace
        known = workspace.catalog.read(self.table).get(WHOLE)
        if known is None or known.inputs != self.inputs[WHOLE]:
            return [WHOLE]
        with suppress(StateError, SearchIndexError):  # a snapshot that cannot be had is built
            fetch_snapshot(workspace, workspace.tables)
        if current_version(workspace.index) != known.content:
            return [WHOLE]
        snapshot = workspace.index / known.content
        is_usable = find_damage(snapshot, checksums=False) is None and is_served(snapshot)
        return [] if is_usable else [WHOLE]

    def make(self, partitions: list[str]) -> None:
        """Publish a snapshot of the documents, without those that the service refuses."""
        workspace = self.workspace
        documents, chunks = self.read(partitions)
        vectors = self._embed(documents, chunks)
        embedder = workspace.embedder
        content = arrange(documents, chunks, vectors, embedder.id, workspace.settings.index)
        calibration = calibrate(
            embedder,
            documents,
            chunks,
            vectors,
            lambda probes: self.resources.embed(probes, "query", "documents").vectors,
        )
        version = publish_content(workspace.index, content, calibration).manifest.version
        settings = workspace.settings.embedding.model_dump_json()
        workspace.catalog.record(EMBEDDING_OF_INDEX, {WHOLE: Entry(settings, version, 0)})
        workspace.catalog.record(self.table, {WHOLE: Entry(self.hash_inputs()[WHOLE], version, len(chunks))})
        if workspace.settings.storage.files is not None:
            send_snapshot(workspace, workspace.tables, version)

    def end(self) -> None:
        """Describe the published snapshot, and delete those that nobody has open any more."""
        prune(self.workspace.index)
        if self.failures or not (current := current_version(self.workspace.index)):
            return
        manifest = read_manifest(self.workspace.index / current)
        self.counts |= {"version": manifest.version, "embedder": manifest.embedder_id}
        if manifest.recall_at_5 is not None:
            self.counts["recall_at_5"] = manifest.recall_at_5

    def _embed(self, documents: pl.DataFrame, chunks: pl.DataFrame) -> Vectors:
        """Embed chunks; if the service refuses a document, that is recorded, and all is made again without it."""
        workspace = self.workspace
        texts = embedding_texts(chunks, documents)
        try:
            embedded = self.resources.embed(texts, "document", "documents")
        except ModelError as error:
            if error.text not in texts:
                raise
            document = chunks["document_id"][texts.index(error.text)]
            [(uri, revision)] = documents.filter(status="ok", document_id=document)["uri", "revision"].rows()
            # What it quotes of the document is for the output of the run, not for tables and alerts.
            logger.warning("%s: %s", uri, error)
            record_refusal(workspace, uri, revision, hide_quotes(f"{uri}: {error}"))
            for stage in self.without_refused:
                stage(self.resources, []).build()
            raise ConflictError(f"the service refuses {uri}") from error
        self.counts |= embedded.stats.as_counts()
        return embedded.vectors


class AddedPostsStage(SearchIndexStage):
    """Puts the posts that a run has written over the published snapshot, in memory.

    The last step of the run reads, cuts and embeds them again, writes the tables and publishes all.
    """

    without_refused = ()

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if posts were written or removed since the last reading."""
        return [WHOLE] if self._list_changed() else []

    def make(self, partitions: list[str]) -> None:  # noqa: ARG002 - there is one
        """Read, cut and embed posts, and put them in their place among the others."""
        workspace, base, posts, slugs = self.workspace, self.resources.base, self._posts, self._list_changed()
        documents = read_posts_again(workspace, posts.documents, slugs)
        chunks = cut_documents(workspace, documents, posts.chunks)
        vectors = self._embed(documents, chunks)
        settings, main = base.manifest.settings, base.manifest.main_stemmer
        content = arrange(documents, chunks, vectors, workspace.embedder.id, settings, main)
        files = {slug: file for slug, file in posts.files.items() if slug not in slugs}
        files |= _list_files(workspace, slugs)
        visible = posts.visible.with_posts(documents)
        self.resources.posts = AddedPosts(documents, chunks, files, visible, with_posts(base, content))

    @property
    def _posts(self) -> AddedPosts:
        return self.resources.posts or find_added_posts(self.resources)

    def _list_changed(self) -> list[str]:
        """List the posts whose files are others than those that were read."""
        read, files = self._posts.files, self.workspace.catalog.read(FILES)
        return sorted({slug for slug, _ in read.items() ^ files.items()})


def find_added_posts(resources: RunResources) -> AddedPosts:
    """Begin with the posts that the tables and the published snapshot hold."""
    workspace = resources.workspace
    documents = workspace.tables.read("documents").filter(IS_POST)
    chunks = workspace.tables.read("document_chunks")
    chunks = chunks.join(documents, on=["document_id", "revision"], how="semi", maintain_order="left")
    files = _list_files(workspace, workspace.catalog.read(FILES))
    return AddedPosts(documents, chunks, files, resources.visible)


def _list_files(workspace: Workspace, slugs: Collection[str]) -> dict[str, Entry]:
    """List those files of posts that are as they were written."""
    known, folder = workspace.catalog.read(FILES), workspace.posts_dir
    there = {slug: known[slug] for slug in slugs if slug in known}
    return {slug: file for slug, file in there.items() if hash_file(folder / f"{slug}.md") == file.content}
