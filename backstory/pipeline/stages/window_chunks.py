"""The stage of the table ``window_chunks``: windows cut into the chunks that they are searched with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from backstory.base.ids import digest
from backstory.pipeline.chats.stored_messages import hash_read_messages, read_with_previous
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.incremental.partitions import content_of, read_table_rows, split_by_partition
from backstory.pipeline.stages.stage import TableStage
from backstory.retrieval.query_chunks import cut_window_chunks


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
            count_tokens=embedder.count_tokens,
            default_min_tokens=embedder.default_query_tokens,
        )
        keyed = chunks.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
        return split_by_partition(keyed, partitions)
