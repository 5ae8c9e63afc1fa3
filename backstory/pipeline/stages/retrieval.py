"""Base of the stages that search documents for windows: hits, decisions, contexts and window_contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import polars as pl

from backstory.base.ids import digest
from backstory.base.progress import show_progress
from backstory.models.embeddings.embed import EmbeddingStats, embed_texts
from backstory.pipeline.chats.leaks import make_leak_finder
from backstory.pipeline.chats.model_view import ModelView
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.incremental.partitions import content_of, read_table_rows, split_by_partition
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.incremental.visible_documents import find_posts_of, name_earlier_documents
from backstory.pipeline.stages.stage import RunResources, TableStage
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.hits import Queries, plan_queries


class RetrievalStage(TableStage):
    """A stage that reads the windows and the search index. All its tables grow with the query chunks.

    Attributes:
        contents: The tables whose content counts as an input.
        snapshots: Version of the snapshot that counts for each partition; None for the published one. Where written
            posts are documents, :attr:`backstory.pipeline.incremental.visible_documents.Earlier.version`.
    """

    contents: ClassVar[tuple[str, ...]]
    weighed_by = "window_chunks"

    def __init__(
        self, resources: RunResources, partitions: Sequence[str], snapshots: Mapping[str, str] | None = None
    ) -> None:
        """Prepare an execution; see :class:`backstory.pipeline.stages.stage.Stage`."""
        super().__init__(resources, partitions)
        self.snapshots = snapshots

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the tables, the settings and the snapshot.

        Where written posts are documents, the documents before a partition count, not the whole snapshot.
        """
        workspace, partitions = self.workspace, self.partitions
        searched: Mapping[str, str | None] = (
            dict.fromkeys(partitions, None) if self.snapshots is None else self.snapshots
        )
        if workspace.feeds_back and self.snapshots is None:
            earlier = name_earlier_documents(workspace, partitions)
            searched = {key: documents.version for key, documents in earlier.items()}
        depends = {
            version: hash_dependencies(workspace, self.table, version) for version in set(searched.values())
        }
        contents = [content_of(workspace, table, partitions) for table in self.contents]
        shown = self.hash_shown()
        return {
            key: digest(
                [*(content[key] for content in contents), depends[searched[key]], *shown.get(key, ())]
            )
            for key in partitions
        }

    def hash_shown(self) -> Mapping[str, Sequence[str]]:
        """Hash by partition how readers see what the stage shows; nothing for a stage that names nobody."""
        return {}

    def build(self) -> StageResult:
        """Build the table with the index that the run shares, or one that is opened for it."""
        with self.resources.index() as self.open_index:
            return super().build()

    def retrieval(self) -> Retrieval:
        """Return the search of the index, by the settings."""
        workspace = self.workspace
        settings = workspace.settings
        return Retrieval(
            index=self.open_index(),
            rag=workspace.rag,
            context=settings.context,
            reranker=workspace.reranker,
            rerank=settings.rerank,
            find_leaks=lambda texts: make_leak_finder(workspace)(texts),
            judgements=workspace.judgements,
            send=ModelView(workspace, settings.rerank).send,
            separate_posts=workspace.feeds_back,
            posts_of=find_posts_of(workspace),
            document_fit=workspace.document_fit,
        )

    def read(self, partitions: Sequence[str]) -> list[pl.DataFrame]:
        """Read the tables in :attr:`contents`, in their order."""
        return [read_table_rows(self.workspace, table, partitions) for table in self.contents]

    def embed_queries(self, windows: pl.DataFrame, chunks: pl.DataFrame) -> tuple[Queries, EmbeddingStats]:
        """Plan the queries of windows, and compute the vectors that are not cached."""
        workspace = self.workspace
        with show_progress("embedding query chunks") as progress:
            embedded = embed_texts(
                workspace.embedder,
                chunks["text"].to_list(),
                task="query",
                cache=workspace.embeddings,
                progress=workspace.runs.follow("query chunks embedded", progress),
            )
        stats = embedded.stats
        workspace.runs.count_texts(
            workspace.embedder.id, computed=stats.computed, tokens=stats.tokens, cached=stats.cached
        )
        return plan_queries(windows, chunks, embedded.vectors, workspace.settings.rag), stats


def find_stale(
    workspace: Workspace, stage: type[RetrievalStage], partitions: Sequence[str], snapshots: Mapping[str, str]
) -> list[str]:
    """List the partitions of a stage that would be rebuilt if other snapshots counted for them.

    Args:
        workspace: An open workspace.
        stage: The stage.
        partitions: Keys of the wanted partitions.
        snapshots: See :attr:`RetrievalStage.snapshots`.
    """
    return stage(RunResources(workspace), partitions, snapshots).stale_partitions()


def split(frame: pl.DataFrame, windows: pl.DataFrame, partitions: list[str]) -> dict[str, pl.DataFrame]:
    """Cut rows with a ``window_id`` by the partition of their window."""
    keyed = frame.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
    return split_by_partition(keyed, partitions)
