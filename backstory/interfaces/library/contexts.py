"""A question, a longer text or a conversation -> a context for a prompt, by the same steps as for windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

import polars as pl

from backstory.base.errors import InputError
from backstory.interfaces.library.messages import Message, divide
from backstory.interfaces.library.results import ContextAnswer, ContextDocument, ContextPart
from backstory.interfaces.library.search import SearchFilters, admit
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.operations.inspection.windows import find_window
from backstory.pipeline.chats.named_documents import NameView
from backstory.pipeline.query_index import embed_queries, make_retrieval
from backstory.retrieval.contexts import add_budget_of_posts
from backstory.retrieval.hits import PostsOf
from backstory.settings.models import RAGSettings
from backstory.text.chunking.units import estimate_tokens
from backstory.text.layout import MESSAGE_SEPARATOR
from backstory.text.prompts.entries import FORMATS, ContextFormat, format_context


class ContextOptions(TypedDict, total=False):
    """What a context may hold, and how it is written; each option may be left out."""

    max_tokens: int | None
    """Token budget of the context; None for the setting ``context.max_tokens``."""
    format: ContextFormat
    """``markdown`` (the default), or as :func:`backstory.text.prompts.entries.format_context` has it."""
    top_k: int | None
    """Maximum number of chunks; None for the setting ``rag.top_k``."""
    as_of: datetime | None
    """Documents that were published after this time are hidden. None hides none; in the context of a window, those that
    are later than its beginning, if the setting ``rag.as_of`` is on."""
    filters: SearchFilters | Mapping[str, Any]
    """Which documents may be in it, without pages and time."""


def make_context(
    snapshot: OpenSnapshot,
    query: str | Sequence[Message],
    notes: Sequence[str],
    **options: Unpack[ContextOptions],
) -> ContextAnswer:
    """Find the documents that serve a text or messages, part by part, and write them as a context."""
    as_of = options.get("as_of")
    windows, chunks = divide(snapshot, query, as_of)
    text = query if isinstance(query, str) else MESSAGE_SEPARATOR.join(chunks["text"])
    rag = snapshot.workspace.settings.rag.model_copy(update={"as_of": as_of is not None, "plan": "chunked"})
    return _cover(snapshot, text, windows, chunks, rag, notes, **options)


def make_window_context(
    snapshot: OpenSnapshot, reference: str, notes: Sequence[str], **options: Unpack[ContextOptions]
) -> ContextAnswer:
    """Find the documents that serve a window, part by part, as a run does."""
    # Loaded late, since a question needs no stage.
    from backstory.pipeline.incremental.visible_documents import VisibleDocuments

    workspace = snapshot.workspace
    window = find_window(workspace, reference)
    key, posts_of = window["window_id"], VisibleDocuments(workspace).posts_of
    windows, chunks = (
        workspace.tables.read(table, [window["partition"]]).filter(window_id=key)
        for table in ("windows", "window_chunks")
    )
    if chunks.is_empty():
        raise InputError(f"window {key} has no query chunks yet; run `backstory run`")
    rag, as_of, told = workspace.rag, options.get("as_of"), window["conversation_id"]
    if as_of is not None:
        rag = rag.model_copy(update={"as_of": True})
        windows = windows.with_columns(started_at=pl.lit(as_of).cast(windows.schema["started_at"]))
    return _cover(snapshot, key, windows, chunks, rag, notes, posts_of=posts_of, conversation=told, **options)


def _cover(
    snapshot: OpenSnapshot,
    query: str,
    windows: pl.DataFrame,
    chunks: pl.DataFrame,
    rag: RAGSettings,
    notes: Sequence[str],
    *,
    posts_of: PostsOf | None = None,
    conversation: str | None = None,
    max_tokens: int | None = None,
    format: ContextFormat = "markdown",  # noqa: A002 - the word that everybody looks for
    top_k: int | None = None,
    as_of: datetime | None = None,
    filters: SearchFilters | Mapping[str, Any] | None = None,
) -> ContextAnswer:
    """Search for the query chunks of one window, and describe the documents that serve them."""
    if format not in FORMATS:
        raise InputError(f"format {format!r} is none of {', '.join(FORMATS)}", code="unknown_value")
    for name, value in (("max_tokens", max_tokens), ("top_k", top_k)):
        if value is not None and value < 1:
            raise InputError(f"{name} {value} must be at least 1", code="out_of_range")
    SearchFilters(as_of=as_of)  # refuses a time without a zone
    wanted = SearchFilters.take(filters)
    if wanted.pages is not None or wanted.as_of is not None:
        raise InputError("the filters of a context hold neither pages nor a time; pass the time as as_of")
    workspace, index = snapshot.workspace, snapshot.index
    admitted = admit(wanted, rag, snapshot)
    # An empty list of documents would admit all of them; no id is so short.
    changes: dict[str, object] = {"document_ids": ("none",)}
    if admitted is not None:
        changes = {name: getattr(admitted, name) for name in ("document_ids", "kinds", "tags", "tenant")}
    rag = rag.model_copy(update=changes | ({"top_k": top_k} if top_k else {}))
    context = workspace.settings.context.model_copy(update={"max_tokens": max_tokens} if max_tokens else {})
    embedded = embed_queries(workspace, chunks["text"].to_list())
    retrieval = replace(make_retrieval(workspace, index, posts_of), rag=rag, context=context)
    view = NameView(workspace, "agent")
    retrieved = retrieval.run(
        windows,
        chunks,
        embedded.vectors,
        show=lambda _, document_id, text: view.show(document_id, text, conversation) or "",
        list_withheld=view.list_withheld,
    )
    judged, assessments = retrieval.assess(windows, chunks, retrieved.decisions, workspace.embedder.languages)
    assessed = assessments.row(0, named=True)
    contexts = workspace.date_locally(retrieved.contexts)
    budget = add_budget_of_posts(context) if workspace.feeds_back else context
    written = format_context(contexts.to_dicts(), budget, format)
    documents = _list_documents(contexts, judged)
    return ContextAnswer(
        query=query,
        text=written,
        format=format,
        tokens=int(estimate_tokens([written])[0]) if written else 0,
        max_tokens=budget.max_tokens,
        parts=_list_parts(judged, chunks, documents),
        documents=documents,
        **{name: assessed[name] for name in ("verdict", "confidence", "recommendation")},
        index_version=index.manifest.version,
        degraded=snapshot.degraded,
        notes=(*notes, *view.list_notes(), *filter(None, [snapshot.degraded])),
    )


def _list_parts(
    judged: pl.DataFrame, chunks: pl.DataFrame, documents: Sequence[ContextDocument]
) -> tuple[ContextPart, ...]:
    """List the parts with what serves each, from the same record as the verdict."""
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    whole = "\n\n".join(chunks["text"])
    return tuple(
        ContextPart(
            part=number,
            text=texts.get(row["query_chunk_id"], whole),
            state=row["state"],
            probability=round(row["probability"], 3),
            chunk_id=row["chunk_id"],
            citations=tuple(each.citation for each in documents if number in each.serves),
        )
        for number, row in enumerate(judged.iter_rows(named=True), start=1)
    )


def _list_documents(contexts: pl.DataFrame, judged: pl.DataFrame) -> tuple[ContextDocument, ...]:
    """List the cited documents with the numbers of the parts that each serves."""
    parts = pl.int_range(1, pl.len() + 1).alias("serves")
    serving = judged.select(parts, document_id="documents").explode("document_id")
    cited = (
        contexts.group_by("citation", maintain_order=True)
        .agg(
            pl.col("document_id", "uri", "title").first(),
            date=pl.col("published_at").first(),
            similarity=pl.col("similarity").max(),
        )
        .join(serving.group_by("document_id").agg(pl.col("serves").sort()), on="document_id", how="left")
        .sort("citation")
    )
    return tuple(
        ContextDocument(**{**row, "serves": row["serves"] or ()}) for row in cited.iter_rows(named=True)
    )
