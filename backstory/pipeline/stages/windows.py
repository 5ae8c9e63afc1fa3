"""The stages of the tables ``windows`` and ``window_chunks``: messages cut into windows, windows into query chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from backstory.pipeline.chats.stored_messages import hash_read_messages, read_with_previous
from backstory.pipeline.incremental.partitions import read_table_rows, split_by_partition
from backstory.pipeline.stages.post_folder import remove_posts_of_gone_windows
from backstory.pipeline.stages.stage import TableStage
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.retrieval.windows import cut_windows


class _StageOfMessages(TableStage):
    """A stage that reads the messages of the windows of each partition."""

    reads_previous = ("messages",)
    weighed_by = "messages"

    def hash_further(self) -> Mapping[str, Sequence[str]]:
        """Hash these messages."""
        return {key: [one] for key, one in hash_read_messages(self.workspace, self.partitions).items()}


class WindowsStage(_StageOfMessages):
    """Cuts the messages of each partition into windows, and removes the posts of windows that are gone."""

    table = "windows"
    reads = ("messages",)

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


class WindowChunksStage(_StageOfMessages):
    """Cuts each window into query chunks."""

    table = "window_chunks"
    reads = ("windows", "messages")
    contents = ("windows",)

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
