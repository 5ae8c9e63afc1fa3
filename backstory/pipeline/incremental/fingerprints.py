"""Dependencies of each stage besides the tables that it reads: settings, models and code.

A stage is named by the table that it writes. Of the settings, those count that it may read, whether or not another one
switches them off: rebuilding costs little, since vectors, drafts and judgements are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from backstory.base.ids import digest, digest_json
from backstory.index.milvus import WIDENING
from backstory.index.request import KEYWORD_TERMS
from backstory.index.snapshot import FORMAT, current_version
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.sources.listing import hash_listing, list_documents
from backstory.models.reranker import QUERY_CHARACTERS, TEXT_CHARACTERS
from backstory.pipeline.history.spending import find_price
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.pair_model import read_pair_model

SettingsRead = dict[str, Any]
"""Values by the dotted names of the settings; and of models, learned files and constants that decide rows, too."""

CODE_VERSIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "messages": 17,
        "windows": 3,
        "window_chunks": 6,
        "documents": 12,
        "document_chunks": 6,
        "search_index": FORMAT,
        "hits": 2,
        "decisions": 13,
        "contexts": 11,
        "window_contexts": 12,
        "posts": 12,
    }
)
"""Version of the code of each stage. Raise it when the code gives other rows for the same inputs.

The version of the index is the snapshot format, which is part of the snapshot's name.
"""

_BUDGETS: Final = ("context.max_tokens", "context.posts_max_tokens")

SETTINGS_READ: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "messages": (
            *("conversations", "partitions.grain"),
            *(f"privacy.{name}" for name in ("pseudonyms", "exclude", "scrub", "phone_region", "names")),
        ),
        "windows": ("windows",),
        "window_chunks": (
            *("queries", "chunks.max_tokens", "embedding.max_input_tokens", "embedding.default_query_tokens"),
        ),
        "documents": ("documents", "conversations.timezone"),
        "document_chunks": ("chunks", "embedding.max_input_tokens"),
        "search_index": (
            *("index.engine", "index.uri", "index.language", "index.ann_min_rows"),
            *("index.hnsw_m", "index.hnsw_ef_construction", "index.ef_search"),
        ),
        "hits": (
            *("rag.enabled", "rag.chunks_per_query", "rag.plan", "rag.adaptive_max_messages", "rag.ranking"),
            *("rag.as_of", "rag.undated", "rag.kinds", "rag.tags", "rag.document_ids", "rag.tenant"),
            *("rag.mode", "rag.nprobe", "rag.overfetch", "rag.posts_top_k"),
            *("rag.widening", "rag.keyword_terms", "rag.keyword_weight"),
            *("writers.feedback", "writers.feedback_scope"),
        ),
        "decisions": (
            *("rag.enabled", "rag.top_k", "rag.posts_top_k", "rag.strategy", "rag.mmr_lambda"),
            *("rag.dedup_strategy", "rag.dedup_max_per_doc", "rag.near_duplicate_similarity"),
            *("rag.min_similarity", *_BUDGETS, "context.snippet_characters", "writers.feedback"),
        ),
        "contexts": (
            "rag.enabled",
            *_BUDGETS,
            "context.snippet_characters",
            "writers.feedback",
            "privacy.documents",
        ),
        "window_contexts": (
            *("rag.enabled", "rag.top_k", *_BUDGETS, "context.excerpt", "context.snippet_characters"),
            *("conversations.timezone", "writers.feedback", "embedding.languages"),
        ),
        "posts": (
            *(
                f"writers.{name}"
                for name in ("folder", "without_context", "min_characters", "max_characters")
            ),
            *("writers.grain", "writers.grains", *_BUDGETS, "conversations.timezone"),
            *("privacy.pseudonyms", "privacy.documents", "privacy.phone_region"),
        ),
    }
)
"""The settings that each stage reads: single ones, and whole groups; and what models and code hold by such names."""

_HELD: Final[Mapping[str, Callable[[Workspace], Any]]] = MappingProxyType(
    {
        "embedding.max_input_tokens": lambda workspace: workspace.embedder.max_input_tokens,
        "embedding.default_query_tokens": lambda workspace: workspace.embedder.default_query_tokens,
        "embedding.languages": lambda workspace: workspace.embedder.languages,
        "rag.keyword_weight": lambda workspace: workspace.calibration.keyword_weight,
        "rag.widening": lambda _: WIDENING,
        "rag.keyword_terms": lambda _: KEYWORD_TERMS,
    }
)
"""What models and code hold, by names that no stage reads as settings."""

_SERVING_STAGES: Final = ("window_chunks", "hits", "decisions", "window_contexts")


def code_version(table: str) -> str:
    """Return the version of the code of the stage that writes a table."""
    return str(CODE_VERSIONS[table])


def depends_on_model(table: str) -> bool:
    """Return whether the stage that writes a table may give other rows with another embedder."""
    return table not in ("messages", "documents", "posts")


def hash_dependencies(workspace: Workspace, table: str, snapshot: str | None = None) -> str:
    """Hash what a stage depends on besides the tables that it reads: code, settings, model, snapshot.

    Of ``snapshot``, the version of the published one counts by default.
    """
    models = [workspace.embedder.id] if depends_on_model(table) else []
    searched = current_version(workspace.index) if snapshot is None else snapshot
    # Decisions weigh words and cosines by all documents, also by those that no window found.
    snapshots = [searched] if table in ("hits", "decisions", "contexts", "window_contexts") else []
    read = read_by_serving(workspace) if table == "window_contexts" else _read_by(workspace, table)
    return digest([code_version(table), digest_json(read), *models, *snapshots], length=16)


def name_groups(table: str) -> list[str]:
    """Name the groups of settings that a stage may read, without opening a model."""
    models = {"decisions": ("rerank",), "posts": ("writers", "costs")}.get(table, ())
    embedding = ("embedding",) if depends_on_model(table) else ()
    return sorted({*(name.partition(".")[0] for name in SETTINGS_READ[table]), *models, *embedding})


def read_by_serving(workspace: Workspace) -> SettingsRead:
    """Return the settings that decide which context a window gets for given windows and documents."""
    read: SettingsRead = {}
    for table in _SERVING_STAGES:
        read |= _read_by(workspace, table)
    return read


def _read_by(workspace: Workspace, table: str) -> SettingsRead:
    read: SettingsRead = {}
    for name in SETTINGS_READ[table]:
        if name in _HELD:
            read[name] = _HELD[name](workspace)
            continue
        group, _, setting = name.partition(".")
        value = getattr(workspace.settings, group).model_dump(
            mode="json", include={setting} if setting else None
        )
        read |= {f"{group}.{key}": one for key, one in value.items()}
    further = _FURTHER.get(table)
    return read if further is None else read | further(workspace)


def _of_messages(workspace: Workspace) -> SettingsRead:
    overrides = workspace.settings.conversations.overrides.values()
    if all(override.timezone is None for override in overrides):
        return {}
    return {"writers.feedback_scope": "workspace" if workspace.shares_posts else "conversation"}


def _of_decisions(workspace: Workspace) -> SettingsRead:
    """Return what weighs the hits: learned models, and the reranker, of which its address changes no ranking."""
    fit, settings = workspace.document_fit, workspace.settings
    read: SettingsRead = {
        "rag.pair_model": read_pair_model().digest,
        "rag.temperature": workspace.calibration.temperature,
    }
    if fit is not None:
        read["rag.document_fit"] = fit.digest
    if workspace.reranker is None:
        return read
    return read | {
        "rerank.provider": workspace.reranker.id,
        "rerank.candidates": max(settings.rerank.candidates, settings.rag.top_k),
        "rerank.query_characters": QUERY_CHARACTERS,
        "rerank.text_characters": TEXT_CHARACTERS,
        "privacy.documents": settings.privacy.documents,
    }


def _of_posts(workspace: Workspace) -> SettingsRead:
    settings, writer = workspace.settings.writers, workspace.writer
    if writer is None:
        return {"writers.provider": settings.provider}
    price = None
    if settings.paid_model is not None:
        price = find_price(workspace.settings.costs, settings.paid_model)
    return {
        "writers.provider": writer.id,
        "writers.prompt": writer.prompt_hash,
        "costs.prices": None if price is None else price.model_dump(mode="json"),
    }


_FURTHER: Final[Mapping[str, Callable[[Workspace], SettingsRead]]] = MappingProxyType(
    {
        "messages": _of_messages,
        "decisions": _of_decisions,
        "posts": _of_posts,
    }
)
"""What else decides the rows of a stage: models, learned files, and constants of the code."""


POST_FOLDERS: Final = "post_folders"
"""Name in the catalog of the folders that posts were written into."""


def hash_document_files(workspace: Workspace) -> str:
    """Hash every file that may be a document: those of the folder of documents, and those of the further sources."""
    listing = list_documents(workspace, workspace.list_other_parts())
    return hash_listing(listing, FileHashes(workspace.catalog))


def list_post_folders(workspace: Workspace) -> list[Path]:
    """List the folder of the posts, and those that ``writers.folder`` named when posts were written before."""
    names = {workspace.settings.writers.folder, *workspace.catalog.read(POST_FOLDERS)}
    return [workspace.root / name for name in sorted(names)]
