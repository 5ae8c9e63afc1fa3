"""The view ``writer_inputs``: one row per window with all that a writer job reads, as SQL over other tables."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from backstory.base.ids import PSEUDONYM_PREFIX

WRITER_INPUTS: Final = "writer_inputs"

TABLES_READ: Final = ("windows", "messages", "contexts", "window_contexts")
"""The tables that the view reads."""

COLUMNS: Final = MappingProxyType(
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

# Without these, a text that a person does not see could hide structure from the replacements below.
_UNSEEN: Final = (
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\x{034f}\x{061c}\x{115f}\x{1160}\x{180b}-\x{180f}\x{200b}\x{200e}\x{200f}"
    r"\x{202a}-\x{202e}\x{2060}-\x{206f}\x{3164}\x{feff}\x{ffa0}\x{fff9}-\x{fffb}\x{e0000}-\x{e00ff}]"
)
_JOINERS: Final = r"[\x{00ad}\x{200c}\x{200d}\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]*"
_REPLACED: Final = (
    (_UNSEEN, ""),
    (r"[\s\x0b\x1c-\x1f\x{0085}\x{2028}\x{2029}]+", " "),
    ("<", r"<\\"),
    (r"<\\([\s\d=]|$)", r"<\1"),
    (rf"!{_JOINERS}\[", r"!\\["),
    (r"(?i)\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])", r"[\\\1"),
    (r"\]\(", r"]\\("),
    (r"\]\\\((https?://)", r"](\1"),
)
"""Regular expressions and what replaces them, in order: a message becomes one line that holds no tag, image, marker of
a model or link of another scheme. What a list item holds after its first words cannot be other structure."""


def _escape(column: str) -> str:
    """Write the SQL that makes a text harmless as part of a line of Markdown."""
    for pattern, replacement in _REPLACED:
        column = f"regexp_replace({column}, '{pattern}', '{replacement}', 'g')"
    return f"trim({column})"


def write_utc(column: str) -> str:
    """Write the SQL that makes a time with a zone a plain time in UTC.

    A time with a zone is shown in the zone of the reader's session, and DuckDB's Python client needs a further package
    to return it.
    """
    return f"make_timestamp(epoch_us({column}))"


_PSEUDONYM_LENGTH: Final = len(PSEUDONYM_PREFIX) + 10


def _name_people(column: str) -> str:
    """Write the SQL that puts the names of column ``people`` in place of pseudonyms; without any, these stay."""
    person, name = f"one[:{_PSEUDONYM_LENGTH}]", f"one[{_PSEUDONYM_LENGTH + 2}:]"
    named = f"list_reduce(x.people, lambda done, one: replace(done, {person}, {name}), {column})"
    return f"coalesce({named}, {column})"


_AUTHOR: Final = _escape(_name_people("coalesce(m.author, 'someone')"))
_TEXT: Final = _escape(_name_people("m.text"))
_IS_SAID: Final = "m.kind <> 'system' AND trim(m.text) <> ''"
_TIME: Final = "strftime(m.local_time, '%Y-%m-%d %H:%M')"

_SELECT: Final = f"""\
SELECT
    w.window_id, w.conversation_id, w.partition, {write_utc("w.started_at")} AS started_at,
    {write_utc("w.ended_at")} AS ended_at, w.timezone, said.local_started_at, said.local_ended_at,
    x.language, coalesce(said.messages, '') AS messages,
    coalesce(said.message_count, 0) AS message_count,
    w.token_count AS message_tokens,
    coalesce(x.cited_text, '') AS context,
    coalesce(x.cited_token_count, 0) AS context_tokens,
    x.max_tokens,
    coalesce(cited.citations, []) AS citations,
    CASE
        WHEN said.message_count IS NULL THEN 'no_messages'
        WHEN x.window_id IS NULL THEN 'not_made'
        WHEN x.kept_count = 0 THEN x.status
        ELSE 'write'
    END AS "use",
    CASE
        WHEN said.message_count IS NULL THEN 'no message of the window has a text'
        WHEN x.window_id IS NULL THEN 'the context is not made yet; run backstory run'
        WHEN x.kept_count > 0 THEN NULL
        WHEN x.status = 'no_hits' THEN 'no document serves the window'
        WHEN x.status = 'disabled' THEN 'rag.enabled is false'
        ELSE x.error
    END AS reason,
    x.status, x.error, x.verdict, x.uncovered_topics, x.embedder_id, x.index_version, x.settings_hash
FROM windows w
LEFT JOIN window_contexts x USING (window_id)
LEFT JOIN (
    SELECT
        listed.window_id,
        string_agg(
            '- (' || listed.place || ') ' || {_TIME} || ' **' || {_AUTHOR} || '**: ' || {_TEXT},
            chr(10) ORDER BY listed.place
        ) FILTER (WHERE {_IS_SAID}) || chr(10) AS messages,
        nullif(count(*) FILTER (WHERE {_IS_SAID}), 0) AS message_count,
        arg_min(m.local_time, listed.place) AS local_started_at, arg_max(m.local_time, listed.place) AS local_ended_at
    FROM (
        SELECT window_id, unnest(message_ids) AS message_id, generate_subscripts(message_ids, 1) AS place FROM windows
    ) listed
    JOIN messages m USING (message_id)
    LEFT JOIN window_contexts x ON x.window_id = listed.window_id
    GROUP BY listed.window_id
) said USING (window_id)
LEFT JOIN (
    SELECT
        window_id,
        list(
            {{
                'number': citation, 'document_id': document_id, 'revision': revision, 'title': title, 'uri': uri,
                'page_start': page_start, 'page_end': page_end,
                'published_at': {write_utc("published_at")}, 'tags': tags, 'passage': passage,
                'passage_start': passage_start, 'passage_end': passage_end, 'serves': serves
            }}
            ORDER BY rank
        ) AS citations
    FROM contexts
    GROUP BY window_id
) cited USING (window_id)
ORDER BY w.started_at, w.window_id"""  # noqa: S608 - constants of this module only


def select_writer_inputs() -> str:
    """Write the query of the view, over tables or views named as the tables are."""
    return _SELECT


def select_writer_inputs_from(folder: str) -> str:
    """Write the query of the view over Parquet files, wherever DuckDB can read them.

    Args:
        folder: Folder of the tables: a path, or an address such as ``s3://bucket/data`` or ``gs://bucket/data``.

    Returns:
        One ``SELECT`` statement.
    """
    quoted = folder.rstrip("/").replace("'", "''")
    named = [f"{table} AS (FROM read_parquet('{quoted}/{table}/*.parquet'))" for table in TABLES_READ]
    return f"WITH {', '.join(named)}\n{_SELECT}"
