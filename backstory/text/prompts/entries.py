"""The text for prompts: the entries of a context, and the text of a window.

Document text is shortened at word boundaries, and escaped so that it cannot imitate the structure of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.settings.models import ContextSettings
from backstory.text.chunking.tokens import estimate_tokens
from backstory.text.prompts.escaping import escape_block, escape_line

HEADING = (
    "\n\n## Related Previous Posts (for continuity and linking):\n"
    "You can reference these posts in your writing to maintain conversation continuity.\n\n"
)

UNSURE: Final = "perhaps "
"""Beginning of what a document serves, in a row of table ``contexts``, where it serves nothing for certain."""
_MAY_HELP: Final = "- May help: it serves no message for certain\n"

MESSAGE_AUTHOR: Final = r"(?m)^- \(\d+\) \d{4}-\d\d-\d\d \d\d:\d\d \*\*(.*?)\*\*: "
"""The beginning of the line of a message, with its author; see :func:`format_message`."""

_MOST_RUNS: Final = 4


def format_entry(record: Mapping[str, Any], settings: ContextSettings) -> str:
    """Write one chosen chunk as it appears in a prompt: heading, snippet, tags, similarity, whether it only may help.

    ``record`` is a row of table ``contexts``, or one with ``title`` (or ``post_title``), ``published_at`` (or
    ``post_date``), ``content``, ``tags`` and ``similarity``.
    """
    title = escape_line(str(record.get("title") or record.get("post_title") or "")) or "Untitled"
    published = record.get("published_at") or record.get("post_date")
    tags = ", ".join(escape_line(str(tag)) for tag in record.get("tags") or []) or "none"
    snippet = escape_block(
        str(record["passage"])
        if settings.excerpt == "passage"
        else cut_snippet(str(record["content"]), settings.snippet_characters)
    )
    similarity = float(record.get("similarity") or 0.0)
    pages = name_pages(record)
    heading = f"### [{title}] {pages} " if pages else f"### [{title}] "
    helps = _MAY_HELP if str(record.get("serves", "")).startswith(UNSURE) else ""
    facts = f"- Tags: {tags}\n- Similarity: {similarity:.2f}\n{helps}"
    return f"{heading}({_format_date(published)})\n{snippet}\n{facts}\n"


def format_message(author: str, sent_at: str, text: str) -> str:
    """Write one message of a window as the rest of a list item, after its number: one line."""
    return f"{sent_at} **{escape_line(author)}**: {escape_block(' '.join(text.split())).strip()}"


def format_markdown(records: Iterable[Mapping[str, Any]], settings: ContextSettings) -> str:
    """Write the records of one window as a block of a prompt; empty without records."""
    entries = [format_entry(record, settings) for record in records]
    return HEADING + "".join(entries) if entries else ""


def entry_budget(max_tokens: int) -> int:
    """Return the most tokens for the entries of a context: the budget minus the heading."""
    return max_tokens - int(estimate_tokens([HEADING])[0])


def make_entry_counter(
    chunks: pl.DataFrame, settings: ContextSettings
) -> Callable[[Sequence[str]], NDArray[np.int64]]:
    """Make a function from ids of stored chunks to the estimated tokens of their entries in a context."""
    fields = chunks.select(
        "title", "published_at", "tags", "page_start", "page_end", content="text", similarity=pl.lit(0.0)
    )
    # Passages are chosen later, to fill what the beginnings of the chosen chunks leave of the budget.
    settings = settings.model_copy(update={"excerpt": "head"})
    places = {chunk_id: place for place, chunk_id in enumerate(chunks["chunk_id"])}

    @cache  # only few of the stored chunks are needed, and writing an entry is expensive
    def count_entry(chunk_id: str) -> int:
        entry = format_entry(fields.row(places[chunk_id], named=True), settings)
        return int(estimate_tokens([entry])[0])

    return lambda chunk_ids: np.array(list(map(count_entry, chunk_ids)), np.int64)


def cut_to_common_length(texts: Sequence[str], characters: int) -> list[str]:
    """Shorten the longest parts of a text to one common length, so that all together are within a budget."""
    left, limit = characters, characters
    for place, length in enumerate(sorted(map(len, texts))):
        limit = max(left // (len(texts) - place), 0)
        if limit < length:
            break
        left -= length
    return [cut_snippet(text, limit) if limit else "" for text in texts]


def cut_snippet(text: str, characters: int) -> str:
    """Return a short text as it is, and of a longer one whole words of its beginning with an ellipsis."""
    stripped = text.strip()
    if len(stripped) <= characters:
        return stripped
    head = stripped[:characters]
    if not stripped[characters].isspace():
        shorter = re.sub(r"\S+\Z", "", head).rstrip()
        head = shorter or head
    return head.rstrip() + "…"


def cut_line(text: str, characters: int) -> str:
    """Put a text on one line, and cut it after a whole word."""
    return cut_snippet(" ".join(text.split()), characters)


def name_pages(record: Mapping[str, Any]) -> str:
    """Name the pages of a chunk, such as ``p. 3`` or ``pages 3-4``; empty for a document without pages."""
    first, last = record.get("page_start"), record.get("page_end")
    if first is None or last is None:
        return ""
    return f"p. {first}" if first == last else f"pages {first}-{last}"


def name_messages(places: Iterable[int]) -> str:
    """Name messages by their places in a window, such as ``messages 3 to 9 and 12``; at most four runs of them."""
    runs: list[tuple[int, int]] = []
    for place in sorted(places):
        if runs and runs[-1][1] == place - 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    names = [str(first) if first == last else f"{first} to {last}" for first, last in runs[:_MOST_RUNS]]
    if len(runs) > _MOST_RUNS:
        names.append("others")
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{'message' if listed.isdigit() else 'messages'} {listed}"


def _format_date(value: object) -> str:
    day = value.date() if isinstance(value, datetime) else value
    return escape_line(str(day)) if day else "undated"
