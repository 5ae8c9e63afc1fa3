"""The views over the tables, each defined once: an expression of Ibis for every backend that holds the tables.

DuckDB has them as ``writer_inputs.sql`` and ``document_catalog.sql``, which ``python docs/generate.py`` compiles, so
that a run needs no Ibis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from backstory.storage.tables.contracts import polars_schema
from backstory.storage.tables.schemas import TABLES

if TYPE_CHECKING:
    import ibis

GetTable = Callable[[str], "ibis.Table"]
"""Gives a table by its name, such as the method ``table`` of a connection."""

WRITER_INPUTS: Final = "writer_inputs"

INPUT_COLUMNS: Final = MappingProxyType(
    {
        "window_id": "Window.",
        "conversation_id": "Conversation.",
        "partition": "Partition.",
        "started_at": "Time of the first message, UTC.",
        "ended_at": "Time of the last message, UTC.",
        "timezone": "Time zone of the conversation, whose clock `messages` shows.",
        "local_started_at": "Time of the first message by that clock.",
        "local_ended_at": "Time of the last message by that clock.",
        "language": "Main language, ISO 639-1; null if it cannot be detected.",
        "messages": "Markdown: one list item per message with a text: its number in the window, time by the "
        "clock of the conversation, author and text on one line. People have the names for readers, as in `context`.",
        "message_count": "Number of messages with a text.",
        "message_tokens": "Tokens of the window's messages, by the embedder's tokenizer.",
        "context": "Markdown: each document with its citation number, file, date, tags, why it is here, and its "
        "passage as a quotation; empty without documents.",
        "context_tokens": "Estimated tokens of the context.",
        "max_tokens": "Budget of the context.",
        "citations": "List by rank: number, document_id, revision, title, uri, page_start, page_end, published_at, "
        "tags, passage, passage_start, passage_end and serves of each passage.",
        "use": "write; or why there is nothing to write from: no_messages, not_made, no_hits, disabled or degraded.",
        "reason": "What that means; null for write.",
        "status": "Status of the window's context.",
        "error": "Why the status is degraded; null otherwise.",
        "verdict": "Whether the context covers the window: sufficient, partial, insufficient, nothing_asked or "
        "not_known.",
        "uncovered_topics": "Topics that no document serves, as the language model of rerank judged; null without one.",
        "embedder_id": "Embedding space that was searched.",
        "index_version": "Snapshot that was searched.",
        "settings_hash": "Hash of the settings that the context depends on.",
    }
)
"""The columns in order, with what each holds."""

DOCUMENT_CATALOG: Final = "document_catalog"

CATALOG_COLUMNS: Final = MappingProxyType(
    {
        "document_id": "Document.",
        "uri": "Path relative to the folder of documents.",
        "title": "Title.",
        "kind": "Kind, such as post.",
        "format": "Reader of its format, such as markdown.",
        "pages": "Number of pages, slides or sheets; null without.",
        "chunks": "Number of stored chunks of this revision; 0 if it is not searched.",
        "size": "Bytes of the file; null if it could not be opened.",
        "revision": "Id of this content of the document.",
        "published_at": "Date that the document states, UTC; null if it states none.",
        "date_origin": "Where that date is from: stated, name, changed, created or copied; null without a date.",
        "status": "ok, error or deleted.",
        "error": "Why the file could not be read, for status error; null otherwise.",
        "unread": "What of the file was not read, and what to do; null if all was read.",
    }
)
"""The columns in order, with what each holds."""


def define_writer_inputs(table: GetTable, *, citations: bool = True) -> ibis.Table:
    """Define the view ``writer_inputs``: one row per window with all that a writer job reads, by time.

    Args:
        table: Gives the tables ``windows``, ``window_contexts`` and ``contexts`` of one backend.
        citations: Whether the column ``citations`` is one of the view. Of Postgres and Spark, :func:`define_citations`
            gives the same as rows: Ibis compiles a list of structs to one of records without names for Postgres, which
            leaves out those with a null, and to none in an order for Spark.

    Returns:
        An expression with the columns :data:`INPUT_COLUMNS`.
    """
    import ibis

    windows, made = table("windows"), table("window_contexts")
    is_absent, is_silent, is_served = made.window_id.isnull(), made.said_count == 0, made.kept_count > 0
    given = {
        "started_at": _in_utc(windows.started_at),
        "ended_at": _in_utc(windows.ended_at),
        "messages": made.messages.fill_null(""),
        "message_count": made.said_count.fill_null(0),
        "message_tokens": windows.token_count,
        "context": made.cited_text.fill_null(""),
        "context_tokens": made.cited_token_count.fill_null(0),
        "use": ibis.cases(
            (is_absent, "not_made"), (is_silent, "no_messages"), (is_served, "write"), else_=made.status
        ),
        "reason": ibis.cases(
            (is_absent, "the context is not made yet; run backstory run"),
            (is_silent, "no message of the window has a text"),
            (is_served, ibis.null("string")),
            (made.status == "no_hits", "no document serves the window"),
            (made.status == "disabled", "rag.enabled is false"),
            else_=made.error,
        ),
    }
    joined = windows.left_join(made, "window_id")
    if citations:
        cited = _list_citations(table("contexts"))
        given["citations"] = cited.citations.fill_null(ibis.literal([], type=cited.citations.type()))
        joined = joined.left_join(cited, windows.window_id == cited.window_id)
    names = [name for name in INPUT_COLUMNS if citations or name != "citations"]
    stored = {
        name: (windows if name in windows.columns else made)[name] for name in names if name not in given
    }
    return joined.select(**{name: given[name] if name in given else stored[name] for name in names}).order_by(
        "started_at", "window_id"
    )


def define_citations(table: GetTable) -> ibis.Table:
    """Define the passages that writers are shown, for backends that cannot list them: one row each, by window and rank.

    Args:
        table: Gives the table ``contexts`` of one backend.

    Returns:
        An expression with ``window_id`` and the fields of ``citations``.
    """
    passages = table("contexts")
    return passages.order_by("window_id", "rank").select("window_id", **_pick_cited(passages))


def _list_citations(passages: ibis.Table) -> ibis.Table:
    """List the passages of each window by rank."""
    import ibis

    listed = ibis.struct(_pick_cited(passages)).collect(order_by=passages["rank"])
    return passages.group_by("window_id").agg(citations=listed)


def _pick_cited(passages: ibis.Table) -> dict[str, Any]:
    """Pick what a writer's program reads of each passage."""
    return {
        "number": passages.citation,
        **{name: passages[name] for name in ("document_id", "revision", "title", "uri")},
        **{name: passages[name] for name in ("page_start", "page_end")},
        "published_at": _in_utc(passages.published_at),
        **{name: passages[name] for name in ("tags", "passage", "passage_start", "passage_end", "serves")},
    }


def define_document_catalog(table: GetTable) -> ibis.Table:
    """Define the view ``document_catalog``: one row per document, by path.

    Args:
        table: Gives the tables ``documents`` and ``document_chunks`` of one backend.

    Returns:
        An expression with the columns :data:`CATALOG_COLUMNS`.
    """
    documents, stored = table("documents"), table("document_chunks")
    counted = stored.group_by("document_id", "revision").agg(chunks=stored.count())
    current = documents.filter(documents.status != "superseded")
    made = {
        "pages": current.page_starts.length().nullif(0),
        "chunks": counted.chunks.fill_null(0),
        "published_at": _in_utc(current.published_at),
    }
    columns = {name: made[name] if name in made else current[name] for name in CATALOG_COLUMNS}
    return current.left_join(counted, ["document_id", "revision"]).select(**columns).order_by("uri", "status")


def _in_utc(time: Any) -> Any:
    """Return a time with a zone as a plain time in UTC, which is the zone of every session that Ibis opens."""
    return time.cast("timestamp(6)")


VIEWS: Final[Mapping[str, Callable[[GetTable], ibis.Table]]] = MappingProxyType(
    {WRITER_INPUTS: define_writer_inputs, DOCUMENT_CATALOG: define_document_catalog}
)
"""What defines each view, by its name."""


def describe_table(name: str) -> ibis.Table:
    """Describe a table by its contract, as an expression without rows that any backend can compile.

    Args:
        name: A name of :data:`backstory.storage.tables.schemas.TABLES`.
    """
    import ibis
    from ibis.formats.polars import PolarsSchema

    return ibis.table(PolarsSchema.to_ibis(polars_schema(TABLES[name])), name=name)


def compile_view(name: str) -> str:
    """Compile a view for DuckDB, over tables or views named as the tables are.

    A reader's session of DuckDB may be in any zone, and DuckDB's Python client needs a further package to return a time
    with one. So the casts of times become functions that know no zone.

    Args:
        name: A name of :data:`VIEWS`.

    Returns:
        One ``SELECT`` statement.
    """
    import ibis
    import sqlglot

    def leave_zones(part: sqlglot.exp.Expr) -> sqlglot.exp.Expr:
        if not (isinstance(part, sqlglot.exp.Cast) and part.to.this in sqlglot.exp.DataType.TEMPORAL_TYPES):
            return part
        return sqlglot.exp.func("make_timestamp", sqlglot.exp.func("epoch_us", part.this))

    query = sqlglot.parse_one(ibis.to_sql(VIEWS[name](describe_table), dialect="duckdb"), dialect="duckdb")
    return f"{query.transform(leave_zones).sql(dialect='duckdb', pretty=True)}\n"
