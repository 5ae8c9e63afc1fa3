"""One text -> chunks."""

from __future__ import annotations

from backstory.chunking.cut import cut_chunks
from backstory.chunking.tokens import CountTokens, estimate_tokens


def chunk_markdown(
    content: str,
    max_tokens: int = 1800,
    overlap_tokens: int = 150,
    *,
    count_tokens: CountTokens = estimate_tokens,
) -> list[str]:
    """Cut a text into chunks.

    Args:
        content: Markdown, or plain text.
        max_tokens: Most tokens of a chunk, overlap and special tokens included.
        overlap_tokens: Most tokens of a chunk that are repeated from the one before.
        count_tokens: Counts many texts at once.

    Returns:
        The chunks in order, none for a text of whitespace only.

    Raises:
        InputError: The limits contradict each other, or a single character is over the ceiling.
    """
    (spans,) = cut_chunks(
        [content], max_tokens=max_tokens, overlap_tokens=overlap_tokens, count_tokens=count_tokens
    )
    return [content[span.start : span.end] for span in spans]
