"""The stages of windows: messages are cut into windows, windows into queries, and documents are searched for these."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache, partial

import polars as pl

from backstory.base.ids import digest_json
from backstory.index.request import describe_unknown_settings
from backstory.models.embeddings.embed import EmbeddingStats
from backstory.pipeline.chats.named_documents import (
    NameView,
    describe_named_documents,
    hash_sent_documents,
    hash_shown_documents,
    record_named_documents,
)
from backstory.pipeline.chats.people import read_people, show_chunks, show_messages
from backstory.pipeline.incremental.inputs import (
    hash_dependencies,
    values_read_by,
)
from backstory.pipeline.incremental.report import add_counts
from backstory.pipeline.incremental.visible_documents import record_searched
from backstory.pipeline.query_index import make_retrieval
from backstory.pipeline.stages.posts import remove_posts_of_gone_windows
from backstory.pipeline.stages.stage import Stage
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.contexts import make_window_contexts
from backstory.retrieval.hits import Queries, plan_queries
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.retrieval.windows import cut_windows
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Hits

logger = logging.getLogger(__name__)


class WindowsStage(Stage):
    """Cuts the messages of each partition into windows, and removes the posts of windows that are gone."""

    table = "windows"
    reads = ("messages",)
    overlaps = True
    weighed_by = "messages"

    def compute(self, partitions: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Cut the messages of partitions, and of the partitions before, which have their ``partition``."""
        [messages], settings = tables, self.workspace.settings
        return cut_windows(
            messages,
            settings.windows,
            partitions=partitions,
            grain=settings.partitions.grain,
            count_tokens=self.workspace.embedder.count_tokens,
        )

    def end(self) -> None:
        """Remove the posts of windows that are gone."""
        if edited := remove_posts_of_gone_windows(self.workspace):
            self.counts["notice"] = edited


class WindowChunksStage(Stage):
    """Cuts each window into query chunks."""

    table = "window_chunks"
    reads = ("windows", "messages")
    contents = ("windows",)
    overlaps = True
    weighed_by = "messages"

    def compute(self, _: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Cut windows."""
        messages, windows = tables
        settings, embedder = self.workspace.settings, self.workspace.embedder
        return cut_window_chunks(
            windows,
            messages,
            settings.queries,
            max_tokens=min(settings.chunks.max_tokens, embedder.max_input_tokens),
            counter=embedder,
            default_min_tokens=embedder.default_query_tokens,
        )


class RetrievalStage(Stage):
    """A stage that searches documents for windows, and knows whom the documents name."""

    weighed_by = "window_chunks"

    def begin(self) -> None:
        """Search the documents for names of members."""
        record_named_documents(self.workspace)

    def hash_dependencies(self) -> Mapping[str, str]:
        """Hash the settings and the documents that each partition may see, or those in which it stays searched."""
        visible, kept = self.resources.visible.name_visible(self.partitions), self.resources.kept
        depends = cache(partial(hash_dependencies, self.workspace, self.table))
        return {key: depends(kept.get(key, one.version)) for key, one in visible.items()}

    def retrieval(self) -> Retrieval:
        """Return the search of the index, by the settings."""
        posts_of = self.resources.visible.posts_of if self.workspace.feeds_back else None
        return make_retrieval(self.workspace, self.resources.index, posts_of)

    def embed_queries(self, windows: pl.DataFrame, chunks: pl.DataFrame) -> tuple[Queries, EmbeddingStats]:
        """Plan the queries of windows, and compute the vectors that are not cached."""
        embedded = self.resources.embed(chunks["text"].to_list(), "query", "query chunks")
        return plan_queries(windows, chunks, embedded.vectors, self.workspace.settings.rag), embedded.stats


class HitsStage(RetrievalStage):
    """Embeds the query chunks that are not cached, and searches for all chunks of a group at once."""

    table = "hits"
    reads = ("windows", "window_chunks", "search_index")
    contents = ("windows", "window_chunks")

    def compute(self, partitions: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Search for query chunks."""
        windows, chunks = tables
        record_searched(self.workspace, self.resources.visible.name_visible(partitions))
        if not self.workspace.settings.rag.enabled:
            return empty(Hits)
        documents = self.resources.index.documents
        if unknown := "; ".join(describe_unknown_settings(documents, self.workspace.settings.rag)):
            if "notice" not in self.counts:
                logger.warning("%s", unknown)
            self.counts["notice"] = unknown
        queries, stats = self.embed_queries(windows, chunks)
        found = self.retrieval().find_hits(queries)
        add_counts(self.counts, {"queries": found.queries, "engine": found.engine, "reason": found.reason})
        add_counts(self.counts, stats.as_counts())
        return found.frame


class DecisionsStage(RetrievalStage):
    """Keeps or drops every hit, by the judgements of the reranker if one is configured."""

    table = "decisions"
    reads = ("hits", "windows", "window_chunks", "search_index")
    contents = ("hits", "windows", "window_chunks")

    def list_further(self) -> Sequence[str]:
        """Hash whom the documents name, which decides what a chat model is sent of them."""
        is_sent = self.workspace.settings.rerank.paid_model is not None
        return [hash_sent_documents(self.workspace)] if is_sent else []

    def compute(self, _: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Decide about hits."""
        hits, windows, chunks = tables
        queries = cache(lambda: self.embed_queries(windows, chunks)[0])
        judged = self.retrieval().judge(hits, chunks, lambda wanted: queries().vectors_of(wanted))
        causes = judged.frame["cause"].value_counts().iter_rows()
        add_counts(self.counts, {**{f"cause_{cause}": n for cause, n in causes}, **judged.counts})
        return judged.frame


class ContextsStage(RetrievalStage):
    """Gathers the kept chunks of each window, and chooses their passages."""

    table = "contexts"
    reads = ("decisions", "windows", "window_chunks", "search_index")
    contents = ("decisions", "windows", "window_chunks")
    shows_people = True

    def list_further(self) -> Sequence[str]:
        """Hash whom the documents name, and how readers see that."""
        return [hash_shown_documents(self.workspace)]

    def compute(self, _: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Gather chunks."""
        decisions, windows, chunks = tables
        shown = show_chunks(chunks, windows, read_people(self.workspace))
        conversations = dict(windows.select("window_id", "conversation_id").iter_rows())
        view = NameView(self.workspace, "readers")

        def show(window_id: str, document_id: str, text: str) -> str:
            return view.show(document_id, text, conversations[window_id]) or ""

        return self.retrieval().gather(decisions, chunks, shown, show)

    def begin(self) -> None:
        """Search the documents for names of members, and tell what was found."""
        super().begin()
        self.counts.update(describe_named_documents(self.workspace))


class WindowContextsStage(RetrievalStage):
    """Summarizes each window's context. The verdict is about what people wrote, whatever posts the context holds."""

    table = "window_contexts"
    reads = ("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "search_index")
    contents = ("windows", "window_chunks", "hits", "decisions", "contexts")
    overlaps = True
    shows_people = True

    def compute(self, _: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Summarize windows."""
        messages, windows, chunks, hits, decisions, contexts = tables
        workspace, settings = self.workspace, self.workspace.settings
        index, people = self.resources.index, read_people(workspace)
        posts = index.list_posts(decisions["chunk_id"].unique()) if workspace.feeds_back else None
        languages = workspace.embedder.languages
        assessments = self.retrieval().assess(windows, chunks, decisions, languages)[1]
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
            index_version=index.manifest.version,
            settings_hash=digest_json(values_read_by(workspace, "window_contexts"), length=16),
            posts=posts,
            messages=show_messages(windows, messages, people),
        )
        for column in ("status", "verdict", "language"):
            values = summary[column].value_counts()
            add_counts(self.counts, {f"{column}_{key or 'unclear'}": n for key, n in values.iter_rows()})
        return summary
