"""One change of every setting, and whether any stage reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Change:
    """One change of a setting to a value, under other settings by dotted name.

    One that does not act is read by no stage. A folder may be renamed with it. A run is made with a quick one in every
    test run; with the others it takes long.
    """

    setting: str
    value: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    rename: tuple[str, str] | None = None
    acts: bool = True
    quick: bool = False

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
    Change("orchestration.key_prefix", "family", acts=False),
    Change("agents.roots", ["~/notes"], acts=False),
    Change("conversations.folder", "talks", rename=("chats", "talks")),
    Change("conversations.timezone", "Europe/Berlin", quick=True),
    Change("conversations.date_order", "dmy"),
    Change("conversations.overrides", {"garden": {"date_order": "dmy"}}),
    Change("conversations.overrides", {"garden": {"timezone": "Europe/Berlin"}}),
    Change("conversations.removals", "mirror"),
    Change("conversations.timestamp_column", "sent"),
    Change("conversations.author_column", "sender"),
    Change("conversations.message_column", "body"),
    Change("conversations.read_seconds", 61),
    Change("conversations.read_megabytes", 1024),
    Change("privacy.pseudonyms", False),
    Change("privacy.exclude", ["Nobody"]),
    Change("privacy.scrub", ["email"]),
    Change("privacy.phone_region", "DE"),
    Change("privacy.phone_region", "DE", {"privacy.scrub": ["phone"]}),
    Change("privacy.names", {"Nobody": {"shown": "Nell", "agreed": "2025-03-01"}}),
    Change("privacy.documents", "keep"),
    Change("privacy.documents", "reject", {"writers.provider": "digest"}),
    Change("partitions.grain", "week"),
    Change("partitions.start", "2020-01-01", acts=False),
    Change("partitions.days_per_run", 7, acts=False),
    Change("partitions.look_back", 9, acts=False),
    Change("partitions.after_posts", "all", acts=False),
    Change("partitions.allow_timestamp_outliers", True, acts=False),
    Change("partitions.rows_at_once", 1, acts=False),
    Change("windows.unit", "tokens"),
    Change("windows.unit", "day", {"windows.overlap": 0}),
    Change("windows.size", 5),
    Change("windows.size", 5, {"windows.unit": "day", "windows.overlap": 0}),
    Change("windows.overlap", 0),
    Change("documents.folder", "blog", rename=("posts", "blog")),
    Change("documents.pattern", "**/*.md"),
    Change("documents.sources", [{"path": "absent"}]),
    Change("documents.secrets", ["*.private"]),
    Change("documents.kind", "note", quick=True),
    Change("documents.tenant", "us"),
    Change("documents.drafts", True),
    Change("documents.ocr", "off"),
    Change("documents.ocr_languages", ["eng", "deu"]),
    Change("documents.read_seconds", 61),
    Change("documents.read_megabytes", 1024),
    Change("chunks.max_tokens", 9000, {"chunks.max_tokens": 8500}),
    Change("chunks.max_tokens", 16, {"chunks.overlap_tokens": 0}),
    Change("chunks.overlap_tokens", 10),
    Change("chunks.chunkers", {"markdown": "page"}),
    Change("chunks.sentence_max_tokens", 20, {"chunks.sentence_overlap_tokens": 4}),
    Change("chunks.sentence_max_tokens", 20, SENTENCES),
    Change("chunks.sentence_overlap_tokens", 10, SENTENCES),
    Change("chunks.max_characters", 300, CHARACTERS),
    Change("chunks.overlap_characters", 10, CHARACTERS),
    Change("queries.granularities", [2]),
    Change("queries.min_tokens", 12),
    Change("queries.min_tokens", 40),
    Change("embedding.model_dir", "models/mine", acts=False),
    Change("embedding.languages", ["de"]),
    Change("embedding.languages", ["de"], {"rag.enabled": False}),
    Change("embedding.runtime", "cuda", acts=False),
    Change("embedding.model", "gemini-embedding-2", acts=False),
    Change("embedding.dimension", 256, acts=False),
    Change("embedding.query_prefix", "query: ", acts=False),
    Change("embedding.document_prefix", "passage: ", acts=False),
    Change("embedding.max_input_tokens", 256, acts=False),
    Change("embedding.threads", 1, acts=False),
    Change("index.ann_min_rows", 500_000),
    Change("index.hnsw_m", 8, HNSW),
    Change("index.hnsw_ef_construction", 64, HNSW),
    Change("index.ef_search", 64, HNSW),
    Change("index.language", "german"),
    Change("rag.enabled", False),
    Change("rag.top_k", 1, quick=True),
    Change("rag.top_k", 1, {"rag.enabled": False}),
    Change("rag.mode", "exact"),
    Change("rag.mode", "exact", DENSE_HNSW),
    Change("rag.nprobe", 4),
    Change("rag.nprobe", 4, DENSE_HNSW),
    Change("rag.overfetch", 2),
    Change("rag.overfetch", 2, DENSE_HNSW),
    Change("rag.chunks_per_query", 2),
    Change("rag.dedup_strategy", "none"),
    Change("rag.dedup_max_per_doc", 2),
    Change("rag.dedup_max_per_doc", 2, {"rag.dedup_strategy": "none"}),
    Change("rag.near_duplicate_similarity", 0.9),
    Change("rag.min_similarity", -1.0),
    Change("rag.min_similarity", 0.6),
    Change("rag.plan", "hybrid"),
    Change("rag.adaptive_max_messages", 2),
    Change("rag.adaptive_max_messages", 2, {"rag.plan": "adaptive"}),
    Change("rag.ranking", "dense"),
    Change("rag.strategy", "mmr"),
    Change("rag.mmr_lambda", 0.1),
    Change("rag.mmr_lambda", 0.1, {"rag.strategy": "mmr"}),
    Change("rag.as_of", False),
    Change("rag.undated", "hide"),
    Change("rag.undated", "hide", {"rag.as_of": False}),
    Change("rag.kinds", ["post"]),
    Change("rag.tags", ["drip"]),
    Change("rag.document_ids", ["none"]),
    Change("rag.tenant", "us"),
    *(
        Change(f"rerank.{name}", value, acts=False)
        for name, value in {
            "candidates": 30, "model_dir": "models/mine",
            "max_tokens": 8, "model": "gemini-2.5-pro", "threads": 1, "temperature": 1.0,
        }.items()
    ),
    Change("context.max_tokens", 150),
    Change("context.max_tokens", 150, {"rag.enabled": False}),
    Change("context.snippet_characters", 20),
    Change("context.excerpt", "head"),
    Change("writers.provider", "digest"),
    Change("writers.folder", "elsewhere"),
    Change("writers.folder", "elsewhere", DIGEST),
    Change("writers.max_characters", 200, DIGEST),
    Change("writers.without_context", "skip", DIGEST),
    Change("writers.min_characters", 100, DIGEST),
    Change("writers.grain", "week"),
    Change("writers.grain", "week", DIGEST),
    Change("writers.grains", {"garden": "month"}, DIGEST),
    Change("context.max_tokens", 150, WEEKLY),
    Change("context.posts_max_tokens", 150, WEEKLY),
    *(
        Change(f"writers.{name}", value, DIGEST, acts=False)
        for name, value in {
            "plugin": "mine.py:Mine", "prompt": "mine.j2", "model": "gemini-2.5-pro", "temperature": 1,
            "max_output_tokens": 64, "threads": 1,
        }.items()
    ),
    *(
        Change(f"summaries.{name}", value, acts=False)
        for name, value in {
            "provider": "gemini", "model": "gemini-2.5-pro", "temperature": 1, "max_output_tokens": 64, "threads": 1,
        }.items()
    ),
    *(
        Change(f"answers.{name}", value, {"answers.provider": "gemini"} if name == "router" else {}, acts=False)
        for name, value in {
            "provider": "gemini", "model": "gemini-2.5-pro", "temperature": 1, "max_output_tokens": 64,
            "unsupported": "mark", "router": "model",
        }.items()
    ),
    *(
        Change(f"site.{name}", value, acts=False)
        for name, value in {
            "base_url": "https://example.org", "title": "The plot", "front_matter": {"layout": "post"},
        }.items()
    ),
    Change("writers.feedback", "on", quick=True),
    Change("writers.feedback_scope", "workspace"),
    Change("writers.feedback_scope", "workspace", {"writers.feedback": "on"}),
    Change(
        "writers.feedback_scope",
        "workspace",
        {"writers.feedback": "on", "conversations.overrides": {"garden": {"timezone": "Europe/Berlin"}}},
    ),
    Change("rag.posts_top_k", 1),
    Change("rag.posts_top_k", 1, {"writers.feedback": "on"}),
    Change("context.posts_max_tokens", 200),
    Change("context.posts_max_tokens", 200, {"writers.feedback": "on"}),
    *(
        Change(f"alerts.{name}", value, acts=False)
        for name, value in {
            "command": ["true"], "webhook": "http://127.0.0.1:9/x", "on": ["failure"], "repeat_hours": 1,
            "timeout_seconds": 1,
        }.items()
    ),
    Change("services.gemini", {
            "base_url": "http://127.0.0.1:9", "allow_http": True, "timeout_seconds": 5, "max_attempts": 1,
            "texts_per_minute": 5, "requests_per_minute": 1, "tokens_per_minute": 5,
        }, acts=False),
    Change("services.mine", {"kind": "openai"}, acts=False),
    Change("costs.currency", "EUR", acts=False),
    Change("costs.prices", {"gemini-embedding-001": {"input": 1}}, acts=False),
    Change("costs.run", {"calls": 1}, acts=False),
    Change("costs.day", {"calls": 1}, acts=False),
    Change("runs.max_minutes", 60, acts=False),
    Change("runs.keep_months", 1, acts=False),
)  # fmt: skip
"""At least one change of every setting but those that name a model, which `MODEL_CHANGES` of the tests holds."""
