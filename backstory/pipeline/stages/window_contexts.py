"""The stage of the table ``window_contexts``: one row for each window, with its verdict and its prompt text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from backstory.base.ids import digest_json
from backstory.pipeline.chats.people import read_people, show_messages
from backstory.pipeline.chats.stored_messages import hash_read_messages, read_with_previous
from backstory.pipeline.incremental.fingerprints import read_by_serving
from backstory.pipeline.incremental.report import StageResult, add_counts
from backstory.pipeline.stages.retrieval import RetrievalStage, split
from backstory.retrieval.assessment import evaluate_retrieval, judge_parts
from backstory.retrieval.contexts import make_window_contexts


class WindowContextsStage(RetrievalStage):
    """Summarizes each window's context. The verdict is about what people wrote, whatever posts the context holds."""

    table = "window_contexts"
    reads = ("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "search_index")
    reads_previous = ("messages",)
    contents = ("windows", "window_chunks", "hits", "decisions", "contexts")

    def hash_shown(self) -> Mapping[str, Sequence[str]]:
        """Hash the messages of each partition, and the names under which readers see its people."""
        grain = self.workspace.settings.partitions.grain
        known = read_people(self.workspace).fingerprint(self.partitions, grain)
        messages = hash_read_messages(self.workspace, self.partitions)
        return {key: [messages[key], names] for key, names in known.items()}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Summarize the windows of the partitions."""
        workspace, settings = self.workspace, self.workspace.settings
        windows, chunks, hits, decisions, contexts = self.read(partitions)
        index = self.open_index
        posts = index().list_posts(decisions["chunk_id"].unique()) if workspace.feeds_back else None
        by_people = ~pl.col("chunk_id").is_in(posts or [])
        parts = judge_parts(chunks, decisions.filter(by_people))
        assessments = evaluate_retrieval(
            windows,
            chunks,
            parts,
            settings=settings.rag,
            searchable=(index().rows_by_people if workspace.feeds_back else index().rows) > 0,
            embedder_id=workspace.embedder.id,
            known_languages=workspace.embedder.languages,
        )
        summary = make_window_contexts(
            windows,
            chunks,
            decisions,
            workspace.date_locally(contexts),
            assessments,
            settings=settings.context,
            enabled=settings.rag.enabled,
            embedder_id=workspace.embedder.id,
            hits=hits,
            index_version=self.version,
            settings_hash=digest_json(read_by_serving(workspace), length=16),
            posts=posts,
            messages=show_messages(
                windows, read_with_previous(workspace, partitions), read_people(workspace)
            ),
        )
        for column in ("status", "verdict", "language"):
            values = summary[column].value_counts()
            add_counts(self.counts, {f"{column}_{key or 'unclear'}": n for key, n in values.iter_rows()})
        return split(summary, windows, partitions)

    def build(self) -> StageResult:
        """Build the table for the snapshot that is searched now."""
        self.version = self.resources.index_version
        return super().build()
