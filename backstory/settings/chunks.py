"""Settings of the chunks into which documents are cut."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from backstory.base.chunker_names import ChunkerName
from backstory.base.errors import SettingsError
from backstory.settings.groups import SettingsGroup


class ChunkSettings(SettingsGroup):
    """How documents are cut into chunks."""

    max_tokens: int = Field(default=1800, ge=16)
    """Most tokens of a chunk; the ceiling is this or the embedder's limit, whichever is smaller."""
    overlap_tokens: int = Field(default=150, ge=0)
    """Most tokens that a chunk of `markdown` and `page` repeats from the end of the previous chunk."""
    chunkers: dict[str, ChunkerName] = Field(default_factory=dict)
    """Chunker by format, such as `{markdown: sentence, pdf: page}`; a format that is absent has its reader's choice."""
    sentence_max_tokens: int = Field(default=512, ge=16)
    """Most tokens of a chunk of `sentence` and `rows`; never above the ceiling."""
    sentence_overlap_tokens: int = Field(default=60, ge=0)
    """Most tokens that a chunk of `sentence` repeats."""
    max_characters: int = Field(default=1000, ge=16)
    """Most characters of a chunk of `character`; fewer where they have more tokens than the ceiling."""
    overlap_characters: int = Field(default=200, ge=0)
    """Most characters that a chunk of `character` repeats."""

    @model_validator(mode="after")
    def _overlaps_below_sizes(self) -> Self:
        for size, overlap in (
            ("max_tokens", "overlap_tokens"),
            ("sentence_max_tokens", "sentence_overlap_tokens"),
            ("max_characters", "overlap_characters"),
        ):
            if getattr(self, overlap) >= getattr(self, size):
                raise SettingsError(
                    f"{overlap} {getattr(self, overlap)} must be below {size} {getattr(self, size)}",
                    code="out_of_range",
                    name=overlap,
                    limit=size,
                )
        return self
