"""The stage of the table ``contexts``: the kept chunks of each window, with their passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from backstory.pipeline.chats.people import read_people, show_chunks
from backstory.pipeline.incremental.partitions import read_table_rows
from backstory.pipeline.stages.retrieval import RetrievalStage, split


class ContextsStage(RetrievalStage):
    """Gathers the kept chunks of each window, and chooses their passages."""

    table = "contexts"
    reads = ("decisions", "windows", "window_chunks", "search_index")
    contents = ("decisions", "window_chunks")

    def hash_shown(self) -> Mapping[str, Sequence[str]]:
        """Hash the names under which readers see the people of each partition."""
        grain = self.workspace.settings.partitions.grain
        known = read_people(self.workspace).fingerprint(self.partitions, grain)
        return {key: [names] for key, names in known.items()}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Gather the chunks of the partitions."""
        decisions, chunks = self.read(partitions)
        windows = read_table_rows(self.workspace, "windows", partitions)
        shown = show_chunks(chunks, windows, read_people(self.workspace))
        return split(self.retrieval().gather(decisions, chunks, shown), windows, partitions)
