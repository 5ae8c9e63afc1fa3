"""Windows and their contexts -> rows of table ``posts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from backstory.errors import ModelError
from backstory.settings import WriterSettings
from backstory.tables import schemas
from backstory.tables.contracts import conform, polars_schema
from backstory.writing.citations import link_citations
from backstory.writing.draft import Draft, Writer
from backstory.writing.draft_checks import LEAK, find_fault
from backstory.writing.material import ContextMaterial, WindowMaterial, hash_material
from backstory.writing.post_files import Post, make_slug

PUBLISHED: Final = ("written", "edited")
"""Statuses of rows with a post."""

RETRIED: Final = ("failed", "waiting")
"""Statuses of rows for which the next run asks the writer again."""


def tabulate(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make table ``posts`` of rows."""
    return conform(pl.DataFrame(rows, schema=polars_schema(schemas.Posts)), schemas.Posts)


def make_wait(
    window: WindowMaterial, context: ContextMaterial, writer: Writer, settings: WriterSettings, reason: str
) -> dict[str, Any]:
    """Make the row of a window that the writer is not asked about yet."""
    return _start_row(window, context, writer, settings) | {"status": "waiting", "reason": reason}


def as_post(row: dict[str, Any]) -> Post:
    """Return the post of a row of table ``posts``."""
    return Post(
        **{
            name: row[name]
            for name in ("window_id", "slug", "title", "published_at", "tags", "text", "writer")
        }
    )


def write_post(
    window: WindowMaterial,
    context: ContextMaterial,
    writer: Writer,
    settings: WriterSettings,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    """Ask the writer for a post of a window, and check the draft.

    Args:
        window: The window.
        context: Its context.
        writer: The writer.
        settings: Folder of the posts, limits, and whether windows without context get a post.
        names: Real names of all authors, which no post may hold; None if no author is hidden.

    Returns:
        The row of table ``posts``, with status ``written`` if there is a post.
    """
    row = _start_row(window, context, writer, settings)
    if not window.messages:
        return row | {"status": "no_messages", "reason": "no message of the window has a text"}
    if not context.citations and settings.without_context == "skip":
        reason = f"the context is {context.status}, and writers.without_context is skip"
        return row | {"status": "no_context", "reason": reason}
    try:
        draft = writer.write(window, context)
    except ModelError as error:
        return row | {"status": "failed", "reason": str(error)}
    return row | _judge(draft, context, settings, names)


def _start_row(
    window: WindowMaterial, context: ContextMaterial, writer: Writer, settings: WriterSettings
) -> dict[str, Any]:
    slug = make_slug(window.conversation_id, window.window_id, window.started_at)
    return {
        "window_id": window.window_id,
        "slug": slug,
        "path": f"{settings.folder}/{slug}.md",
        "title": "",
        "published_at": window.ended_at,
        "tags": [],
        "text": "",
        "reason": None,
        "writer": writer.id,
        "model": None,
        "prompt_hash": writer.prompt_hash,
        "context_hash": hash_material(window, context),
        "tokens_in": 0,
        "tokens_out": 0,
        "cost": None,
        "cited_documents": [],
        "removed_citations": 0,
    }


def _judge(
    draft: Draft, context: ContextMaterial, settings: WriterSettings, names: Sequence[str] | None
) -> dict[str, Any]:
    linked = link_citations(draft.text, context, folder=settings.folder)
    fault = find_fault(draft, settings, names)
    written = {
        "title": " ".join(draft.title.split()),
        "tags": list(dict.fromkeys(draft.tags)),
        "text": linked.text,
    }
    return {
        **({} if fault == LEAK else written),
        "status": "written" if fault is None else "rejected",
        "reason": fault,
        "model": draft.model,
        "tokens_in": draft.tokens_in,
        "tokens_out": draft.tokens_out,
        "cited_documents": list(linked.cited),
        "removed_citations": linked.removed,
    }
