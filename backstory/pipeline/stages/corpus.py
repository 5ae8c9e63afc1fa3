"""The stages of documents: files are read into revisions, these are cut into chunks, and the chunks are indexed.

A document with a text that the embedding service refuses is a failed file until it, or the embedder, changes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import ClassVar, Final

import polars as pl

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import (
    ConflictError,
    ModelError,
    RemovalError,
    SearchIndexError,
    SettingsError,
    StateError,
)
from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.base.progress import announce
from backstory.base.wording import count
from backstory.index.build import arrange, publish_content
from backstory.index.calibration import calibrate, describe_calibration
from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.index.milvus import is_served
from backstory.index.posts import with_posts
from backstory.index.snapshot import current_version, find_damage, prune, read_manifest
from backstory.ingest.documents.files import FileHashes, list_written, name_source
from backstory.ingest.documents.reader import (
    DOCUMENT_FORMATS,
    DRAFT,
    DocumentRead,
    drop_former_posts,
    name_reading,
    read_listed_documents,
)
from backstory.ingest.privacy.exclusions import Forgotten, leave_out_documents
from backstory.ingest.sources.listing import fetch_sources, hash_listing
from backstory.ingest.walk import Listing
from backstory.models.embeddings.protocol import Vectors
from backstory.models.failures import hide_quotes
from backstory.pipeline.chats.copies import clear_copies_of_documents
from backstory.pipeline.incremental.inputs import is_made_by_this_code, read_previous
from backstory.pipeline.incremental.report import CLEARED, add_counts, log_unread
from backstory.pipeline.incremental.visible_documents import IS_POST
from backstory.pipeline.query_index import EMBEDDING_OF_INDEX
from backstory.pipeline.sharing import fetch_snapshot, send_snapshot
from backstory.pipeline.stages.posts import FILES
from backstory.pipeline.stages.stage import AddedPosts, RunResources, Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE, Made
from backstory.writing.post_files import hash_file

logger = logging.getLogger(__name__)

_DOCUMENTS = "documents"

_LOST_HISTORY: Final = (
    "the table documents was damaged, or of another version of Backstory, and was made again from the files. It lacks "
    "earlier revisions and deleted documents, and the run did not ask about missing documents"
)


class DocumentsStage(Stage):
    """Reads the document files into ``documents`` (revisions, tombstones, errors), and every file into ``sources``."""

    table = "documents"
    partitioned = False
    side_outputs = ("sources",)

    def list_further(self) -> Sequence[str]:
        """Hash the files, and what else decides how they are read."""
        workspace, settings = self.workspace, self.workspace.settings
        return [
            name_reading(settings.documents, timezone=settings.conversations.timezone),
            hash_listing(self._listing, self.hashes),
            Forgotten.read(workspace.forgotten).fingerprint,
            f"mentions_undated={workspace.has_chats}",
            *map(str, sorted(workspace.catalog.read(_name_refused(workspace)).items())),
        ]

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if the stage would write anything."""
        there, damaged = self.workspace.catalog.read("sources"), self.workspace.tables.find_damage("sources")
        is_whole = _DOCUMENTS in there and _DOCUMENTS not in damaged
        return super().stale_partitions() if is_whole else [WHOLE]

    def begin(self) -> None:
        """Fetch the documents of other places, and hash those files that have changed."""
        fetch_sources(self.workspace)
        self.inputs  # noqa: B018 - hashes the files
        self.hashes.save()
        self.counts["files_unchanged"] = self.hashes.unchanged

    def make(self, partitions: list[str]) -> None:  # noqa: ARG002 - there is one
        """Read the documents, and write them with ``sources``."""
        workspace = self.workspace
        was_made = WHOLE in workspace.catalog.read(_DOCUMENTS)
        read, previous = read_documents(workspace, self._listing, self.hashes)
        # As the files were read, which may have changed since they were hashed.
        self.inputs = self.hash_inputs()
        if previous is not None:
            cleared = clear_copies_of_documents(workspace, previous, read.documents)
            self.counts |= {CLEARED: cleared} if cleared else {}
        elif was_made:
            self.counts["notice"] = _LOST_HISTORY
        made = {
            (_DOCUMENTS, WHOLE): Made(read.documents, self.inputs[WHOLE]),
            ("sources", _DOCUMENTS): Made(read.sources, read.reading),
        }
        workspace.tables.commit(made, seen=self.seen)

    def end(self) -> None:
        """Tell what is in the tables."""
        workspace = self.workspace
        if self.failures:
            return
        documents = workspace.tables.read(_DOCUMENTS, columns=["status"])
        sources = workspace.tables.read("sources", [_DOCUMENTS])
        log_unread(sources)
        for rows, name in ((documents, "status"), (sources, "files")):
            counts = rows["status"].value_counts(sort=True).iter_rows()
            self.counts |= {f"{name}_{status}": count for status, count in counts}
        self.counts["drafts"] = sources.filter(reason=DRAFT).height
        self.counts["undated"] = sources.filter(pl.col("first").is_null(), status="read").height
        if not documents["status"].is_in(["ok"]).any():
            state = "holds no document that can be served" if self._listing.present else "does not exist"
            notice = (
                f"{workspace.settings.documents.folder}/ {state}, so windows get no context; "
                "put documents into it, or set `documents: {folder: ...}`"
            )
            logger.warning("%s", notice)
            add_counts(self.counts, {"notice": notice})

    @cached_property
    def _listing(self) -> Listing:
        return self.workspace.list_documents()

    @cached_property
    def hashes(self) -> FileHashes:
        """The hashes of the files, of which none is hashed twice."""
        return FileHashes(self.workspace.catalog)


def read_documents(
    workspace: Workspace, listing: Listing, hashes: FileHashes
) -> tuple[DocumentRead, pl.DataFrame | None]:
    """Read the documents as they are to be stored, and the table as it is; None if that cannot be read.

    Nothing is written. If all documents that an earlier run read are gone, it raises ``RemovalError``.
    """
    previous = read_previous(workspace, "documents")
    known = workspace.catalog.read("sources").get(_DOCUMENTS)
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
        _require_documents(workspace, previous, read.documents)
    return _leave_out(workspace, read), previous


def _require_documents(workspace: Workspace, before: pl.DataFrame, now: pl.DataFrame) -> None:
    """Stop a run that finds none of the documents of an earlier run, for example because a disk is not mounted."""
    before, now = (table.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX)) for table in (before, now))
    served = before.filter(pl.col("status") == "ok").join(now, on="document_id", how="semi")
    left = now.filter(pl.col("status").is_in(["ok", "error"]))
    if len(served) and left.is_empty() and not workspace.accept_removals:
        folder = workspace.settings.documents.folder
        raise RemovalError(
            f"the run changed no document, since {folder}/ holds none, and an earlier run read "
            f"{count(len(served), 'document')}. If the folder should hold them, make it available (is its disk "
            "mounted?). To remove them from the index, run again with --accept-removals",
            code="removed_documents",
        )


def read_posts_again(workspace: Workspace, posts: pl.DataFrame, slugs: Collection[str]) -> pl.DataFrame:
    """Read some of the written posts as they are now."""
    settings, folder = workspace.settings, workspace.settings.writers.folder
    uris = [f"{WRITTEN_PREFIX}{folder}/{slug}.md" for slug in slugs]
    is_read, listing = pl.col("uri").is_in(uris), list_written(workspace.posts_dir, folder)
    read = read_listed_documents(
        replace(listing, files=tuple(file for file in listing.files if file.uri in uris)),
        settings.documents,
        posts.filter(is_read),
        timezone=settings.conversations.timezone,
    )
    rows = _leave_out(workspace, read).documents
    return pl.concat([posts.filter(~is_read), rows]).sort("uri", maintain_order=True)


def _leave_out(workspace: Workspace, read: DocumentRead) -> DocumentRead:
    """Leave out what was forgotten, former posts, and what the embedder refuses, whose files are ``failed``."""
    folder, refused = workspace.settings.documents.folder, workspace.catalog.read(_name_refused(workspace))
    read = leave_out_documents(read, Forgotten.read(workspace.forgotten), folder)
    served = read.documents.filter(status="ok").select("uri", "revision").iter_rows()
    uris = [uri for uri, revision in served if uri in refused and refused[uri].inputs == revision]
    failed = pl.DataFrame(
        [(name_source(folder, uri), refused[uri].content) for uri in uris],
        schema={"source": pl.String, "reason": pl.String},
        orient="row",
    ).with_columns(status=pl.lit("failed"), rows=pl.lit(0, pl.Int64))
    documents = drop_former_posts(read.documents.filter(~pl.col("uri").is_in(uris)))
    return replace(read, documents=documents, sources=read.sources.update(failed, on="source"))


def _name_refused(workspace: Workspace) -> str:
    """Name in the catalog the revisions that the embedder of the settings refuses, and why, by uri."""
    return f"documents refused by {digest([workspace.settings.embedding.model_dump_json()], length=16)}"


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
    known = {each.name for each in DOCUMENT_FORMATS}
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
    """Embeds the chunks that are not in the cache, and publishes a snapshot if anything changed."""

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
        workspace, embedder = self.workspace, self.workspace.embedder
        documents, chunks = self.read(partitions)
        vectors = self._embed(documents, chunks)
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
        stemmers = sorted(manifest.languages, key=lambda each: (-each.rows, each.stemmer))
        named = ", ".join(f"{each.stemmer} ({each.rows} chunks)" for each in stemmers)
        self.counts |= {"version": manifest.version, "embedder": manifest.embedder_id, "stemmers": named}
        self.counts["calibration"] = describe_calibration(manifest.calibration)
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
            refused = {uri: Entry(revision, hide_quotes(f"{uri}: {error}"), 0)}
            workspace.catalog.record(_name_refused(workspace), refused)
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
