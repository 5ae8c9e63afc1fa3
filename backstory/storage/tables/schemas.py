"""Contracts of the tables, in the order in which data flows.

:mod:`backstory.storage.tables.contracts` applies them to Polars frames. Timestamps are UTC with microseconds, but for
``local_time``.
"""

from __future__ import annotations

from typing import Annotated, get_args

import polars as pl

from backstory.settings.inputs import ChunkerName
from backstory.storage.tables.table import Table, declare

UtcDatetime = Annotated[pl.Datetime, "us", "UTC"]
LocalDatetime = Annotated[pl.Datetime, "us", None]
StringList = Annotated[pl.List, pl.String()]
NumberList = Annotated[pl.List, pl.Int64()]
ShareList = Annotated[pl.List, pl.Float64()]
Reactions = Annotated[pl.List, pl.Struct({"emoji": pl.String(), "count": pl.Int64()})]


DATE_ORIGINS = ("stated", "name", "changed", "created", "copied")
DOCUMENT_STATUSES = ("ok", "error", "superseded", "deleted")
CHUNKERS = get_args(ChunkerName)


class Documents(Table):
    """One row is one revision of a document.

    ``status`` is ``ok`` for the revision that is searched, ``error`` for a revision that could not be read,
    ``superseded`` for an earlier revision, and ``deleted`` for the tombstone of a document whose file is gone or has
    become a draft.
    """

    document_id: str = declare(description="Id of the document, stable across edits: a hash of its uri.")
    revision: str = declare(description="Id of this content of the document.")
    uri: str = declare(
        description="Path in the folder of documents; of a further source, its name, `://` and the path below it."
    )
    title: str = declare(description="Title: front matter, else first heading, else slug.")
    slug: str = declare(description="Slug: front matter, else file name.")
    published_at: UtcDatetime = declare(
        nullable=True,
        description="Date that the document states, UTC (docs/reference/document-formats.md); null if it states none.",
    )
    date_origin: str = declare(
        nullable=True,
        allowed=DATE_ORIGINS,
        description="Where that date is from: stated (by the text or as a publication), name (of the file or folder), "
        "changed (last change), created, or copied (created after the last change); null without a date.",
    )
    tags: StringList = declare(description="Tags.")
    kind: str = declare(description="Kind, such as post.")
    tenant: str = declare(description="Owner of the document.")
    conversation_id: str = declare(
        nullable=True,
        description="Conversation of a post that Backstory wrote, empty if its file does not state it; null for what "
        "people wrote.",
    )
    format: str = declare(description="Reader of its format, such as markdown.")
    size: int = declare(
        nullable=True, least=0, description="Bytes of the file; null if it could not be opened."
    )
    encoding: str = declare(nullable=True, description="Encoding of the file; null if binary or not read.")
    page_starts: NumberList = declare(
        description="Character of the text at which each page begins; empty without pages. Slides and sheets are pages."
    )
    confidences: ShareList = declare(
        description="Per page the confidence, 0 to 1, with which its text was recognised in an image, null for a page "
        "that held text; empty if no page was recognised."
    )
    chunker: str = declare(
        nullable=True,
        allowed=CHUNKERS,
        description="How its reader has it cut, unless `chunks.chunkers` says otherwise; null if it was not read.",
    )
    text: str = declare(
        description="Body without front matter, newlines as \\n; empty for all revisions of a deleted document."
    )
    content_hash: str = declare(description="Hash of the file.")
    status: str = declare(allowed=DOCUMENT_STATUSES, description="ok, error, superseded or deleted.")
    error: str = declare(nullable=True, description="Why the file could not be read, for status error.")
    unread: str = declare(
        nullable=True, description="What of the file was not read, and what to do; null if all was read."
    )

    unique = ("document_id", "revision")


class DocumentChunks(Table):
    """One row is one stored chunk: characters ``char_start`` to ``char_end`` of its document's text."""

    chunk_id: str = declare(description="{document_id}#rev:{revision}#p:{page}#m:{method}#c:{index}.")
    document_id: str = declare(description="Document.")
    revision: str = declare(description="Revision that was cut.")
    chunk_index: int = declare(least=0, description="Position in the document, from 0.")
    page_start: int = declare(nullable=True, description="First page, from 1; null without pages.")
    page_end: int = declare(nullable=True, description="Last page, inclusive; null without pages.")
    line_start: int = declare(
        least=1, description="First line in the document's text, from 1, counted through all pages."
    )
    line_end: int = declare(least=1, description="Last line in the document's text, inclusive.")
    char_start: int = declare(least=0, description="First character in the document's text.")
    char_end: int = declare(least=0, description="Character after the last one.")
    heading: str = declare(
        description='Headings above it, outermost first, joined by " > "; definition of code; header of rows.'
    )
    confidence: float = declare(
        nullable=True,
        least=0,
        most=1,
        description="Least confidence of its pages whose text was recognised in an image; null if none was.",
    )
    text: str = declare(description="Characters char_start to char_end of the document's text.")
    token_count: int = declare(least=0, description="Tokens by the embedder's tokenizer.")

    unique = ("chunk_id",)


MESSAGE_KINDS = ("message", "system", "media")
CAUSES = (
    "kept",
    "below_threshold",
    "duplicate_document",
    "near_duplicate",
    "below_rating",
    "not_selected",
    "over_budget",
)
SOURCE_STATUSES = ("read", "empty", "needs_ocr", "unsupported", "set_aside", "failed", "ignored")
VERDICTS = ("sufficient", "partial", "insufficient", "nothing_asked", "not_known")
CONTEXT_STATUSES = ("ok", "no_hits", "disabled", "degraded")
POST_STATUSES = (
    "written", "edited", "no_messages", "no_context", "rejected", "failed", "waiting", "in_letter",
)  # fmt: skip


class Messages(Table):
    """One row is one message of a conversation."""

    message_id: str = declare(description="Id, the same in every run and across overlapping exports.")
    conversation_id: str = declare(
        description="Conversation: the chat's name and id where the export has them, else its subfolder or name."
    )
    timestamp: UtcDatetime = declare(description="Time of sending, UTC.")
    local_time: LocalDatetime = declare(
        description="Time of sending by the clock of the conversation, whose days partitions and windows follow."
    )
    timezone: str = declare(description="Time zone of that clock.")
    seq: int = declare(description="Position among the messages of its source with the same timestamp.")
    author: str = declare(nullable=True, description="Pseudonym of the author; null for system lines.")
    text: str = declare(
        nullable=True, description="Text, mentions as pseudonyms; null for media without a caption."
    )
    kind: str = declare(allowed=MESSAGE_KINDS, description="message, system or media.")
    source: str = declare(description="Export that holds it, relative to the folder of exports.")
    reply_to: str = declare(
        nullable=True,
        description="Message that it answers, or that began its thread; null if there is none in this table.",
    )
    reactions: Reactions = declare(
        description="Emoji (`:name:` for a custom one) and how many people chose it; empty without reactions."
    )
    edited: bool = declare(
        description="Whether the text was changed after sending, as far as the export says."
    )

    unique = ("message_id",)


class Quarantine(Table):
    """One row is a line or record of an export that could not be read."""

    source: str = declare(description="Export, relative to the folder of exports.")
    line: int = declare(description="Line or record, from 1; 0 for the file as a whole.")
    reason: str = declare(description="Why it could not be read.")


class Sources(Table):
    """One row is one file in the folders of exports and documents, whether it was read or not.

    ``status`` is ``read`` if the file gave rows, ``empty`` if it holds nothing to read, ``needs_ocr`` if its text is in
    images and cannot be recognised here, ``unsupported`` if no reader knows its format, ``set_aside`` if it waits for a
    person's answer, ``failed`` if it could not be read, and ``ignored`` if a rule excludes it.
    """

    source: str = declare(description="Path relative to the workspace; names of people as pseudonyms.")
    folder: str = declare(allowed=("conversations", "documents"), description="conversations or documents.")
    status: str = declare(
        allowed=SOURCE_STATUSES,
        description="read, empty, needs_ocr, unsupported, set_aside, failed or ignored.",
    )
    format: str = declare(nullable=True, description="Reader that knows the file; null if none does.")
    reason: str = declare(
        nullable=True,
        description="Why it was not read completely, what it lacks or was merged with, and what to do; null otherwise.",
    )
    rows: int = declare(least=0, description="Messages of an export; 1 for a document that was read.")
    unread: int = declare(least=0, description="Lines or records of the file that could not be read.")
    first: UtcDatetime = declare(
        nullable=True, description="Time of the first message, or date of the document."
    )
    last: UtcDatetime = declare(
        nullable=True, description="Time of the last message, or date of the document."
    )
    encoding: str = declare(nullable=True, description="Encoding of the text; null if binary.")
    date_order: str = declare(nullable=True, description="Order of day, month and year in its dates.")
    timezone: str = declare(
        nullable=True, description="Time zone assumed for its timestamps; null if it states one."
    )
    language: str = declare(
        nullable=True, description="Main language, ISO 639-1; null if it cannot be detected."
    )

    unique = ("source",)


class Windows(Table):
    """One row is one window of a conversation."""

    window_id: str = declare(description="Id, the same for the same messages and settings.")
    conversation_id: str = declare(description="Conversation.")
    partition: str = declare(description="Partition that the window belongs to.")
    started_at: UtcDatetime = declare(description="Time of the first message, UTC.")
    ended_at: UtcDatetime = declare(description="Time of the last message, UTC.")
    timezone: str = declare(description="Time zone of the conversation.")
    message_count: int = declare(least=1, description="Number of messages, overlap included.")
    token_count: int = declare(
        least=0, description="Sum of the messages' tokens, by the embedder's tokenizer."
    )
    message_ids: StringList = declare(description="Messages in order, overlap first.")

    unique = ("window_id",)


class WindowChunks(Table):
    """One row is one query chunk: a run of messages of a window at one granularity.

    ``first_message`` and ``last_message`` are positions in the window's ``message_ids``, from 0, inclusive.
    """

    chunk_id: str = declare(description="Id of the query chunk.")
    window_id: str = declare(description="Window that it is part of.")
    granularity: str = declare(
        description="How it was cut: messages:N, packed, or message in windows of short messages."
    )
    chunk_index: int = declare(
        least=0, description="Position among the window's chunks of this granularity, from 0."
    )
    text: str = declare(description="Embedded text: the texts of its messages, joined by blank lines.")
    token_count: int = declare(least=0, description="Tokens by the embedder's tokenizer.")
    first_message: int = declare(least=0, description="Position of its first message in message_ids.")
    last_message: int = declare(
        least=0, description="Position of its last message in message_ids, inclusive."
    )

    unique = ("chunk_id",)


class Hits(Table):
    """One row is a stored chunk that one query chunk found."""

    window_id: str = declare(description="Window of the query chunk.")
    query_chunk_id: str = declare(description="Query chunk that found the stored chunk.")
    chunk_id: str = declare(description="Stored chunk that was found.")
    document_id: str = declare(description="Document of the stored chunk.")
    similarity: float = declare(description="Cosine similarity, exact.")
    keyword_score: float = declare(nullable=True, description="BM25 score; null if keywords did not find it.")
    score: float = declare(description="Score that the ranking orders by.")
    rank: int = declare(least=1, description="Rank among the hits of the query chunk, from 1.")
    engine: str = declare(description="Engine that searched: exact, vss or bm25.")
    index_version: str = declare(description="Snapshot that was searched.")

    unique = ("query_chunk_id", "chunk_id")


class Decisions(Table):
    """One row is one hit, judged: kept, or dropped with its cause.

    ``rank`` is the rank of a kept chunk in its window's context, from 1. ``because_of`` is the better chunk for which
    a duplicate was dropped.
    """

    window_id: str = declare(description="Window.")
    query_chunk_id: str = declare(description="Query chunk that found the stored chunk.")
    chunk_id: str = declare(description="Stored chunk that was found.")
    document_id: str = declare(description="Document of the stored chunk.")
    similarity: float = declare(description="Cosine similarity.")
    score: float = declare(description="Score that the ranking orders by.")
    probability: float = declare(
        least=0, most=1, description="Probability that the chunk tells something about the query chunk."
    )
    kept: bool = declare(description="Whether the chunk is in the context.")
    rank: int = declare(nullable=True, description="Rank in the context, from 1; null if dropped.")
    cause: str = declare(allowed=CAUSES, description="kept, or why it was dropped.")
    because_of: str = declare(
        nullable=True, description="Better chunk for which a duplicate was dropped; null otherwise."
    )
    rerank_note: str = declare(
        nullable=True,
        description="Why the old order of this window's chunks was kept; null if the reranker judged them, or if "
        "there is no reranker.",
    )
    uncovered_topics: StringList = declare(
        nullable=True,
        description="Topics of this window that no candidate serves, as a language model judged; null without such "
        "judgements.",
    )

    unique = ("query_chunk_id", "chunk_id")


class Contexts(Table):
    """One row is one chunk in a window's context, traceable to its document's revision and characters."""

    window_id: str = declare(description="Window.")
    rank: int = declare(least=1, description="Rank in the context, from 1.")
    document_id: str = declare(description="Document.")
    revision: str = declare(description="Revision of the document.")
    chunk_id: str = declare(description="Stored chunk.")
    title: str = declare(description="Title of the document.")
    slug: str = declare(description="Slug of the document.")
    uri: str = declare(description="Uri of the document, as in `documents`.")
    published_at: UtcDatetime = declare(nullable=True, description="Date of publication, UTC.")
    tags: StringList = declare(description="Tags of the document.")
    page_start: int = declare(nullable=True, description="First page; null without pages.")
    page_end: int = declare(nullable=True, description="Last page, inclusive; null without pages.")
    char_start: int = declare(least=0, description="First character in the document's text.")
    char_end: int = declare(least=0, description="Character after the last one.")
    content: str = declare(description="Whole text of the chunk, with members called as readers see them.")
    passage: str = declare(
        description="Sentences of the chunk, or of its neighbours, that serve this window; … where some are left out."
    )
    passage_start: int = declare(
        least=0, description="First character of the passage in the document's text."
    )
    passage_end: int = declare(
        least=0, description="Character after the last one of the passage in the document's text."
    )
    citation: int = declare(least=1, description="Number of the document in this window, for [1] and so on.")
    serves: str = declare(
        description="Why it is here: which messages of the window it serves, from 1, and the words of one of them; "
        "`perhaps` where that is not certain."
    )
    similarity: float = declare(description="Best cosine similarity over the query chunks that found it.")
    score: float = declare(description="Best score over the query chunks that found it.")
    matched_query_chunks: StringList = declare(
        description="Query chunks that its document serves, most probable first; if it serves none for certain, "
        "those that found it."
    )

    unique = ("window_id", "rank")


class WindowContexts(Table):
    """One row is one window: its messages and its context as prompt text, and the counts of every stage."""

    window_id: str = declare(description="Window.")
    status: str = declare(
        allowed=CONTEXT_STATUSES,
        description="ok, no_hits, disabled, or degraded: the model does not know the language, not reranked as set, "
        "or no document fits the budget.",
    )
    language: str = declare(
        nullable=True, description="Main language of the window, ISO 639-1; null if it cannot be detected."
    )
    text: str = declare(description="Prompt text; empty without documents.")
    token_count: int = declare(least=0, description="Estimated tokens of the text.")
    cited_text: str = declare(
        description="Prompt text with quoted passages and numbers to cite; empty without documents."
    )
    cited_token_count: int = declare(least=0, description="Estimated tokens of cited_text.")
    max_tokens: int = declare(least=1, description="Budget of each of the two texts, context.max_tokens.")
    query_chunk_count: int = declare(least=0, description="Query chunks of the window.")
    hit_count: int = declare(least=0, description="Hits of all query chunks.")
    above_threshold_count: int = declare(least=0, description="Hits that are evidence.")
    after_dedup_count: int = declare(
        least=0, description="Hits that are evidence and whose chunk remained after deduplication."
    )
    kept_count: int = declare(least=0, description="Chunks in the context.")
    part_count: int = declare(least=0, description="Parts that ask for something; small talk is none.")
    served_count: int = declare(least=0, description="Parts that a document of the context serves.")
    beyond_limit_count: int = declare(
        least=0,
        description="Parts that only documents beyond rag.top_k, context.max_tokens or rag.min_similarity serve.",
    )
    unsure_count: int = declare(
        least=0,
        description="Parts that no document serves, and one may serve: the best probability is at least 0.2.",
    )
    uncovered_count: int = declare(least=0, description="Parts that nothing in the index serves.")
    coverage: float = declare(
        least=0,
        most=1,
        description="Share of the parts that a document of the context serves, by their number of messages.",
    )
    verdict: str = declare(
        allowed=VERDICTS,
        description="sufficient (coverage 0.9 or more), partial, insufficient (0.1 or less, and confidence 0.2 or "
        "less), nothing_asked (small talk alone), or not_known (the model does not know the window's language, or was "
        "not measured).",
    )
    confidence: float = declare(
        least=0,
        most=1,
        nullable=True,
        description="Expected coverage, by the probabilities of the parts; null for verdict not_known.",
    )
    recommendation: str = declare(description="How many parts are served, and what to do to serve more.")
    uncovered_topics: StringList = declare(
        nullable=True,
        description="Topics that no candidate serves, as the language model of rerank judged, each with its messages "
        "from 1; null without such judgements.",
    )
    messages: str = declare(
        description="Markdown: one list item per message with a text: its number in the window, time by the clock of "
        "the conversation, author and text on one line. People have the names for readers, as in cited_text."
    )
    said_count: int = declare(least=0, description="Messages with a text.")
    local_started_at: LocalDatetime = declare(
        description="Time of the first message by the clock of the conversation."
    )
    local_ended_at: LocalDatetime = declare(description="Time of the last message by that clock.")
    embedder_id: str = declare(description="Embedding space that was searched.")
    engine: str = declare(description="Engine that searched.")
    index_version: str = declare(description="Snapshot that was searched.")
    settings_hash: str = declare(description="Hash of the settings that decided the window's context.")
    error: str = declare(nullable=True, description="What failed, for status degraded.")

    unique = ("window_id",)


class Posts(Table):
    """One row is one window and the post that a writer made of it, or the reason why there is none.

    ``status`` is ``written`` if the file holds the post, ``edited`` if a person has edited the file, in which case this
    draft lies next to it, ``in_letter`` if the row of a later window has the letter that tells of this window, too,
    ``no_messages`` or ``no_context`` if the window has nothing to write about, ``rejected`` if the draft failed a check
    or the model withheld it, ``failed`` if the call of the writer failed, and ``waiting`` if a budget or quota was used
    up. The next run asks again for the windows that failed or wait. For a rejected window, the writer is called again
    when its inputs change.
    """

    window_id: str = declare(description="Window.")
    slug: str = declare(
        description="Slug of the post, the same in every run for the window, or for the period of a letter."
    )
    path: str = declare(description="File of the post, relative to the workspace.")
    title: str = declare(description="Title; empty without a post.")
    published_at: UtcDatetime = declare(description="End of the window, or of the last one of a letter, UTC.")
    tags: StringList = declare(description="Tags.")
    text: str = declare(
        description="Markdown without front matter; of a rejected draft the draft, unless it holds a real name; else "
        "empty."
    )
    status: str = declare(
        allowed=POST_STATUSES,
        description="written, edited, in_letter, no_messages, no_context, rejected, failed or waiting.",
    )
    reason: str = declare(
        nullable=True, description="Why there is no post, and what to do; null for written."
    )
    writer: str = declare(description="Writer and its version.")
    model: str = declare(nullable=True, description="Model that wrote; null for a writer without a model.")
    prompt_hash: str = declare(description="Hash of the prompt, or of the code of a writer without one.")
    context_hash: str = declare(
        description="Hash of what the writer was shown of the window and its context."
    )
    tokens_in: int = declare(least=0, description="Tokens that the model read; 0 without a model.")
    tokens_out: int = declare(least=0, description="Tokens that the model wrote; 0 without a model.")
    cost: float = declare(nullable=True, description="Estimated cost; null if no price is known.")
    cited_documents: StringList = declare(description="Documents that the post cites, in order of citation.")
    removed_citations: int = declare(
        least=0,
        description="Links and citations that were removed, since the writer was not shown their document.",
    )

    unique = ("window_id",)


TABLES: dict[str, type[Table]] = {
    "messages": Messages,
    "quarantine": Quarantine,
    "sources": Sources,
    "windows": Windows,
    "window_chunks": WindowChunks,
    "documents": Documents,
    "document_chunks": DocumentChunks,
    "hits": Hits,
    "decisions": Decisions,
    "contexts": Contexts,
    "window_contexts": WindowContexts,
    "posts": Posts,
}
"""The tables that follow from the inputs of a workspace."""


RUN_STATUSES = ("running", "succeeded", "failed", "stopped", "waiting", "lost")


class Runs(Table):
    """One row is one run of the library or of Dagster; a run that found nothing changed has none.

    ``status`` is ``running``, ``succeeded``, ``failed``, ``stopped`` (a budget, a limit or a person ended it in order),
    ``waiting`` (another run has to end first) or ``lost`` (its process was killed; the next run writes that). Costs are
    estimates: tokens times the prices of ``costs``. The files are partitioned by the month of ``started_at``. A running
    run is written every half a minute; ``backstory status --runs`` shows it as it is now.
    """

    run_id: str = declare(description="Id of the run.")
    by: str = declare(
        description="What ran: backstory run, dagster, library (documents only), or run_pipeline (a script)."
    )
    dagster_run_id: str = declare(nullable=True, description="Id in Dagster; null for other runs.")
    started_at: UtcDatetime = declare(description="Start.")
    ended_at: UtcDatetime = declare(nullable=True, description="End; for a lost run its last progress.")
    heartbeat_at: UtcDatetime = declare(description="Last progress.")
    status: str = declare(allowed=RUN_STATUSES, description="How it stands or ended, see above.")
    seconds: float = declare(
        least=0, description="Wall-clock time from the start to the end or last progress."
    )
    first_partition: str = declare(nullable=True, description="First wanted partition; null for none.")
    last_partition: str = declare(nullable=True, description="Last wanted partition; null for none.")
    partitions: int = declare(least=0, description="Number of wanted partitions.")
    stage: str = declare(nullable=True, description="Table that it makes, or made last.")
    partition: str = declare(nullable=True, description="Partition that it makes, or made last.")
    done: int = declare(least=0, description="Finished partitions of those that the stage makes again.")
    total: int = declare(least=0, description="Partitions that the stage makes again.")
    failures: int = declare(least=0, description="Number of failures.")
    failure: str = declare(
        nullable=True, description="Why it failed, stopped or waits, without names of people and files."
    )
    embedding_model: str = declare(nullable=True, description="Model that embedded; null if none was needed.")
    embedding_calls: int = declare(least=0, description="Calls of the embedding service, retries included.")
    embedding_texts: int = declare(least=0, description="Texts that were embedded.")
    embedding_tokens: int = declare(least=0, description="Tokens of these texts.")
    embedding_cached: int = declare(least=0, description="Texts whose vectors were in the cache.")
    embedding_cost: float = declare(least=0, nullable=True, description="Its cost; null without a price.")
    rerank_model: str = declare(nullable=True, description="Paid model that reranked; null if none did.")
    rerank_calls: int = declare(least=0, description="Calls of the reranking service, retries included.")
    rerank_windows: int = declare(least=0, description="Windows that were reranked.")
    rerank_tokens_in: int = declare(least=0, description="Tokens that were sent.")
    rerank_tokens_out: int = declare(least=0, description="Tokens that the model wrote, thoughts included.")
    rerank_cost: float = declare(least=0, nullable=True, description="Its cost; null without a price.")
    writing_model: str = declare(nullable=True, description="Paid model that wrote posts; null if none did.")
    writing_calls: int = declare(least=0, description="Calls of the writing service, retries included.")
    writing_tokens_in: int = declare(least=0, description="Tokens that were sent.")
    writing_tokens_out: int = declare(least=0, description="Tokens that the model wrote, thoughts included.")
    writing_cost: float = declare(least=0, nullable=True, description="Its cost; null without a price.")
    cost: float = declare(
        least=0, nullable=True, description="Cost of all calls; null if a price is not known."
    )
    currency: str = declare(description="Currency of the costs.")
    budget_left: str = declare(
        nullable=True, description="What was left of the budgets at the end; null without a budget."
    )

    unique = ("run_id",)


HISTORY_TABLES: dict[str, type[Table]] = {"runs": Runs}
"""The tables that tell what happened. They do not follow from the inputs, and the catalog does not record them."""


SERVED_TABLES = {**TABLES, **HISTORY_TABLES}
"""All tables that are read as Parquet, as views and through Ibis."""
