"""Passages of documents, for tests of answers."""

from __future__ import annotations

from typing import Any

from backstory.writing.answers.answer import Passage


def make_passage(text: str, short_id: str = "p1", **fields: Any) -> Passage:
    """Make a passage that stands in its document from character 100 on."""
    uri = f"posts/{short_id}.md"
    given = {
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
    return Passage(id=short_id, text=text, **given)
