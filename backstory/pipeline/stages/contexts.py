"""The stage of the table ``contexts``: the kept chunks of each window, with their passages."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from backstory.pipeline.incremental.partitions import read_table_rows
from backstory.pipeline.stages.retrieval import RetrievalStage, split


class ContextsStage(RetrievalStage):
    """Gathers the kept chunks of each window, and chooses their passages."""

    table = "contexts"
    reads = ("decisions", "windows", "window_chunks", "search_index")
    contents = ("decisions", "window_chunks")

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Gather the chunks of the partitions."""
        decisions, chunks = self.read(partitions)
        gathered = self.retrieval().gather(decisions, chunks)
        return split(gathered, read_table_rows(self.workspace, "windows", partitions), partitions)
