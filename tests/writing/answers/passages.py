"""Passages of documents, for tests of answers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from backstory.retrieval.found import DocumentEntry, Hit


def make_passage(text: str, short_id: str = "p1", **fields: Any) -> Hit:
    """Make a passage that stands in its document from character 100 on."""
    uri = f"posts/{short_id}.md"
    given: dict[str, Any] = {
        "rank": int(short_id[1:]),
        "score": 0.8,
        "cosine": 0.8,
        "keywords": None,
        "above_threshold": True,
        "key": "",
        "revision": "",
        "slug": short_id,
        "kind": "post",
        "tenant": "",
        "tags": (),
        "date": None,
        "chunk_id": f"chunk-{short_id}",
        "document_id": f"document-{short_id}",
        "uri": uri,
        "title": f"Notes {short_id}",
        "heading": "",
        "page_start": None,
        "page_end": None,
        "line_start": 3,
        "line_end": 9,
        "char_start": 100,
        "char_end": 100 + len(text),
        "probability": 0.8,
        "cite": f"{uri}#L3-9",
    } | fields
    return Hit(text=text, **given)


def make_entry(
    document_id: str,
    uri: str,
    title: str,
    kind: str,
    tags: tuple[str, ...],
    day: date | None,
    pages: int | None = None,
) -> DocumentEntry:
    """Make a document of the catalog, of which only what describes it is known."""
    moment = None if day is None else datetime.combine(day, time(9), UTC)
    named: dict[str, Any] = {
        "document_id": document_id,
        "uri": uri,
        "title": title,
        "kind": kind,
        "tags": tags,
    }
    return DocumentEntry.model_construct(**named, date=moment, pages=pages)
