"""Dependencies of each stage besides the tables that it reads: settings, models and code.

A stage is named by the table that it writes. A setting that another setting switches off is not an input, so that
changing it rebuilds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from backstory.base.ids import digest, digest_json
from backstory.index.milvus import WIDENING
from backstory.index.request import KEYWORD_TERMS
from backstory.index.snapshot import FORMAT, current_version, read_manifest
from backstory.models.reranker import QUERY_CHARACTERS, TEXT_CHARACTERS
from backstory.pipeline.history.prices import find_price
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.settings.groups import SettingsGroup
from backstory.settings.models import IndexSettings

SettingsRead = dict[str, Any]
"""Effective values by the dotted names of the settings, and constants that were settings by their former names.

A constant that decides rows counts like a setting, so that a release with another value builds again what it decides.
"""

CODE_VERSIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "messages": 16,
        "windows": 3,
        "window_chunks": 5,
        "documents": 11,
        "document_chunks": 5,
        "search_index": FORMAT,
        "hits": 2,
        "decisions": 11,
        "contexts": 9,
        "window_contexts": 12,
        "posts": 11,
    }
)
"""Version of the code of each stage. Raise it when the code gives other rows for the same inputs.

The version of the index is the snapshot format, which is part of the snapshot's name.
"""

_SERVING_STAGES = ("window_chunks", "hits", "decisions", "window_contexts")


def code_version(table: str) -> str:
    """Return the version of the code of the stage that writes a table."""
    return str(CODE_VERSIONS[table])


def depends_on_model(table: str) -> bool:
    """Return whether the stage that writes a table may give other rows with another embedder."""
    return table not in ("messages", "documents", "posts")


def hash_dependencies(workspace: Workspace, table: str, snapshot: str | None = None) -> str:
    """Hash what a stage depends on besides the tables that it reads: code, settings, model, snapshot.

    Args:
        workspace: An open workspace.
        table: The table that the stage writes.
        snapshot: Version of the snapshot that counts for ``hits`` and the stages after it; None for the published one.

    Returns:
        A hash that changes when the stage may give other rows for the same tables.
    """
    models = [workspace.embedder.id] if depends_on_model(table) else []
    searched = current_version(workspace.index) if snapshot is None else snapshot
    # Decisions weigh words and cosines by all documents, also by those that no window found.
    snapshots = [searched] if table in ("hits", "decisions", "contexts", "window_contexts") else []
    read = read_by_serving(workspace) if table == "window_contexts" else read_by(workspace, table)
    return digest([code_version(table), digest_json(read), *models, *snapshots], length=16)


def read_by(workspace: Workspace, table: str) -> SettingsRead:
    """Return the settings that a stage reads.

    Args:
        workspace: An open workspace.
        table: The table that the stage writes.

    Returns:
        Effective values: what the embedder or its calibration gives is filled in, and its lower limits are applied.
    """
    return _READERS[table].read(workspace)


def name_settings(table: str) -> tuple[str, ...]:
    """Name the settings that a stage may read, without opening a model.

    Args:
        table: The table that the stage writes.

    Returns:
        Groups of settings, and single settings by their dotted names.
    """
    model = ("embedding",) if depends_on_model(table) else ()
    return (*_READERS[table].settings, *model)


def read_by_serving(workspace: Workspace) -> SettingsRead:
    """Return the settings that decide which context a window gets for given windows and documents."""
    read: SettingsRead = {}
    for table in _SERVING_STAGES:
        read |= read_by(workspace, table)
    return read


def effective_index_settings(settings: IndexSettings, rows: int) -> IndexSettings:
    """Reset the HNSW settings to their defaults if there are too few rows for an HNSW index.

    Args:
        settings: The settings of the workspace.
        rows: Number of chunks to index.

    Returns:
        The settings that a snapshot is built with and named after.
    """
    if settings.engine == "milvus" or 0 < rows >= settings.ann_min_rows:
        return settings
    defaults = IndexSettings()
    unread = ("hnsw_m", "hnsw_ef_construction", "ef_search")
    return settings.model_copy(update={name: getattr(defaults, name) for name in unread})


def _messages(workspace: Workspace) -> SettingsRead:
    settings = workspace.settings
    privacy = _whole_group("privacy", settings.privacy)
    del privacy["privacy.documents"]
    if "phone" not in settings.privacy.scrub:
        del privacy["privacy.phone_region"]
    overrides = settings.conversations.overrides.values()
    has_zones = any(override.timezone is not None for override in overrides)
    return {
        **(
            {"writers.feedback_scope": "workspace" if workspace.shares_posts else "conversation"}
            if has_zones
            else {}
        ),
        **_whole_group("conversations", settings.conversations),
        **privacy,
        "partitions.grain": settings.partitions.grain,
    }


def _windows(workspace: Workspace) -> SettingsRead:
    settings = workspace.settings.windows
    if settings.unit == "day":
        return {"windows.unit": settings.unit}
    return _whole_group("windows", settings)


def _window_chunks(workspace: Workspace) -> SettingsRead:
    settings, embedder = workspace.settings.queries, workspace.embedder
    return {
        **_whole_group("queries", settings),
        # A stated length holds for windows of short messages, too.
        "queries.min_tokens": f"{embedder.default_query_tokens}, the embedder's"
        if settings.min_tokens is None
        else settings.min_tokens,
        "chunks.max_tokens": min(workspace.settings.chunks.max_tokens, embedder.max_input_tokens),
    }


def _documents(workspace: Workspace) -> SettingsRead:
    settings = workspace.settings
    return {**_whole_group("documents", settings.documents), **_timezone(workspace)}


def _timezone(workspace: Workspace) -> SettingsRead:
    """Return the zone of dates that state none, and that dates of documents are shown in."""
    return {"conversations.timezone": workspace.settings.conversations.timezone}


def _document_chunks(workspace: Workspace) -> SettingsRead:
    settings = workspace.settings.chunks
    ceiling = min(settings.max_tokens, workspace.embedder.max_input_tokens)
    return {
        **_whole_group("chunks", settings),
        "chunks.max_tokens": ceiling,
        "chunks.overlap_tokens": min(settings.overlap_tokens, ceiling - 1),
    }


def _search_index(workspace: Workspace) -> SettingsRead:
    settings = workspace.settings.index
    read = _whole_group("index", settings)
    del read["index.allow_http"]
    if settings.engine == "embedded":
        del read["index.uri"]
    return read


def _hits(workspace: Workspace) -> SettingsRead:
    settings = workspace.rag
    if not settings.enabled:
        return _rag(workspace, "enabled")
    approximate = settings.mode == "ann" and settings.ranking != "keyword" and _has_hnsw(workspace)
    read = _rag(
        workspace,
        *("enabled", "chunks_per_query", "plan", "ranking"),
        *(("as_of", "undated") if settings.as_of else ("as_of",)),
        *("kinds", "tags", "document_ids", "tenant"),
        *(("adaptive_max_messages",) if settings.plan == "adaptive" else ()),
        *(("mode", "nprobe", "overfetch") if approximate else ()),
        *(("posts_top_k",) if workspace.feeds_back else ()),
    )
    if approximate and workspace.settings.index.engine == "milvus":
        read["rag.widening"] = WIDENING
    if workspace.feeds_back:
        read["writers.feedback_scope"] = workspace.settings.writers.feedback_scope
    if settings.ranking != "dense":
        read["rag.keyword_terms"] = KEYWORD_TERMS
    if settings.ranking == "hybrid":
        read["rag.keyword_weight"] = workspace.calibration.keyword_weight
    return read


def _decisions(workspace: Workspace) -> SettingsRead:
    settings = workspace.settings.rag
    if not settings.enabled:
        return _rag(workspace, "enabled")
    read = _rag(
        workspace,
        *("enabled", "top_k", "strategy", "dedup_strategy", "near_duplicate_similarity"),
        *(("dedup_max_per_doc",) if settings.dedup_strategy == "document" else ()),
        *(("mmr_lambda",) if settings.strategy == "mmr" else ()),
        *(("posts_top_k",) if workspace.feeds_back else ()),
    )
    read["rag.min_similarity"] = settings.min_similarity
    read["rag.pair_model"] = read_pair_model().digest
    fit = workspace.document_fit if settings.strategy == "coverage" else None
    if fit is not None:
        read["rag.document_fit"] = fit.digest
    read["rag.temperature"] = workspace.calibration.temperature
    return read | _context(workspace, *_budgets(workspace), "snippet_characters") | _reranker(workspace)


def _reranker(workspace: Workspace) -> SettingsRead:
    """Return the settings of the reranker and its input. Its address changes no ranking and is left out."""
    if workspace.reranker is None:
        return {}
    settings = workspace.settings.rerank
    return {
        "rerank.provider": workspace.reranker.id,
        "rerank.candidates": max(settings.candidates, workspace.settings.rag.top_k),
        "rerank.query_characters": QUERY_CHARACTERS,
        "rerank.text_characters": TEXT_CHARACTERS,
        **(
            {} if settings.paid_model is None else {"privacy.documents": workspace.settings.privacy.documents}
        ),
    }


def _contexts(workspace: Workspace) -> SettingsRead:
    """Return the settings that decide the length of the passages."""
    if not workspace.settings.rag.enabled:
        return {}
    read = _context(workspace, *_budgets(workspace), "snippet_characters")
    return read | {"privacy.documents": workspace.settings.privacy.documents == "replace"}


def _budgets(workspace: Workspace) -> list[str]:
    """Name the settings of group ``context`` that limit its tokens."""
    return ["max_tokens", *(["posts_max_tokens"] if workspace.feeds_back else [])]


def _window_contexts(workspace: Workspace) -> SettingsRead:
    """Return the settings that decide the text and the advice of a row, and the budget that it states in any case."""
    read = _rag(workspace, "enabled") | _context(workspace, *_budgets(workspace))
    if not workspace.settings.rag.enabled:
        return read
    return (
        read
        | _rag(workspace, "top_k")
        | _context(workspace, "excerpt", "snippet_characters")
        | _timezone(workspace)
        | {
            "embedding.languages": workspace.embedder.languages,
        }
    )


def _posts(workspace: Workspace) -> SettingsRead:
    """Return the settings that decide the text of a post. Whether posts are documents decides other stages."""
    settings, writer = workspace.settings.writers, workspace.writer
    if writer is None:
        return {"writers.provider": settings.provider}
    read: SettingsRead = {
        "writers.provider": writer.id,
        "writers.prompt": writer.prompt_hash,
        "privacy.pseudonyms": workspace.settings.privacy.pseudonyms,
        **_timezone(workspace),
        "privacy.documents": workspace.settings.privacy.documents,
        "privacy.phone_region": workspace.settings.privacy.phone_region,
    }
    names: tuple[str, ...] = ("folder", "without_context", "min_characters", "max_characters")
    if settings.letter_grains:
        names += ("grain", "grains")
        read |= _context(workspace, "max_tokens", "posts_max_tokens")
    if settings.paid_model is not None:
        price = find_price(workspace.settings.costs, settings.paid_model)
        read["costs.prices"] = price.model_dump(mode="json") if price else None
    return read | {f"writers.{name}": getattr(settings, name) for name in names}


def _rag(workspace: Workspace, *names: str) -> SettingsRead:
    settings = workspace.settings.rag.model_dump(mode="json")
    return {f"rag.{name}": settings[name] for name in names}


def _context(workspace: Workspace, *names: str) -> SettingsRead:
    settings = workspace.settings.context.model_dump(mode="json")
    return {f"context.{name}": settings[name] for name in names}


def _whole_group(name: str, group: SettingsGroup) -> SettingsRead:
    return {f"{name}.{field}": value for field, value in group.model_dump(mode="json").items()}


def _has_hnsw(workspace: Workspace) -> bool:
    version = current_version(workspace.index)
    return bool(version) and read_manifest(workspace.index / version).hnsw is not None


class _Reader(NamedTuple):
    """How a stage reads the settings.

    Attributes:
        read: Returns the effective values.
        settings: Groups of settings, or single settings, that hold all names that ``read`` may return.
    """

    read: Callable[[Workspace], SettingsRead]
    settings: tuple[str, ...]


_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "messages": _Reader(
            _messages, ("conversations", "privacy", "partitions.grain", "writers.feedback_scope")
        ),
        "windows": _Reader(_windows, ("windows",)),
        "window_chunks": _Reader(_window_chunks, ("queries", "chunks.max_tokens")),
        "documents": _Reader(_documents, ("documents", "conversations.timezone")),
        "document_chunks": _Reader(_document_chunks, ("chunks",)),
        "search_index": _Reader(_search_index, ("index",)),
        "hits": _Reader(_hits, ("rag", "writers.feedback_scope")),
        "decisions": _Reader(_decisions, ("rag", "context", "rerank", "privacy.documents")),
        "contexts": _Reader(_contexts, ("context", "privacy.documents")),
        "window_contexts": _Reader(
            _window_contexts,
            ("rag", "context", "embedding.languages", "conversations.timezone"),
        ),
        "posts": _Reader(_posts, ("writers", "context", "privacy", "costs.prices", "conversations.timezone")),
    }
)
