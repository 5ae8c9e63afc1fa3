"""The stages of the tables ``windows`` and ``window_chunks``: messages cut into windows, windows into query chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from backstory.pipeline.chats.stored_messages import hash_read_messages, read_with_previous
from backstory.pipeline.incremental.inputs import read_table_rows, split_by_partition
from backstory.pipeline.stages.post_folder import remove_posts_of_gone_windows
from backstory.pipeline.stages.stage import TableStage
from backstory.pipeline.workspace import Workspace
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
        return cut_messages(self.workspace, read_with_previous(self.workspace, partitions), partitions)

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
        windows = read_table_rows(self.workspace, "windows", partitions)
        messages = read_with_previous(self.workspace, partitions)
        return cut_to_queries(self.workspace, windows, messages, partitions)


def cut_messages(
    workspace: Workspace, messages: pl.DataFrame, partitions: Sequence[str]
) -> dict[str, pl.DataFrame]:
    """Cut messages, with their ``partition`` and those of the partitions before, into the windows of partitions."""
    settings = workspace.settings
    windows = cut_windows(
        messages,
        settings.windows,
        partitions=partitions,
        grain=settings.partitions.grain,
        count_tokens=workspace.embedder.count_tokens,
    )
    return split_by_partition(windows, partitions, keep_key=True)


def cut_to_queries(
    workspace: Workspace, windows: pl.DataFrame, messages: pl.DataFrame, partitions: Sequence[str]
) -> dict[str, pl.DataFrame]:
    """Cut the windows of partitions into query chunks."""
    settings, embedder = workspace.settings, workspace.embedder
    chunks = cut_window_chunks(
        windows,
        messages,
        settings.queries,
        max_tokens=min(settings.chunks.max_tokens, embedder.max_input_tokens),
        counter=embedder,
        default_min_tokens=embedder.default_query_tokens,
    )
    keyed = chunks.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
    return split_by_partition(keyed, partitions)
