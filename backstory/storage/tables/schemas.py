"""Contracts of the tables, in the order in which data flows.

:mod:`backstory.storage.tables.contracts` applies them to Polars frames. Timestamps are UTC with microseconds, but for
``local_time``.
"""

from __future__ import annotations

from functools import partial
from typing import get_args

import polars as pl

from backstory.settings.inputs import ChunkerName
from backstory.storage.tables.contracts import Column, Table

Text = partial(Column, pl.String())
Texts = partial(Column, pl.List(pl.String()))
Flag = partial(Column, pl.Boolean())
Whole = partial(Column, pl.Int64())
Count = partial(Column, pl.Int64(), least=0)
Number = partial(Column, pl.Float64())
Share = partial(Column, pl.Float64(), least=0, most=1)
Moment = partial(Column, pl.Datetime("us", "UTC"))
Clock = partial(Column, pl.Datetime("us"))

DATE_ORIGINS = ("stated", "name", "changed")
DOCUMENT_STATUSES = ("ok", "error", "superseded", "deleted")
CHUNKERS = get_args(ChunkerName)


class Documents(Table, unique=("document_id", "revision")):
    """One row is one revision of a document.

    ``status`` is ``ok`` for the revision that is searched, ``error`` for a revision that could not be read,
    ``superseded`` for an earlier revision, and ``deleted`` for the tombstone of a document whose file is gone or has
    become a draft. ``date_origin`` is ``stated`` (by the text or as a publication), ``name`` (of the file or folder),
    or ``changed`` (by then, all of it was written).
    """

    document_id = Text("Id of the document, stable across edits: a hash of its uri.")
    revision = Text("Id of this content of the document.")
    uri = Text("Path in the folder of documents; of a further source, its name, `://` and the path below it.")
    title = Text("Title: front matter, else first heading, else slug.")
    slug = Text("Slug: front matter, else file name.")
    published_at = Moment("Date that the document states, UTC; null if it states none.", nullable=True)
    date_origin = Text(
        "Where that date is from, see above; null without.", nullable=True, allowed=DATE_ORIGINS
    )
    tags = Texts("Tags.")
    kind = Text("Kind, such as post.")
    tenant = Text("Owner of the document.")
    conversation_id = Text("Conversation of a post by Backstory, or empty; null for others.", nullable=True)
    format = Text("Reader of its format, such as markdown.")
    size = Count("Bytes of the file; null if it could not be opened.", nullable=True)
    encoding = Text("Encoding of the file; null if binary or not read.", nullable=True)
    page_starts = Column(pl.List(pl.Int64()), "Character of the text where each page, slide or sheet begins.")
    confidences = Column(pl.List(pl.Float64()), "Confidence of each page read in images, 0 to 1, or null.")
    chunker = Text("How its reader has it cut; null if it was not read.", nullable=True, allowed=CHUNKERS)
    language = Text("Main language, ISO 639-1; null if not read, or if it cannot be detected.", nullable=True)
    text = Text("Body without front matter, newlines as \\n; empty for all revisions of a deleted document.")
    content_hash = Text("Hash of the file.")
    status = Text("ok, error, superseded or deleted.", allowed=DOCUMENT_STATUSES)
    error = Text("Why the file could not be read, for status error.", nullable=True)
    unread = Text("What of the file was not read, and what to do; null if all was read.", nullable=True)


class DocumentChunks(Table, unique=("chunk_id",)):
    """One row is one stored chunk: characters ``char_start`` to ``char_end`` of its document's text."""

    chunk_id = Text("{document_id}#rev:{revision}#p:{page}#m:{method}#c:{index}.")
    document_id = Text("Document.")
    revision = Text("Revision that was cut.")
    chunk_index = Count("Position in the document, from 0.")
    page_start = Whole("First page, from 1; null without pages.", nullable=True)
    page_end = Whole("Last page, inclusive; null without pages.", nullable=True)
    line_start = Whole("First line in the document's text, from 1, counted through all pages.", least=1)
    line_end = Whole("Last line in the document's text, inclusive.", least=1)
    char_start = Count("First character in the document's text.")
    char_end = Count("Character after the last one.")
    heading = Text('Headings above it, outermost first, joined by " > "; definition of code; header of rows.')
    confidence = Share("Least confidence of its pages recognised in images; null without any.", nullable=True)
    text = Text("Characters char_start to char_end of the document's text.")
    token_count = Count("Tokens by the embedder's tokenizer.")


MESSAGE_KINDS = ("message", "system", "media")
CAUSES = (
    "kept", "below_threshold", "duplicate_document", "near_duplicate", "below_rating", "not_selected", "over_budget",
)  # fmt: skip
SOURCE_STATUSES = ("read", "empty", "needs_ocr", "unsupported", "set_aside", "failed", "ignored")
VERDICTS = ("sufficient", "partial", "insufficient", "nothing_asked", "not_known")
CONTEXT_STATUSES = ("ok", "no_hits", "disabled", "degraded")
POST_STATUSES = (
    "written", "edited", "no_messages", "no_context", "rejected", "failed", "waiting", "in_letter",
)  # fmt: skip


class Messages(Table, unique=("message_id",)):
    """One row is one message of a conversation."""

    message_id = Text("Id, the same in every run and across overlapping exports.")
    conversation_id = Text("Conversation: name and id of the chat, else subfolder or name of the export.")
    timestamp = Moment("Time of sending, UTC.")
    local_time = Clock("Time of sending by the conversation's clock, which partitions and windows follow.")
    timezone = Text("Time zone of that clock.")
    seq = Whole("Position among the messages of its source with the same timestamp.")
    author = Text("Pseudonym of the author; null for system lines.", nullable=True)
    text = Text("Text, mentions as pseudonyms; null for media without a caption.", nullable=True)
    kind = Text("message, system or media.", allowed=MESSAGE_KINDS)
    source = Text("Export that holds it, relative to the folder of exports.")
    reply_to = Text("Message of this table that it answers or that began its thread; or null.", nullable=True)
    reactions = Column(
        pl.List(pl.Struct({"emoji": pl.String(), "count": pl.Int64()})),
        "Emoji (`:name:` for a custom one) and how many people chose it; empty without reactions.",
    )
    edited = Flag("Whether the text was changed after sending, as far as the export says.")


class Quarantine(Table):
    """One row is a line or record of an export that could not be read."""

    source = Text("Export, relative to the folder of exports.")
    line = Whole("Line or record, from 1; 0 for the file as a whole.")
    reason = Text("Why it could not be read.")


class Sources(Table, unique=("source",)):
    """One row is one file in the folders of exports and documents, whether it was read or not.

    ``status`` is ``read`` if the file gave rows, ``empty`` if it holds nothing to read, ``needs_ocr`` if its text is in
    images and cannot be recognised here, ``unsupported`` if no reader knows its format, ``set_aside`` if it waits for a
    person's answer, ``failed`` if it could not be read, and ``ignored`` if a rule excludes it.
    """

    source = Text("Path relative to the workspace; names of people as pseudonyms.")
    folder = Text("conversations or documents.", allowed=("conversations", "documents"))
    status = Text("What became of the file, see above.", allowed=SOURCE_STATUSES)
    format = Text("Reader that knows the file; null if none does.", nullable=True)
    reason = Text("Why it was not read completely or was merged, and what to do; or null.", nullable=True)
    rows = Count("Messages of an export; 1 for a document that was read.")
    unread = Count("Lines or records of the file that could not be read.")
    first = Moment("Time of the first message, or date of the document.", nullable=True)
    last = Moment("Time of the last message, or date of the document.", nullable=True)
    encoding = Text("Encoding of the text; null if binary.", nullable=True)
    date_order = Text("Order of day, month and year in its dates.", nullable=True)
    timezone = Text("Time zone assumed for its timestamps; null if it states one.", nullable=True)
    language = Text("Main language, ISO 639-1; null if it cannot be detected.", nullable=True)


class Windows(Table, unique=("window_id",)):
    """One row is one window of a conversation."""

    window_id = Text("Id, the same for the same messages and settings.")
    conversation_id = Text("Conversation.")
    partition = Text("Partition that the window belongs to.")
    started_at = Moment("Time of the first message, UTC.")
    ended_at = Moment("Time of the last message, UTC.")
    timezone = Text("Time zone of the conversation.")
    message_count = Whole("Number of messages, overlap included.", least=1)
    token_count = Count("Sum of the messages' tokens, by the embedder's tokenizer.")
    message_ids = Texts("Messages in order, overlap first.")


class WindowChunks(Table, unique=("chunk_id",)):
    """One row is one query chunk: a run of messages of a window at one granularity.

    ``first_message`` and ``last_message`` are positions in the window's ``message_ids``, from 0, inclusive.
    """

    chunk_id = Text("Id of the query chunk.")
    window_id = Text("Window that it is part of.")
    granularity = Text("How it was cut: messages:N, packed, or message in windows of short messages.")
    chunk_index = Count("Position among the window's chunks of this granularity, from 0.")
    text = Text("Embedded text: the texts of its messages, joined by blank lines.")
    token_count = Count("Tokens by the embedder's tokenizer.")
    first_message = Count("Position of its first message in message_ids.")
    last_message = Count("Position of its last message in message_ids, inclusive.")


class Hits(Table, unique=("query_chunk_id", "chunk_id")):
    """One row is a stored chunk that one query chunk found."""

    window_id = Text("Window of the query chunk.")
    query_chunk_id = Text("Query chunk that found the stored chunk.")
    chunk_id = Text("Stored chunk that was found.")
    document_id = Text("Document of the stored chunk.")
    similarity = Number("Cosine similarity, exact.")
    keyword_score = Number("BM25 score; null if keywords did not find it.", nullable=True)
    score = Number("Score that the ranking orders by.")
    rank = Whole("Rank among the hits of the query chunk, from 1.", least=1)
    engine = Text("Engine that searched: exact, vss or bm25.")
    index_version = Text("Snapshot that was searched.")


class Decisions(Table, unique=("query_chunk_id", "chunk_id")):
    """One row is one hit, judged: kept, or dropped with its cause.

    ``rank`` is the rank of a kept chunk in its window's context, from 1. ``because_of`` is the better chunk for which
    a duplicate was dropped.
    """

    window_id = Text("Window.")
    query_chunk_id = Text("Query chunk that found the stored chunk.")
    chunk_id = Text("Stored chunk that was found.")
    document_id = Text("Document of the stored chunk.")
    similarity = Number("Cosine similarity.")
    score = Number("Score that the ranking orders by.")
    probability = Share("Probability that the chunk tells something about the query chunk.")
    kept = Flag("Whether the chunk is in the context.")
    rank = Whole("Rank in the context, from 1; null if dropped.", nullable=True)
    cause = Text("kept, or why it was dropped.", allowed=CAUSES)
    because_of = Text("Better chunk for which a duplicate was dropped; null otherwise.", nullable=True)
    rerank_note = Text("Why the old order of this window's chunks was kept; null otherwise.", nullable=True)
    uncovered_topics = Texts("Topics that no candidate serves; null if no model judged.", nullable=True)


class Contexts(Table, unique=("window_id", "rank")):
    """One row is one chunk in a window's context, traceable to its document's revision and characters."""

    window_id = Text("Window.")
    rank = Whole("Rank in the context, from 1.", least=1)
    document_id = Text("Document.")
    revision = Text("Revision of the document.")
    chunk_id = Text("Stored chunk.")
    title = Text("Title of the document.")
    slug = Text("Slug of the document.")
    uri = Text("Uri of the document, as in `documents`.")
    also_in = Texts(
        "Uris of the documents that gave way to it, since they hold the same text, or nearly the same."
    )
    published_at = Moment("Date of publication, UTC.", nullable=True)
    tags = Texts("Tags of the document.")
    page_start = Whole("First page; null without pages.", nullable=True)
    page_end = Whole("Last page, inclusive; null without pages.", nullable=True)
    char_start = Count("First character in the document's text.")
    char_end = Count("Character after the last one.")
    content = Text("Whole text of the chunk, with members called as readers see them.")
    passage = Text("Sentences of the chunk or its neighbours that serve this window; … marks omissions.")
    passage_start = Count("First character of the passage in the document's text.")
    passage_end = Count("Character after the last one of the passage in the document's text.")
    citation = Whole("Number of the document in this window, for [1] and so on.", least=1)
    serves = Text("Why it is here: messages of the window, from 1, and words of one; `perhaps` if unsure.")
    similarity = Number("Best cosine similarity over the query chunks that found it.")
    score = Number("Best score over the query chunks that found it.")
    matched_query_chunks = Texts("Query chunks that its document serves, best first, or that found it.")


class WindowContexts(Table, unique=("window_id",)):
    """One row is one window: its messages and its context as prompt text, and the counts of every stage."""

    window_id = Text("Window.")
    status = Text(
        "ok, no_hits, disabled, or degraded: the model does not know the language, not reranked as set, or no document "
        "fits the budget.",
        allowed=CONTEXT_STATUSES,
    )
    language = Text("Main language of the window, ISO 639-1; null if it cannot be detected.", nullable=True)
    text = Text("Prompt text; empty without documents.")
    token_count = Count("Estimated tokens of the text.")
    cited_text = Text("Prompt text with quoted passages and numbers to cite; empty without documents.")
    cited_token_count = Count("Estimated tokens of cited_text.")
    max_tokens = Whole("Budget of each of the two texts, context.max_tokens.", least=1)
    query_chunk_count = Count("Query chunks of the window.")
    hit_count = Count("Hits of all query chunks.")
    above_threshold_count = Count("Hits that are evidence.")
    after_dedup_count = Count("Hits that are evidence and whose chunk remained after deduplication.")
    kept_count = Count("Chunks in the context.")
    part_count = Count("Parts that ask for something; small talk is none.")
    served_count = Count("Parts that a document of the context serves.")
    beyond_limit_count = Count("Parts that only documents beyond top_k, max_tokens or min_similarity serve.")
    unsure_count = Count("Parts that no document serves, but one may: the best probability is 0.2 or more.")
    uncovered_count = Count("Parts that nothing in the index serves.")
    coverage = Share("Share of the parts that a document of the context serves, by their number of messages.")
    verdict = Text(
        "sufficient (coverage 0.9 or more), partial, insufficient (0.1 or less, and confidence 0.2 or less), "
        "nothing_asked (small talk alone), or not_known (a language or model that was not measured).",
        allowed=VERDICTS,
    )
    confidence = Share("Expected coverage, by the parts' probabilities; null for not_known.", nullable=True)
    recommendation = Text("How many parts are served, and what to do to serve more.")
    uncovered_topics = Texts(
        "Topics that none serves, with messages; null if no model judged.", nullable=True
    )
    messages = Text(
        "Markdown: one list item per message with a text: its number in the window, time by the clock of the "
        "conversation, author and text on one line. People have the names for readers, as in cited_text.",
    )
    said_count = Count("Messages with a text.")
    local_started_at = Clock("Time of the first message by the clock of the conversation.")
    local_ended_at = Clock("Time of the last message by that clock.")
    embedder_id = Text("Embedding space that was searched.")
    engine = Text("Engine that searched.")
    index_version = Text("Snapshot that was searched.")
    settings_hash = Text("Hash of the settings that decided the window's context.")
    error = Text("What failed, for status degraded.", nullable=True)


class Posts(Table, unique=("window_id",)):
    """One row is one window and the post that a writer made of it, or the reason why there is none.

    ``status`` is ``written`` if the file holds the post, ``edited`` if a person has edited the file, in which case this
    draft lies next to it, ``in_letter`` if the row of a later window has the letter that tells of this window, too,
    ``no_messages`` or ``no_context`` if the window has nothing to write about, ``rejected`` if the draft failed a check
    or the model withheld it, ``failed`` if the call of the writer failed, and ``waiting`` if a budget or quota was used
    up. The next run asks again for the windows that failed or wait. For a rejected window, the writer is called again
    when its inputs change.
    """

    window_id = Text("Window.")
    slug = Text("Slug of the post, the same in every run for the window, or for the period of a letter.")
    path = Text("File of the post, relative to the workspace.")
    title = Text("Title; empty without a post.")
    published_at = Moment("End of the window, or of the last one of a letter, UTC.")
    tags = Texts("Tags.")
    text = Text("Markdown; of a rejected draft, too, unless it holds a real name; else empty.")
    status = Text("What became of the window, see above.", allowed=POST_STATUSES)
    reason = Text("Why there is no post, and what to do; null for written.", nullable=True)
    writer = Text("Writer and its version.")
    model = Text("Model that wrote; null for a writer without a model.", nullable=True)
    prompt_hash = Text("Hash of the prompt, or of the code of a writer without one.")
    context_hash = Text("Hash of what the writer was shown of the window and its context.")
    tokens_in = Count("Tokens that the model read; 0 without a model.")
    tokens_out = Count("Tokens that the model wrote; 0 without a model.")
    cost = Number("Estimated cost; null if no price is known.", nullable=True)
    cited_documents = Texts("Documents that the post cites, in order of citation.")
    removed_citations = Count("Links and citations removed, as the writer was not shown their document.")


TABLES: dict[str, type[Table]] = {
    table.name: table
    for table in (
        Messages, Quarantine, Sources, Windows, WindowChunks, Documents, DocumentChunks, Hits, Decisions, Contexts,
        WindowContexts, Posts,
    )
}  # fmt: skip
"""The tables that follow from the inputs of a workspace."""


RUN_STATUSES = ("succeeded", "failed", "stopped", "lost")


class Runs(Table, unique=("run_id",)):
    """One row is one run that has ended; one that found nothing changed has none.

    ``status`` is ``succeeded``, ``failed``, ``stopped`` (a budget, a limit or a person ended it in order) or ``lost``
    (its process was killed; the next run writes that). Costs are estimates: tokens times the prices of ``costs``.
    ``backstory status --runs`` also shows the run under way.
    """

    run_id = Text("Id of the run.")
    by = Text("What ran: backstory run, dagster, library (documents only), or run_pipeline (a script).")
    dagster_run_id = Text("Id in Dagster; null for other runs.", nullable=True)
    started_at = Moment("Start.")
    ended_at = Moment("End; for a lost run its last progress.", nullable=True)
    heartbeat_at = Moment("Last progress.")
    status = Text("How it ended, see above.", allowed=RUN_STATUSES)
    seconds = Number("Wall-clock time from the start to the end or last progress.", least=0)
    first_partition = Text("First wanted partition; null for none.", nullable=True)
    last_partition = Text("Last wanted partition; null for none.", nullable=True)
    partitions = Count("Number of wanted partitions.")
    stage = Text("Table that it makes, or made last.", nullable=True)
    partition = Text("Partition that it makes, or made last.", nullable=True)
    done = Count("Finished partitions of those that the stage makes again.")
    total = Count("Partitions that the stage makes again.")
    failures = Count("Number of failures.")
    failure = Text("Why it failed or stopped, without names of people and files.", nullable=True)
    embedding_model = Text("Model that embedded; null if none was needed.", nullable=True)
    embedding_calls = Count("Calls of the embedding service, retries included.")
    embedding_texts = Count("Texts that were embedded.")
    embedding_tokens = Count("Tokens of these texts.")
    embedding_cached = Count("Texts whose vectors were in the cache.")
    embedding_cost = Number("Its cost; null without a price.", nullable=True, least=0)
    rerank_model = Text("Paid model that reranked; null if none did.", nullable=True)
    rerank_calls = Count("Calls of the reranking service, retries included.")
    rerank_windows = Count("Windows that were reranked.")
    rerank_tokens_in = Count("Tokens that were sent.")
    rerank_tokens_out = Count("Tokens that the model wrote, thoughts included.")
    rerank_cost = Number("Its cost; null without a price.", nullable=True, least=0)
    writing_model = Text("Paid model that wrote posts; null if none did.", nullable=True)
    writing_calls = Count("Calls of the writing service, retries included.")
    writing_tokens_in = Count("Tokens that were sent.")
    writing_tokens_out = Count("Tokens that the model wrote, thoughts included.")
    writing_cost = Number("Its cost; null without a price.", nullable=True, least=0)
    cost = Number("Cost of all calls; null if a price is not known.", nullable=True, least=0)
    currency = Text("Currency of the costs.")
    budget_left = Text("What was left of the budgets at the end; null without a budget.", nullable=True)


SERVED_TABLES: dict[str, type[Table]] = {**TABLES, Runs.name: Runs}
"""All tables that are read as Parquet, as views and through Ibis: those and ``runs``, which tells what happened."""
