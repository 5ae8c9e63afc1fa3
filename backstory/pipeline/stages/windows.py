"""The stages of the tables ``windows`` and ``window_chunks``: messages cut into windows, windows into query chunks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from backstory.base.ids import digest
from backstory.pipeline.chats.stored_messages import hash_read_messages, read_with_previous
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.incremental.partitions import content_of, read_table_rows, split_by_partition
from backstory.pipeline.stages.post_folder import remove_posts_of_gone_windows
from backstory.pipeline.stages.stage import TableStage
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.retrieval.windows import cut_windows


class WindowsStage(TableStage):
    """Cuts the messages of each partition into windows, and removes the posts of windows that are gone."""

    table = "windows"
    reads = ("messages",)
    reads_previous = ("messages",)
    weighed_by = "messages"

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the messages that the windows of each partition hold."""
        depends = hash_dependencies(self.workspace, "windows")
        messages = hash_read_messages(self.workspace, self.partitions)
        return {key: digest([messages[key], depends]) for key in self.partitions}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Cut the messages of the partitions."""
        settings = self.workspace.settings
        windows = cut_windows(
            read_with_previous(self.workspace, partitions),
            settings.windows,
            partitions=partitions,
            grain=settings.partitions.grain,
            count_tokens=self.workspace.embedder.count_tokens,
        )
        return split_by_partition(windows, partitions, keep_key=True)

    def end(self) -> None:
        """Remove the posts of windows that are gone."""
        remove_posts_of_gone_windows(self.workspace, self.partitions)


class WindowChunksStage(TableStage):
    """Cuts each window into query chunks."""

    table = "window_chunks"
    reads = ("windows", "messages")
    reads_previous = ("messages",)
    weighed_by = "messages"

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the windows of each partition, and the messages that they hold."""
        depends = hash_dependencies(self.workspace, "window_chunks")
        contents = content_of(self.workspace, "windows", self.partitions)
        messages = hash_read_messages(self.workspace, self.partitions)
        return {key: digest([contents[key], messages[key], depends]) for key in self.partitions}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Cut the windows of the partitions."""
        workspace, embedder = self.workspace, self.workspace.embedder
        windows = read_table_rows(workspace, "windows", partitions)
        chunks = cut_window_chunks(
            windows,
            read_with_previous(workspace, partitions),
            workspace.settings.queries,
            max_tokens=min(workspace.settings.chunks.max_tokens, embedder.max_input_tokens),
            counter=embedder,
            default_min_tokens=embedder.default_query_tokens,
        )
        keyed = chunks.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
        return split_by_partition(keyed, partitions)
