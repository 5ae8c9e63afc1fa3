"""From which columns of other assets each column of a table is made, down to the files that people put in.

The search index has no columns of its own: it holds copies of those of ``documents`` and ``document_chunks``, so that
a column that is read from it names these tables.
"""

from collections.abc import Mapping
from typing import Final

CHATS: Final = "chats"
"""Name of the source asset of the chat exports."""

DOCUMENT_FILES: Final = "document_files"
"""Name of the source asset of the documents."""

SOURCE_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    CHATS: {
        "file": "Path of the export, relative to the folder of exports.",
        "time": "Time of a message or line, as the export writes it.",
        "author": "Name or number of the author; no table holds it while `privacy.pseudonyms` is on.",
        "text": "Text of a message or line.",
        "message": "What the platform keeps of a message beside these: id, answered message, reactions, edits.",
    },
    DOCUMENT_FILES: {
        "path": "Path of the file, relative to the folder of documents.",
        "front_matter": "Fields between the lines of `---` or `+++`, such as title, date and tags.",
        "body": "Text without the front matter.",
    },
}
"""What the files of people hold, by source asset."""

_MESSAGE: Final = "chats.file chats.time chats.author chats.text"
_DOCUMENT: Final = "document_files.path document_files.front_matter document_files.body"
_CUT: Final = "documents.text documents.title documents.chunker documents.format"
_SIMILARITY: Final = "window_chunks.text documents.title document_chunks.heading document_chunks.text"
_JUDGED: Final = "hits.score hits.similarity document_chunks.text documents.title"
_MATERIAL: Final = (
    "messages.text messages.author messages.timestamp windows.message_ids contexts.title contexts.passage "
    "contexts.citation contexts.uri contexts.published_at contexts.tags contexts.matched_query_chunks "
    "window_chunks.first_message window_chunks.last_message window_contexts.language window_contexts.status"
)

# The columns of other assets, separated by blanks. A column without any is made of settings or by the run itself.
_WRITTEN: Final[Mapping[str, Mapping[str, str]]] = {
    "messages": {
        "message_id": f"{_MESSAGE} chats.message",
        "conversation_id": "chats.file",
        "timestamp": "chats.time",
        "seq": "chats.file",
        "author": "chats.author",
        "text": "chats.text chats.author",
        "kind": "chats.text",
        "source": "chats.file",
        "reply_to": "chats.file chats.message",
        "reactions": "chats.message",
        "edited": "chats.text chats.message",
    },
    "quarantine": {"source": "chats.file", "line": "chats.file", "reason": "chats.time chats.text"},
    "sources": {
        "source": "chats.file chats.author document_files.path",
        "folder": "chats.file document_files.path",
        "status": f"{_MESSAGE} {_DOCUMENT}",
        "format": f"{_MESSAGE} {_DOCUMENT}",
        "reason": f"{_MESSAGE} {_DOCUMENT}",
        "rows": f"{_MESSAGE} {_DOCUMENT}",
        "unread": _MESSAGE,
        "first": "chats.time document_files.front_matter document_files.path",
        "last": "chats.time document_files.front_matter document_files.path",
        "encoding": f"{_MESSAGE} {_DOCUMENT}",
        "date_order": "chats.time",
        "timezone": "chats.time",
        "language": "chats.text document_files.body",
    },
    "windows": {
        "window_id": "messages.message_id messages.conversation_id",
        "conversation_id": "messages.conversation_id",
        "partition": "messages.timestamp",
        "started_at": "messages.timestamp",
        "ended_at": "messages.timestamp",
        "message_count": "messages.message_id",
        "token_count": "messages.text",
        "message_ids": "messages.message_id messages.timestamp messages.seq",
    },
    "window_chunks": {
        "chunk_id": "windows.window_id",
        "window_id": "windows.window_id",
        "granularity": "",
        "chunk_index": "windows.message_ids messages.text",
        "text": "windows.message_ids messages.text",
        "token_count": "messages.text",
        "first_message": "windows.message_ids messages.text",
        "last_message": "windows.message_ids messages.text",
    },
    "documents": {
        "document_id": "document_files.path",
        "revision": _DOCUMENT,
        "uri": "document_files.path",
        "title": _DOCUMENT,
        "slug": "document_files.front_matter document_files.path",
        "published_at": "document_files.front_matter document_files.path",
        "tags": "document_files.front_matter",
        "kind": "document_files.front_matter",
        "tenant": "document_files.front_matter",
        "format": "document_files.path",
        "size": "document_files.front_matter document_files.body",
        "encoding": "document_files.front_matter document_files.body",
        "page_starts": "document_files.body",
        "confidences": "document_files.body",
        "chunker": "document_files.path document_files.body",
        "text": "document_files.body",
        "content_hash": "document_files.front_matter document_files.body",
        "status": _DOCUMENT,
        "error": _DOCUMENT,
        "unread": "document_files.body",
    },
    "document_chunks": {
        "chunk_id": "documents.document_id documents.revision documents.text documents.page_starts "
        "documents.confidences documents.chunker documents.format",
        "document_id": "documents.document_id",
        "revision": "documents.revision",
        "chunk_index": _CUT,
        "page_start": f"{_CUT} documents.page_starts",
        "page_end": f"{_CUT} documents.page_starts",
        "line_start": _CUT,
        "line_end": _CUT,
        "char_start": _CUT,
        "char_end": _CUT,
        "heading": _CUT,
        "confidence": f"{_CUT} documents.page_starts documents.confidences",
        "text": _CUT,
        "token_count": _CUT,
    },
    "hits": {
        "window_id": "window_chunks.window_id",
        "query_chunk_id": "window_chunks.chunk_id",
        "chunk_id": "document_chunks.chunk_id",
        "document_id": "document_chunks.document_id",
        "similarity": _SIMILARITY,
        "keyword_score": _SIMILARITY,
        "score": _SIMILARITY,
        "rank": f"{_SIMILARITY} windows.started_at documents.published_at",
        "engine": "",
        "index_version": "document_chunks.chunk_id document_chunks.text documents.revision",
    },
    "decisions": {
        "window_id": "hits.window_id",
        "query_chunk_id": "hits.query_chunk_id",
        "chunk_id": "hits.chunk_id",
        "document_id": "hits.document_id",
        "similarity": "hits.similarity",
        "score": "hits.score",
        "kept": _JUDGED,
        "rank": _JUDGED,
        "cause": _JUDGED,
        "because_of": f"hits.chunk_id {_JUDGED}",
        "rerank_note": "window_chunks.text document_chunks.text",
        "uncovered_topics": "window_chunks.text document_chunks.text",
    },
    "contexts": {
        "window_id": "decisions.window_id",
        "rank": "decisions.rank",
        "document_id": "decisions.document_id",
        "revision": "document_chunks.revision",
        "chunk_id": "decisions.chunk_id",
        "title": "documents.title",
        "slug": "documents.slug",
        "uri": "documents.uri",
        "published_at": "documents.published_at",
        "tags": "documents.tags",
        "page_start": "document_chunks.page_start",
        "page_end": "document_chunks.page_end",
        "char_start": "document_chunks.char_start",
        "char_end": "document_chunks.char_end",
        "content": "document_chunks.text",
        "passage": "document_chunks.text window_chunks.text",
        "passage_start": "document_chunks.text document_chunks.char_start window_chunks.text",
        "passage_end": "document_chunks.text document_chunks.char_start window_chunks.text",
        "citation": "decisions.rank decisions.document_id",
        "serves": "decisions.query_chunk_id window_chunks.first_message window_chunks.last_message "
        "window_chunks.text",
        "similarity": "decisions.similarity",
        "score": "decisions.score",
        "matched_query_chunks": "decisions.query_chunk_id decisions.similarity",
    },
    "window_contexts": {
        "window_id": "windows.window_id",
        "status": "hits.chunk_id contexts.chunk_id window_chunks.text decisions.rerank_note",
        "language": "window_chunks.text",
        "text": "contexts.rank contexts.title contexts.published_at contexts.tags contexts.uri contexts.content "
        "contexts.page_start contexts.page_end",
        "token_count": "contexts.title contexts.content",
        "cited_text": "contexts.citation contexts.title contexts.published_at contexts.tags contexts.uri "
        "contexts.passage contexts.serves contexts.page_start contexts.page_end",
        "cited_token_count": "contexts.title contexts.passage",
        "max_tokens": "",
        "query_chunk_count": "window_chunks.chunk_id",
        "hit_count": "hits.chunk_id",
        "above_threshold_count": "decisions.similarity",
        "after_dedup_count": "decisions.cause",
        "kept_count": "decisions.kept",
        "coverage": "decisions.kept decisions.similarity window_chunks.chunk_id",
        "term_coverage": "window_chunks.text contexts.content",
        "score_margin": "decisions.kept decisions.similarity",
        "verdict": "window_chunks.text decisions.kept decisions.similarity contexts.content",
        "confidence": "window_chunks.text decisions.kept decisions.similarity contexts.content",
        "recommendation": "window_chunks.text decisions.kept decisions.similarity decisions.cause contexts.content",
        "uncovered_topics": "decisions.uncovered_topics",
        "embedder_id": "",
        "engine": "hits.engine",
        "index_version": "document_chunks.chunk_id document_chunks.text documents.revision",
        "settings_hash": "",
        "error": "hits.chunk_id contexts.chunk_id window_chunks.text decisions.rerank_note",
    },
    "posts": {
        "window_id": "windows.window_id",
        "slug": "windows.started_at windows.conversation_id windows.window_id",
        "path": "windows.started_at windows.conversation_id windows.window_id",
        "title": _MATERIAL,
        "published_at": "windows.ended_at",
        "tags": _MATERIAL,
        "text": _MATERIAL,
        "status": _MATERIAL,
        "reason": _MATERIAL,
        "writer": "",
        "model": "",
        "prompt_hash": "",
        "context_hash": _MATERIAL,
        "attempts": "",
        "tokens_in": _MATERIAL,
        "tokens_out": _MATERIAL,
        "cost": _MATERIAL,
        "cited_documents": f"contexts.document_id {_MATERIAL}",
        "removed_citations": _MATERIAL,
    },
}

Origins = Mapping[str, tuple[tuple[str, str], ...]]

COLUMN_ORIGINS: Final[Mapping[str, Origins]] = {
    table: {
        column: tuple((asset, name) for asset, _, name in (part.partition(".") for part in written.split()))
        for column, written in columns.items()
    }
    for table, columns in _WRITTEN.items()
}
"""For each table and each of its columns, the assets and columns that it is made from; none if settings or the run
itself decide it."""
