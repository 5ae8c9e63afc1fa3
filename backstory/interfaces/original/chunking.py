"""Text -> chunks."""

from __future__ import annotations

from backstory.text.chunking.cut import cut_chunks
from backstory.text.chunking.units import ESTIMATED_TOKENS, TokenCounter


def chunk_markdown(
    content: str,
    max_tokens: int = 1800,
    overlap_tokens: int = 150,
    *,
    counter: TokenCounter = ESTIMATED_TOKENS,
) -> list[str]:
    """Cut a text into chunks.

    Args:
        content: Markdown, or plain text.
        max_tokens: Most tokens of a chunk, including overlap and special tokens.
        overlap_tokens: Most tokens that a chunk repeats from the chunk before it.
        counter: Counts the tokens, such as an embedder.

    Returns:
        The chunks in order; empty for a text of only whitespace.

    Raises:
        InputError: The limits contradict each other, or a single character has more tokens than ``max_tokens``.
    """
    (spans,) = cut_chunks([content], max_tokens=max_tokens, overlap_tokens=overlap_tokens, counter=counter)
    return [content[span.start : span.end] for span in spans]
