"""What the rows of a stage are made from: partitions of other tables, settings, models and code.

A stage is named by the table that it writes. Of the settings, those count that it may read, whether or not another one
switches them off: rebuilding costs little, since vectors, drafts and judgements are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import polars as pl

from backstory.base.errors import ContractError, WorkspaceError
from backstory.base.ids import digest, digest_json
from backstory.base.wording import name_some
from backstory.index.milvus import WIDENING
from backstory.index.request import KEYWORD_TERMS
from backstory.index.snapshot import FORMAT
from backstory.models.reranker import QUERY_CHARACTERS, TEXT_CHARACTERS
from backstory.pipeline.history.spending import find_price
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.tables import WHOLE

CODE_VERSIONS: Final[Mapping[str, int]] = {
    "messages": 22,
    "windows": 3,
    "window_chunks": 7,
    "documents": 14,
    "document_chunks": 7,
    "search_index": FORMAT,
    "hits": 2,
    "decisions": 14,
    "contexts": 13,
    "window_contexts": 12,
    "posts": 13,
}
"""Version of the code of each stage. Raise it when the code gives other rows for the same inputs.

The version of the index is the snapshot format, which is part of the snapshot's name.
"""

_SERVING: Final[Mapping[str, str]] = {
    "window_chunks": "queries chunks.max_tokens embedding.max_input_tokens embedding.default_query_tokens",
    "hits": "rag.enabled rag.chunks_per_query rag.plan rag.adaptive_max_messages rag.ranking rag.as_of rag.undated "
    "rag.kinds rag.tags rag.document_ids rag.tenant rag.mode rag.nprobe rag.overfetch rag.posts_top_k rag.widening "
    "rag.keyword_terms rag.keyword_weight writers.feedback writers.feedback_scope",
    "decisions": "rag.enabled rag.top_k rag.posts_top_k rag.strategy rag.mmr_lambda rag.dedup_strategy "
    "rag.dedup_max_per_doc rag.near_duplicate_similarity rag.min_similarity context.max_tokens "
    "context.posts_max_tokens context.snippet_characters writers.feedback rag.pair_model rag.temperature "
    "rag.document_fit rerank.provider rerank.candidates rerank.query_characters rerank.text_characters "
    "rerank.privacy",
    "window_contexts": "rag.enabled rag.top_k context.max_tokens context.posts_max_tokens context.excerpt "
    "context.snippet_characters conversations.timezone writers.feedback embedding.languages",
}

SETTINGS_READ: Final[Mapping[str, str]] = {
    "messages": "conversations partitions.grain privacy.pseudonyms privacy.exclude privacy.scrub "
    "privacy.phone_region privacy.names writers.feedback writers.feedback_scope",
    "windows": "windows",
    "documents": "documents conversations.timezone",
    "document_chunks": "chunks embedding.max_input_tokens",
    "search_index": "index.engine index.uri index.language index.ann_min_rows index.hnsw_m "
    "index.hnsw_ef_construction index.ef_search",
    "contexts": "rag.enabled context.max_tokens context.posts_max_tokens context.snippet_characters writers.feedback "
    "privacy.documents",
    "posts": "writers.folder writers.without_context writers.min_characters writers.max_characters writers.grain "
    "writers.grains context.max_tokens context.posts_max_tokens conversations.timezone privacy.pseudonyms "
    "privacy.documents privacy.phone_region writers.provider writers.prompt costs.price",
    **_SERVING,
    # What decides which context a window gets for given windows and documents is described in each context.
    "window_contexts": " ".join(_SERVING.values()),
}
"""The settings that each stage reads: single ones, and whole groups; and what models and code hold by such names."""

_HELD: Final[Mapping[str, Callable[[Workspace], Any]]] = {
    "embedding.max_input_tokens": lambda workspace: workspace.embedder.max_input_tokens,
    "embedding.default_query_tokens": lambda workspace: workspace.embedder.default_query_tokens,
    "embedding.languages": lambda workspace: workspace.embedder.languages,
    "rag.keyword_weight": lambda workspace: workspace.calibration.keyword_weight,
    "rag.temperature": lambda workspace: workspace.calibration.temperature,
    "rag.widening": lambda _: WIDENING,
    "rag.keyword_terms": lambda _: KEYWORD_TERMS,
    "rag.pair_model": lambda _: read_pair_model().digest,
    "rag.document_fit": lambda workspace: workspace.document_fit and workspace.document_fit.digest,
    "rerank.provider": lambda workspace: workspace.reranker and workspace.reranker.id,
    "rerank.candidates": lambda workspace: (
        workspace.reranker and max(workspace.settings.rerank.candidates, workspace.settings.rag.top_k)
    ),
    "rerank.query_characters": lambda workspace: workspace.reranker and QUERY_CHARACTERS,
    "rerank.text_characters": lambda workspace: workspace.reranker and TEXT_CHARACTERS,
    "rerank.privacy": lambda workspace: workspace.reranker and workspace.settings.privacy.documents,
    "writers.provider": lambda workspace: workspace.writer.id if workspace.writer else "none",
    "writers.prompt": lambda workspace: workspace.writer and workspace.writer.prompt_hash,
    "costs.price": lambda workspace: (
        (price := find_price(workspace.settings.costs, workspace.settings.writers.paid_model or ""))
        and price.model_dump(mode="json")
    ),
}
"""What models, learned files and code hold, by names that no stage reads as settings; None counts as not there."""


def code_version(table: str) -> str:
    """Return the version of the code of the stage that writes a table."""
    return str(CODE_VERSIONS[table])


def depends_on_model(table: str) -> bool:
    """Return whether the stage that writes a table may give other rows with another embedder."""
    return table not in ("messages", "documents", "posts")


def name_groups(table: str) -> list[str]:
    """Name the groups of settings that a stage may read, without opening a model."""
    embedding = ("embedding",) if depends_on_model(table) else ()
    return sorted({*(name.partition(".")[0] for name in SETTINGS_READ[table].split()), *embedding})


def hash_dependencies(workspace: Workspace, table: str, searched: str = "") -> str:
    """Hash what a stage depends on besides the tables that it reads: code, columns, settings, model, and documents.

    Of the documents, ``searched`` is the version of those in which windows search.
    """
    models = [workspace.embedder.id] if depends_on_model(table) else []
    read = digest_json(values_read_by(workspace, table))
    columns = TABLES[table].schema.names() if table in TABLES else []
    return digest([code_version(table), *columns, read, *models, searched], length=16)


def values_read_by(workspace: Workspace, table: str) -> dict[str, Any]:
    """Return what :data:`SETTINGS_READ` names, by dotted names."""
    read: dict[str, Any] = {}
    for name in SETTINGS_READ[table].split():
        group, _, setting = name.partition(".")
        if name not in _HELD:
            included = {setting} if setting else None
            values = getattr(workspace.settings, group).model_dump(mode="json", include=included)
            read |= {f"{group}.{key}": value for key, value in values.items()}
        elif (value := _HELD[name](workspace)) is not None:
            read[name] = value
    return read


_MADE_BY = "made by"

logger = logging.getLogger(__name__)


def content_of(workspace: Workspace, table: str, partitions: Sequence[str]) -> dict[str, str]:
    """Return a hash of each partition's rows: empty for no rows, ``not made`` for a partition never built."""
    entries = workspace.catalog.read(table)
    return {key: entries[key].content if key in entries else "not made" for key in partitions}


def read_table_rows(workspace: Workspace, table: str, partitions: Sequence[str]) -> pl.DataFrame:
    """Read the input partitions of a stage. A partition that was never built is an error, not an empty table."""
    entries = workspace.catalog.read(table)
    if absent := [key for key in partitions if key not in entries]:
        raise WorkspaceError(
            f"{table} {name_some(absent, 1)} does not exist; materialize {table} for the same days first, or run "
            "`backstory run`",
            code="unmade_partition",
        )
    return workspace.tables.read(table, partitions)


def read_previous(workspace: Workspace, table: str) -> pl.DataFrame | None:
    """Read the previous output of a stage, so that its unchanged rows can be reused.

    It is None if the rows are not recorded or are damaged, which is logged.
    """
    try:
        return workspace.tables.read(table) if WHOLE in workspace.catalog.read(table) else None
    except ContractError as error:
        logger.warning("%s", error)
        return None


def record_maker(workspace: Workspace, table: str) -> None:
    """Record the version of the code and the calendar grain that made a table."""
    entry = Entry(code_version(table), workspace.settings.partitions.grain, 0)
    if workspace.catalog.read(_MADE_BY).get(table) != entry:
        workspace.catalog.record(_MADE_BY, {table: entry})


def is_made_by_this_code(workspace: Workspace, table: str) -> bool:
    """Check whether the current version of its stage built the table, so that its rows can be reused."""
    known = workspace.catalog.read(_MADE_BY).get(table)
    return known is not None and known.inputs == code_version(table)


def drop_other_grain(workspace: Workspace, table: str, wanted: Collection[str]) -> bool:
    """Remove the partitions of another calendar grain, whose rows would duplicate those of the current grain.

    It returns whether there were any.
    """
    grain = workspace.settings.partitions.grain
    known = workspace.catalog.read(_MADE_BY).get(table)
    if WHOLE in wanted or known is None or known.content == grain:
        return False
    partitions = workspace.catalog.read(table)
    workspace.catalog.forget(table, partitions)
    words = "partitions.grain is %s and was %s: dropped all %d partitions of %s, which the old grain made"
    logger.warning(words, grain, known.content, len(partitions), table)
    return True


def group_partitions(partitions: Sequence[str], weights: Mapping[str, int], most: int) -> list[list[str]]:
    """Cut a list of partitions into groups of limited weight. One that is heavier than ``most`` is a group alone."""
    groups: list[list[str]] = []
    room = 0
    for key in partitions:
        weight = weights.get(key, 0)
        if not groups or weight > room:
            groups.append([])
            room = most
        groups[-1].append(key)
        room -= weight
    return groups


def split_by_partition(
    frame: pl.DataFrame, partitions: Sequence[str], *, keep_key: bool = False
) -> dict[str, pl.DataFrame]:
    """Cut a frame by its ``partition`` column. A wanted key without rows gets an empty frame."""
    groups = frame.partition_by("partition", as_dict=True, maintain_order=True, include_key=keep_key)
    absent = frame.clear() if keep_key else frame.drop("partition").clear()
    return {key: groups.get((key,), absent) for key in partitions}
