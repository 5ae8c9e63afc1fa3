"""The names of the chunkers."""

from __future__ import annotations

from typing import Literal, TypeAlias

ChunkerName: TypeAlias = Literal[
    "markdown", "sentence", "character", "rows", "page", "python",
    "bash", "c", "cpp", "css", "go", "java", "javascript", "ruby", "rust", "tsx", "typescript",
]  # fmt: skip
"""Chunkers: by Markdown, by sentences, by characters, by rows, by pages (no chunk holds text of two pages),
or by the definitions of a programming language; see :mod:`backstory.text.chunking.chunkers`."""
