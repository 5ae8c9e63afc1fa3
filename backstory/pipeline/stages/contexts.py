"""The stage of the table ``contexts``: the kept chunks of each window, with their passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from backstory.pipeline.chats.named_documents import (
    DocumentView,
    describe_named_documents,
    hash_named_documents,
    record_named_documents,
)
from backstory.pipeline.chats.people import read_people, show_chunks
from backstory.pipeline.incremental.partitions import read_table_rows
from backstory.pipeline.incremental.report import StageResult
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
        documents = hash_named_documents(self.workspace)
        return {key: [names, documents] for key, names in known.items()}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Gather the chunks of the partitions."""
        decisions, chunks = self.read(partitions)
        windows = read_table_rows(self.workspace, "windows", partitions)
        shown = show_chunks(chunks, windows, read_people(self.workspace))
        conversations = dict(windows.select("window_id", "conversation_id").iter_rows())
        view = DocumentView(self.workspace, conversations)
        return split(self.retrieval().gather(decisions, chunks, shown, view.show), windows, partitions)

    def build(self) -> StageResult:
        """Build the table, after the documents were searched for names of members."""
        record_named_documents(self.workspace)
        self.counts.update(describe_named_documents(self.workspace))
        return super().build()
