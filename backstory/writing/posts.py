"""Windows and their contexts -> rows of table ``posts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import polars as pl

from backstory.base.errors import BudgetExhaustedError, ModelError, ModelSetupError
from backstory.base.ids import digest
from backstory.base.telemetry import bind
from backstory.settings.writers import WriterSettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform
from backstory.text.people import Discretion, FindLeaks
from backstory.writing.citations import LinkedText, find_links, link_citations
from backstory.writing.draft import Draft, RecordedWriter, Writer
from backstory.writing.draft_cache import DraftCache
from backstory.writing.draft_checks import clean_draft, find_fault, find_leak, find_refusal
from backstory.writing.material import ContextMaterial, WindowMaterial, hash_material
from backstory.writing.post_files import Post, make_slug, name_letter
from backstory.writing.writer_calls import WriterCalls

PUBLISHED: Final = ("written", "edited")
"""Statuses of rows with a post."""

RETRIED: Final = ("failed", "waiting")
"""Statuses of rows for which the next run asks the writer again."""


def tabulate(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make table ``posts`` of rows."""
    return conform(pl.DataFrame(rows, schema=schemas.Posts.schema), schemas.Posts)


def make_wait(
    window: WindowMaterial, context: ContextMaterial, writer: Writer, settings: WriterSettings, reason: str
) -> dict[str, Any]:
    """Make the row of a window that waits for the writer."""
    return _start_row(window, context, writer, settings) | {"status": "waiting", "reason": reason}


def make_told(told: Mapping[str, Any], slug: str, writer: Writer, settings: WriterSettings) -> dict[str, Any]:
    """Make the row of a window of which a letter tells that has the row of another window.

    Args:
        told: The window: ``window_id`` and ``ended_at``.
        slug: Slug of the letter.
        writer: The writer.
        settings: Folder of the posts.
    """
    reason = f"the letter {slug} tells of it"
    row = _make_row(told["window_id"], slug, told["ended_at"], writer, settings)
    return row | {"status": "in_letter", "reason": reason}


def as_post(row: dict[str, Any], conversation_id: str) -> Post:
    """Return the post of a row of table ``posts``, about a window of a conversation."""
    names = ("window_id", "slug", "title", "published_at", "tags", "text", "writer")
    return Post(conversation_id=conversation_id, **{name: row[name] for name in names})


def count_unfinished(rows: pl.DataFrame) -> int:
    """Count the rows of table ``posts`` for which the next run asks the writer again."""
    return rows.filter(pl.col("status").is_in(RETRIED)).height


def write_posts(
    material: Sequence[tuple[WindowMaterial, ContextMaterial]],
    writer: Writer,
    settings: WriterSettings,
    discretion: Discretion,
    drafts: DraftCache,
    calls: WriterCalls,
) -> dict[str, dict[str, Any]]:
    """Ask the writer for posts of windows that do not depend on each other, ``writers.threads`` at once.

    Args:
        material: Windows and their contexts.
        writer: The writer.
        settings: Folder of the posts and limits.
        discretion: What a post may say about people.
        drafts: Drafts of earlier runs.
        calls: Counter of the calls. At its end, the writer is called for no further window.

    Returns:
        The rows of table ``posts`` by window, in the order of the windows.
    """

    def write(window: WindowMaterial, context: ContextMaterial) -> dict[str, Any]:
        return write_post(window, context, writer, settings, discretion, drafts, calls)

    # markdown-it-py fills a table of characters at its first address, which must not happen in several threads at once.
    find_links("[text](address)")
    with ThreadPoolExecutor(settings.threads, thread_name_prefix="writing") as pool:
        answers = [
            (window.window_id, pool.submit(bind(write), window, context)) for window, context in material
        ]
        try:
            return {window_id: answer.result() for window_id, answer in answers}
        finally:
            # After an error no further call is started; the executor waits for the running calls.
            pool.shutdown(wait=False, cancel_futures=True)


def write_post(
    window: WindowMaterial,
    context: ContextMaterial,
    writer: Writer,
    settings: WriterSettings,
    discretion: Discretion,
    drafts: DraftCache,
    calls: WriterCalls,
) -> dict[str, Any]:
    """Take the post of a window from the drafts of earlier runs, or ask the writer, and check the draft.

    The writer is called once for the same inputs, also if a check rejects the draft: drafts are paid for, and another
    draft of the same window is hardly better. So what becomes of a window depends on its inputs, and not on how many
    runs there were.

    Args:
        window: The window.
        context: Its context.
        writer: The writer.
        settings: Folder of the posts, limits, and whether windows without context get a post.
        discretion: What a post may say about people.
        drafts: Drafts of earlier runs.
        calls: What the run asks, and whether it still asks.

    Returns:
        The row of table ``posts``, with status ``written`` if there is a post.

    Raises:
        ModelSetupError: There is no key, or it was refused.
        SettingsError: The prompt cannot be filled in.
    """
    row = _start_row(window, context, writer, settings)
    if not window.messages:
        return row | {"status": "no_messages", "reason": "no message of the window has a text"}
    if not context.citations and settings.without_context == "skip":
        # A context of this status has documents, unless each of them is withheld from the model.
        is_withheld = context.status == "ok"
        why = "no model may be sent its documents" if is_withheld else f"the context is {context.status}"
        reason = f"{why}, and writers.without_context is skip"
        return row | {"status": "no_context", "reason": reason}
    request = writer.hash_request(window, context) if isinstance(writer, RecordedWriter) else None
    if request is not None and discretion.rule == "reject":
        request = digest([request, discretion.rule])  # under another rule, the draft may stay
    draft = None if request is None else drafts.get(request)
    if draft is not None:
        calls.note_found()
        return row | _judge(_scrub(draft, discretion), window, context, settings)
    if calls.end is not None:
        return row | {"status": "waiting", "reason": calls.end}
    try:
        draft = _withhold(_name_people(writer.write(window, context), window), context, discretion.find_leaks)
    except ModelSetupError:
        raise
    except (ModelError, BudgetExhaustedError) as error:
        calls.note_failure(error)
        waits = isinstance(error, BudgetExhaustedError)
        return row | {"status": "waiting" if waits else "failed", "reason": str(error)}
    calls.note_answer()
    if request is not None:
        drafts.put(request, row["context_hash"], draft)
    return row | _judge(_scrub(draft, discretion), window, context, settings)


def _scrub(draft: Draft, discretion: Discretion) -> Draft:
    """Put markers in place of contact data; a draft that is kept is as the writer wrote it."""
    return replace(
        draft,
        title=discretion.scrub(draft.title),
        text=discretion.scrub(draft.text),
        tags=tuple(map(discretion.scrub, draft.tags)),
    )


def _name_people(draft: Draft, window: WindowMaterial) -> Draft:
    """Name the people of a draft as readers see them, whatever its writer calls them."""
    return replace(
        draft,
        title=window.name_people(draft.title),
        text=window.name_people(draft.text),
        tags=tuple(map(window.name_people, draft.tags)),
    )


def _withhold(draft: Draft, context: ContextMaterial, find_leaks: FindLeaks) -> Draft:
    """Drop the text of a draft that is no post, or must not be stored anywhere."""
    fault = find_refusal(draft.text) or find_leak(draft, context, find_leaks)
    return draft if fault is None else replace(draft, title="", text="", tags=(), withheld=fault)


def _start_row(
    window: WindowMaterial, context: ContextMaterial, writer: Writer, settings: WriterSettings
) -> dict[str, Any]:
    period = window.period
    slug = (
        make_slug(window.conversation_id, window.window_id, window.started_at)
        if period is None
        else name_letter(window.conversation_id, period.grain, period.key)
    )
    row = _make_row(window.window_id, slug, window.ended_at, writer, settings)
    return row | {"context_hash": hash_material(window, context)}


def _make_row(
    window_id: str, slug: str, published_at: datetime, writer: Writer, settings: WriterSettings
) -> dict[str, Any]:
    return {
        "window_id": window_id,
        "slug": slug,
        "path": f"{settings.folder}/{slug}.md",
        "title": "",
        "published_at": published_at,
        "tags": [],
        "text": "",
        "reason": None,
        "writer": writer.id,
        "model": None,
        "prompt_hash": writer.prompt_hash,
        "context_hash": "",
        "tokens_in": 0,
        "tokens_out": 0,
        "cost": None,
        "cited_documents": [],
        "removed_citations": 0,
    }


def _judge(
    draft: Draft, window: WindowMaterial, context: ContextMaterial, settings: WriterSettings
) -> dict[str, Any]:
    draft = clean_draft(draft)
    fault = find_fault(draft, settings, window.language)
    linked = LinkedText(draft.text, (), 0, fault)
    if fault is None:
        linked = link_citations(draft.text, window, context, folder=settings.folder)
    return {
        "title": draft.title,
        "tags": list(draft.tags),
        "text": linked.text,
        "status": "written" if linked.fault is None else "rejected",
        "reason": linked.fault,
        "model": draft.model,
        "tokens_in": draft.tokens_in,
        "tokens_out": draft.tokens_out,
        "cited_documents": list(linked.cited),
        "removed_citations": linked.removed,
    }
