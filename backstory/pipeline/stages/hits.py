"""The stage of the table ``hits``: query chunks searched in the index."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import polars as pl

from backstory.index.request import describe_unknown_settings
from backstory.pipeline.incremental.report import StageResult, add_counts
from backstory.pipeline.incremental.visible_documents import name_earlier_documents, record_searched
from backstory.pipeline.stages.retrieval import RetrievalStage, split
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Hits

logger = logging.getLogger(__name__)


class HitsStage(RetrievalStage):
    """Embeds the query chunks that are not cached, and searches for all chunks of a group at once."""

    table = "hits"
    reads = ("windows", "window_chunks", "search_index")
    contents = ("windows", "window_chunks")

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Search for the query chunks of the partitions."""
        windows, chunks = self.read(partitions)
        if not self.workspace.settings.rag.enabled:
            return dict.fromkeys(partitions, empty(Hits))
        documents = self.open_index().all_documents
        if unknown := "; ".join(describe_unknown_settings(documents, self.workspace.settings.rag)):
            if "notice" not in self.counts:
                logger.warning("%s", unknown)
            self.counts["notice"] = unknown
        queries, stats = self.embed_queries(windows, chunks)
        found = self.retrieval().find_hits(queries)
        add_counts(self.counts, {"queries": found.queries, "engine": found.engine, "reason": found.reason})
        add_counts(self.counts, stats.as_counts())
        return split(found.frame, windows, partitions)

    def build(self) -> StageResult:
        """Build the table, and record which documents each partition could find."""
        workspace = self.workspace
        earlier = name_earlier_documents(workspace, self.partitions) if workspace.feeds_back else None
        report = super().build()
        if earlier is not None:
            record_searched(workspace, earlier)
        return report
