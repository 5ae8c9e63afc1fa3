"""Settings of the summaries: which model writes them, if any, and within which limits."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from backstory.settings.services import LanguageModelSettings

MAX_WORDS: Final = 20_000
"""Most words of a document that are summarized at once, unless told otherwise."""


class SummarySettings(LanguageModelSettings):
    """Who summarizes a document on demand. No run reads these settings."""

    sent: ClassVar[str] = "documents and key"

    provider: Literal["extractive", "gemini", "openai"] = "extractive"
    """`extractive`: sentences of the document, without a model; `gemini`; `openai`: any server with that API."""
    allow_http: bool = False
    """Whether `base_url` may be http:// of another machine, to which documents and key travel unencrypted."""
    max_output_tokens: int = Field(default=8192, ge=64)
    """Most tokens that the model may write about a section, its thoughts included."""
