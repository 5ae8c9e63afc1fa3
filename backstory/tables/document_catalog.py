"""The view ``document_catalog``: one row per document, as SQL over the tables of documents and chunks."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

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
        "status": "ok, error or deleted.",
        "error": "Why the file could not be read, for status error; null otherwise.",
        "unread": "What of the file was not read, and what to do; null if all was read.",
    }
)
"""The columns in order, with what each holds."""

_SELECT: Final = """\
SELECT
    d.document_id, d.uri, d.title, d.kind, d.format,
    nullif(len(d.page_starts), 0) AS pages,
    coalesce(c.chunks, 0) AS chunks,
    d.size, d.revision, d.published_at, d.status, d.error, d.unread
FROM documents d
LEFT JOIN (
    SELECT document_id, revision, count(*) AS chunks FROM document_chunks GROUP BY document_id, revision
) c USING (document_id, revision)
WHERE d.status <> 'superseded'
ORDER BY d.uri, d.status"""


def select_document_catalog() -> str:
    """Write the query of the view, over tables or views named as the tables are."""
    return _SELECT
