"""One change of every setting, with the tables that it makes again in the small workspace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOTHING = ""
IDLE = (NOTHING, "messages", "documents", "document_chunks")
"""What is made again where the rows of the small workspace stay as they are."""
SERVING = ("window_chunks", "hits", "decisions")
"""Stages whose settings are those of ``window_contexts``, too."""
JUDGED = "decisions window_contexts"
SHOWN = f"{JUDGED} contexts"
SEARCHED = f"hits {SHOWN}"
ASKED = f"window_chunks {SEARCHED}"
CUT = f"windows {ASKED}"
INDEXED = f"search_index {SEARCHED}"


@dataclass(frozen=True)
class Change:
    """One change of a setting.

    Attributes:
        setting: Its dotted name.
        value: What it is changed to.
        remade: Tables that are made again, separated by blanks.
        given: Other settings, by dotted name.
        rename: A folder of the workspace and its name after the change.
        read_by: Stages that read it, if these are others than the first that is made again and, if that serves,
            ``window_contexts``.
        quick: Whether a run is made with it in every test run; the others take long.
    """

    setting: str
    value: Any
    remade: str
    given: Mapping[str, Any] = field(default_factory=dict)
    rename: tuple[str, str] | None = None
    read_by: str | None = None
    quick: bool = False

    @property
    def readers(self) -> set[str]:
        """The stages of which the setting is an input."""
        if self.read_by is not None:
            return set(self.read_by.split())
        first = self.remade.split()[:1]
        return {*first, *(["window_contexts"] if first and first[0] in SERVING else [])}

    def __str__(self) -> str:
        under = "".join(f",{name}={value}" for name, value in self.given.items())
        return f"{self.setting}={self.value}{under}"


HNSW = {"index.ann_min_rows": 1}
DIGEST = {"writers.provider": "digest"}
WEEKLY = {**DIGEST, "writers.grain": "week"}
SENTENCES = {"chunks.chunkers": {"markdown": "sentence"}, "chunks.sentence_overlap_tokens": 4}
CHARACTERS = {"chunks.chunkers": {"markdown": "character"}, "chunks.overlap_characters": 20}
DENSE_HNSW = {**HNSW, "rag.ranking": "dense"}

CHANGES = (
    Change("orchestration.key_prefix", "family", NOTHING),
    Change("agents.roots", ["~/notes"], NOTHING),
    Change("conversations.folder", "talks", "messages", rename=("chats", "talks")),
    Change(
        "conversations.timezone",
        "Europe/Berlin",
        f"messages {CUT} documents document_chunks search_index posts",
        read_by="messages documents window_contexts posts",
        quick=True,
    ),
    Change("conversations.date_order", "dmy", "messages"),
    Change("conversations.overrides", {"garden": {"date_order": "dmy"}}, "messages"),
    Change("conversations.overrides", {"garden": {"timezone": "Europe/Berlin"}}, f"messages {CUT}"),
    Change("conversations.removals", "mirror", "messages"),
    Change("conversations.timestamp_column", "sent", "messages"),
    Change("conversations.author_column", "sender", "messages"),
    Change("conversations.message_column", "body", "messages"),
    Change("conversations.read_seconds", 61, "messages"),
    Change("conversations.read_megabytes", 1024, "messages"),
    Change("privacy.pseudonyms", False, f"messages {CUT} posts", read_by="messages posts"),
    Change("privacy.exclude", ["Nobody"], "messages"),
    Change("privacy.scrub", ["email"], "messages"),
    Change("privacy.phone_region", "DE", "messages posts", read_by="messages posts"),
    Change("privacy.phone_region", "DE", "messages posts", {"privacy.scrub": ["phone"]}, read_by="messages posts"),
    Change("privacy.names", {"Nobody": {"shown": "Nell", "agreed": "2025-03-01"}}, "messages"),
    Change("privacy.documents", "keep", "contexts posts", read_by="contexts posts"),
    Change("privacy.documents", "reject", "contexts posts", {"writers.provider": "digest"}, read_by="contexts posts"),
    Change("partitions.grain", "week", f"messages {CUT} posts"),
    Change("partitions.start", "2020-01-01", NOTHING),
    Change("partitions.days_per_run", 7, NOTHING),
    Change("partitions.look_back", 9, NOTHING),
    Change("partitions.after_posts", "all", NOTHING),
    Change("partitions.allow_timestamp_outliers", True, NOTHING),
    Change("partitions.rows_at_once", 1, NOTHING),
    Change("windows.unit", "tokens", CUT),
    Change("windows.unit", "day", CUT, {"windows.overlap": 0}),
    Change("windows.size", 5, CUT),
    Change("windows.size", 5, "windows", {"windows.unit": "day", "windows.overlap": 0}),
    Change("windows.overlap", 0, CUT),
    Change("documents.folder", "blog", "documents", rename=("posts", "blog")),
    Change("documents.pattern", "**/*.md", "documents"),
    Change("documents.sources", [{"path": "absent"}], "documents"),
    Change("documents.secrets", ["*.private"], "documents"),
    Change("documents.kind", "note", f"documents document_chunks {INDEXED}", quick=True),
    Change("documents.tenant", "us", f"documents document_chunks {INDEXED}"),
    Change("documents.drafts", True, "documents"),
    Change("documents.ocr", "off", "documents"),
    Change("documents.ocr_languages", ["eng", "deu"], "documents"),
    Change("documents.read_seconds", 61, "documents"),
    Change("documents.read_megabytes", 1024, "documents"),
    Change("chunks.max_tokens", 9000, "document_chunks window_chunks window_contexts", {"chunks.max_tokens": 8500},
           read_by="document_chunks window_chunks window_contexts"),
    Change("chunks.max_tokens", 16, f"document_chunks {INDEXED} window_chunks", {"chunks.overlap_tokens": 0},
           read_by="document_chunks window_chunks window_contexts"),
    Change("chunks.overlap_tokens", 10, f"document_chunks {INDEXED}"),
    Change("chunks.chunkers", {"markdown": "page"}, f"document_chunks {INDEXED}"),
    Change("chunks.sentence_max_tokens", 20, "document_chunks", {"chunks.sentence_overlap_tokens": 4}),
    Change("chunks.sentence_max_tokens", 20, f"document_chunks {INDEXED}", SENTENCES),
    Change("chunks.sentence_overlap_tokens", 10, f"document_chunks {INDEXED}", SENTENCES),
    Change("chunks.max_characters", 300, f"document_chunks {INDEXED}", CHARACTERS),
    Change("chunks.overlap_characters", 10, f"document_chunks {INDEXED}", CHARACTERS),
    Change("queries.granularities", [2], ASKED),
    Change("queries.min_tokens", 12, ASKED),
    Change("queries.min_tokens", 40, ASKED),
    Change("embedding.model_dir", "models/mine", NOTHING),
    Change("embedding.languages", ["de"], "window_contexts"),
    Change("embedding.languages", ["de"], "window_contexts", {"rag.enabled": False}),
    Change("embedding.runtime", "cuda", NOTHING),
    Change("embedding.model", "gemini-embedding-2", NOTHING),
    Change("embedding.dimension", 256, NOTHING),
    Change("embedding.query_prefix", "query: ", NOTHING),
    Change("embedding.document_prefix", "passage: ", NOTHING),
    Change("embedding.max_input_tokens", 256, NOTHING),
    Change("embedding.threads", 1, NOTHING),
    Change("index.ann_min_rows", 500_000, INDEXED),
    Change("index.hnsw_m", 8, INDEXED, HNSW),
    Change("index.hnsw_ef_construction", 64, INDEXED, HNSW),
    Change("index.ef_search", 64, INDEXED, HNSW),
    Change("index.language", "german", INDEXED),
    Change("rag.enabled", False, SEARCHED, read_by=SEARCHED),
    Change("rag.top_k", 1, SHOWN, quick=True),
    Change("rag.top_k", 1, JUDGED, {"rag.enabled": False}),
    Change("rag.mode", "exact", "hits window_contexts"),
    Change("rag.mode", "exact", f"hits {JUDGED}", DENSE_HNSW),
    Change("rag.nprobe", 4, "hits window_contexts"),
    Change("rag.nprobe", 4, "hits window_contexts", DENSE_HNSW),
    Change("rag.overfetch", 2, "hits window_contexts"),
    Change("rag.overfetch", 2, "hits window_contexts", DENSE_HNSW),
    Change("rag.chunks_per_query", 2, SEARCHED),
    Change("rag.dedup_strategy", "none", JUDGED),
    Change("rag.dedup_max_per_doc", 2, JUDGED),
    Change("rag.dedup_max_per_doc", 2, JUDGED, {"rag.dedup_strategy": "none"}),
    Change("rag.near_duplicate_similarity", 0.9, JUDGED),
    Change("rag.min_similarity", -1.0, "decisions window_contexts"),
    Change("rag.min_similarity", 0.6, SHOWN),
    Change("rag.plan", "hybrid", SEARCHED),
    Change("rag.adaptive_max_messages", 2, "hits window_contexts"),
    Change("rag.adaptive_max_messages", 2, SEARCHED, {"rag.plan": "adaptive"}),
    Change("rag.ranking", "dense", SEARCHED),
    Change("rag.strategy", "mmr", JUDGED),
    Change("rag.mmr_lambda", 0.1, JUDGED),
    Change("rag.mmr_lambda", 0.1, JUDGED, {"rag.strategy": "mmr"}),
    Change("rag.as_of", False, SEARCHED),
    Change("rag.undated", "hide", "hits window_contexts"),
    Change("rag.undated", "hide", "hits window_contexts", {"rag.as_of": False}),
    Change("rag.kinds", ["post"], "hits window_contexts"),
    Change("rag.tags", ["drip"], SEARCHED),
    Change("rag.document_ids", ["none"], SEARCHED),
    Change("rag.tenant", "us", SEARCHED),
    *(
        Change(f"rerank.{name}", value, NOTHING)
        for name, value in {
            "candidates": 30, "model_dir": "models/mine",
            "max_tokens": 8, "model": "gemini-2.5-pro", "threads": 1, "temperature": 1.0,
        }.items()
    ),
    Change("context.max_tokens", 150, f"{SHOWN} posts", read_by=f"{SHOWN} posts"),
    Change("context.max_tokens", 150, f"{SHOWN} posts", {"rag.enabled": False}, read_by=f"{SHOWN} posts"),
    Change("context.snippet_characters", 20, SHOWN, read_by=SHOWN),
    Change("context.excerpt", "head", "window_contexts"),
    Change("writers.provider", "digest", "posts"),
    Change("writers.folder", "elsewhere", "posts"),
    Change("writers.folder", "elsewhere", "posts", DIGEST),
    Change("writers.max_characters", 200, "posts", DIGEST),
    Change("writers.without_context", "skip", "posts", DIGEST),
    Change("writers.min_characters", 100, "posts", DIGEST),
    Change("writers.grain", "week", "posts"),
    Change("writers.grain", "week", "posts", DIGEST),
    Change("writers.grains", {"garden": "month"}, "posts", DIGEST),
    Change("context.max_tokens", 150, f"{SHOWN} posts", WEEKLY, read_by=f"{SHOWN} posts"),
    Change("context.posts_max_tokens", 150, f"{SHOWN} posts", WEEKLY, read_by=f"{SHOWN} posts"),
    *(
        Change(f"writers.{name}", value, NOTHING, DIGEST)
        for name, value in {
            "plugin": "mine.py:Mine", "prompt": "mine.j2", "model": "gemini-2.5-pro", "temperature": 1,
            "max_output_tokens": 64, "threads": 1,
        }.items()
    ),
    *(
        Change(f"summaries.{name}", value, NOTHING)
        for name, value in {
            "provider": "gemini", "model": "gemini-2.5-pro", "temperature": 1, "max_output_tokens": 64, "threads": 1,
        }.items()
    ),
    *(
        Change(f"answers.{name}", value, NOTHING, {"answers.provider": "gemini"} if name == "router" else {})
        for name, value in {
            "provider": "gemini", "model": "gemini-2.5-pro", "temperature": 1, "max_output_tokens": 64,
            "unsupported": "mark", "router": "model",
        }.items()
    ),
    *(
        Change(f"site.{name}", value, NOTHING)
        for name, value in {
            "base_url": "https://example.org", "title": "The plot", "front_matter": {"layout": "post"},
        }.items()
    ),
    Change("writers.feedback", "on", SEARCHED, read_by=SEARCHED, quick=True),
    Change("writers.feedback_scope", "workspace", "hits window_contexts"),
    Change("writers.feedback_scope", "workspace", "hits window_contexts", {"writers.feedback": "on"}),
    Change(
        "writers.feedback_scope",
        "workspace",
        f"messages windows window_chunks hits {JUDGED}",
        {"writers.feedback": "on", "conversations.overrides": {"garden": {"timezone": "Europe/Berlin"}}},
        read_by="messages hits window_contexts",
    ),
    Change("rag.posts_top_k", 1, f"hits {JUDGED}", read_by=f"hits {JUDGED}"),
    Change("rag.posts_top_k", 1, f"hits {JUDGED}", {"writers.feedback": "on"}, read_by=f"hits {JUDGED}"),
    Change("context.posts_max_tokens", 200, f"{SHOWN} posts", read_by=f"{SHOWN} posts"),
    Change("context.posts_max_tokens", 200, f"{SHOWN} posts", {"writers.feedback": "on"}, read_by=f"{SHOWN} posts"),
    *(
        Change(f"alerts.{name}", value, NOTHING)
        for name, value in {
            "command": ["true"], "webhook": "http://127.0.0.1:9/x", "on": ["failure"], "repeat_hours": 1,
            "timeout_seconds": 1,
        }.items()
    ),
    Change(
        "services.gemini",
        {
            "base_url": "http://127.0.0.1:9", "allow_http": True, "timeout_seconds": 5, "max_attempts": 1,
            "texts_per_minute": 5, "requests_per_minute": 1, "tokens_per_minute": 5,
        },
        NOTHING,
    ),
    Change("services.mine", {"kind": "openai"}, NOTHING),
    Change("costs.currency", "EUR", NOTHING),
    Change("costs.prices", {"gemini-embedding-001": {"input": 1}}, NOTHING),
    Change("costs.run", {"calls": 1}, NOTHING),
    Change("costs.day", {"calls": 1}, NOTHING),
    Change("runs.max_minutes", 60, NOTHING),
    Change("runs.keep_months", 1, NOTHING),
)  # fmt: skip
"""At least one change of every setting but those that name a model, which `MODEL_CHANGES` of the tests holds."""
