"""The stage of the table ``windows``: messages cut into windows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from backstory.base.ids import digest
from backstory.pipeline.chats.stored_messages import read_with_previous
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.incremental.partitions import content_of, split_by_partition
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.stages.post_folder import remove_posts_of_gone_windows
from backstory.pipeline.stages.stage import TableStage
from backstory.retrieval.windows import cut_windows
from backstory.storage.tables.partitions import previous_partition


class WindowsStage(TableStage):
    """Cuts the messages of each partition into windows, and removes the posts of windows that are gone."""

    table = "windows"
    reads = ("messages",)
    reads_previous = ("messages",)
    weighed_by = "messages"

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the messages of each partition, and those of the previous partition where windows overlap."""
        settings = self.workspace.settings
        depends = hash_dependencies(self.workspace, "windows")
        overlaps = bool(settings.windows.overlap)
        before = {
            key: previous_partition(key, settings.partitions.grain) for key in self.partitions if overlaps
        }
        contents = content_of(self.workspace, "messages", [*self.partitions, *before.values()])
        return {
            key: digest([contents[key], contents[before[key]] if overlaps else "", depends])
            for key in self.partitions
        }

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

    def build(self) -> StageResult:
        """Build the table, then remove the posts of windows that are gone."""
        report = super().build()
        remove_posts_of_gone_windows(self.workspace, self.partitions)
        return report
