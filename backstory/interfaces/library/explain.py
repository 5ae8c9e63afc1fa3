"""Explain why each document is, or is not, in the context of a window, by the table of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import is_written
from backstory.interfaces.library.corpus import Corpus
from backstory.interfaces.library.results import ExplainedDocument, Explanation, ShouldBe
from backstory.operations.corrections import PLACES, read_corrections, record_correction
from backstory.operations.inspection.windows import CAUSES, find_window, read_window_context
from backstory.pipeline.incremental.visible_documents import VisibleDocuments
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import DocumentEntry
from backstory.text.prompts.entries import cut_line

_PARTS: Final = 3
_PART_CHARACTERS: Final = 120


def explain_window(
    corpus: Corpus, reference: str, document: str | None = None, should_be: ShouldBe | None = None
) -> Explanation:
    """Explain the context of a window, and record a person's correction."""
    workspace = corpus.workspace
    window = find_window(workspace, reference)
    context = read_window_context(workspace, window["window_id"])
    told = ("window_id", "verdict", "coverage", "recommendation", "index_version")
    wanted = None if document is None else corpus.describe(corpus.find(document))
    if should_be is not None:
        _record(workspace, window, wanted, should_be)
    corrections = read_corrections(workspace.state)
    decisions, chunks = (
        workspace.tables.read(table, [window["partition"]]).filter(window_id=window["window_id"])
        for table in ("decisions", "window_chunks")
    )
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    entries = {row["document_id"]: corpus.describe(row) for row in corpus.documents.iter_rows(named=True)}
    found_in = decisions.select("chunk_id", "document_id").unique().iter_rows()
    uris = {chunk: entries[document].uri for chunk, document in found_in if document in entries}
    if wanted is not None:
        decisions = decisions.filter(document_id=wanted.document_id)
    order = decisions.sort(
        ["kept", "rank", "probability", "similarity"], descending=[True, False, True, True], nulls_last=True
    )
    groups = order.partition_by("document_id", maintain_order=True)
    explained = [explain_hits(group, entries.get(group["document_id"][0]), texts, uris) for group in groups]
    if wanted is not None and not explained:
        explained = [_explain_absence(wanted, window, workspace)]
    return Explanation(
        **{name: context[name] for name in told},
        uncovered_topics=tuple(context["uncovered_topics"] or ()),
        documents=tuple(
            each.model_copy(update={"should_be": corrections.get((window["window_id"], each.document_id))})
            for each in explained
        ),
    )


def _record(
    workspace: Workspace, window: Mapping[str, Any], entry: DocumentEntry | None, should_be: ShouldBe
) -> None:
    """Record where a document should be, or take the correction back."""
    if entry is None:
        raise InputError("should_be is about one document; name the document, too", code="no_document")
    if should_be not in (*PLACES, "unsaid"):
        raise InputError(f"should_be {should_be!r} is none of here, absent, unsaid", code="unknown_value")
    place = None if should_be == "unsaid" else should_be
    is_post = is_written(entry.uri)
    if place is not None and (is_post or entry.date is None or entry.date > window["started_at"]):
        reason = "Backstory wrote it" if is_post else "it is later than the window, or has no date"
        raise InputError(f"{entry.uri} is no label of this window: {reason}", code="no_label")
    record_correction(workspace.state, window["window_id"], entry.document_id, place)


def explain_hits(
    hits: pl.DataFrame, entry: DocumentEntry | None, texts: Mapping[str, str], uris: Mapping[str, str]
) -> ExplainedDocument:
    """Explain a document by its best hit that another chunk of the same document does not stand for.

    ``texts`` are those of the parts of the window, and ``uris`` those of the documents that hold a chunk, by its id.
    """
    standing = hits.filter(pl.col("cause").ne_missing("duplicate_document"))
    best = (hits if standing.is_empty() else standing).row(0, named=True)
    found_by = dict.fromkeys(hits["query_chunk_id"].to_list())
    shown = [texts[key] for key in found_by if key in texts][:_PARTS]
    reason = "it is in the context" if best["kept"] else CAUSES[best["cause"]]
    if best["cause"] == "near_duplicate" and best["because_of"] in uris:
        reason += f", in {uris[best['because_of']]}"
    return ExplainedDocument(
        **{name: best[name] for name in ("document_id", "kept", "cause", "rank")},
        uri=entry.uri if entry else "",
        title=entry.title if entry else "(no document of the library)",
        reason=reason,
        similarity=hits["similarity"].max(),
        probability=hits["probability"].max(),
        hits=hits.height,
        asked_by=tuple(cut_line(text, _PART_CHARACTERS) for text in shown),
    )


def _explain_absence(
    entry: DocumentEntry, window: Mapping[str, Any], workspace: Workspace
) -> ExplainedDocument:
    """Explain why no part of a window found a document."""
    rag, posts_of = workspace.settings.rag, VisibleDocuments(workspace).posts_of
    is_of_others = posts_of is not None and entry.document_id not in posts_of(window["conversation_id"])
    is_filtered = (
        (rag.kinds and entry.kind not in rag.kinds)
        or (rag.tags and not set(rag.tags) & set(entry.tags))
        or (rag.document_ids and entry.document_id not in rag.document_ids)
        or (rag.undated == "hide" and entry.date is None)
    )
    cause, reason = "not_found", "it is not among the nearest chunks of any part (rag.chunks_per_query)"
    if rag.as_of and entry.date is not None and entry.date > window["started_at"]:
        cause, reason = "published_later", "it is later than the window, and rag.as_of hides such documents"
    elif is_written(entry.uri) and is_of_others:
        cause, reason = "other_conversation", "it is of another conversation (writers.feedback_scope)"
    elif is_filtered:
        cause, reason = "filtered", "the settings of rag leave it out: kinds, tags, document_ids or undated"
    return ExplainedDocument.of(entry, kept=False, cause=cause, reason=reason)
