"""Settings of the summaries: which model writes them, if any, and within which limits."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from backstory.settings.addresses import clean_address, require_protected
from backstory.settings.group import SettingsGroup
from backstory.settings.writers import DEFAULT_MODELS

MAX_WORDS: Final = 20_000
"""Most words of a document that are summarized at once, unless told otherwise."""


class SummarySettings(SettingsGroup):
    """Who summarizes a document on demand. No run reads these settings."""

    provider: Literal["extractive", "gemini", "openai"] = "extractive"
    """`extractive`: sentences of the document, without a model; `gemini`; `openai`: any server with that API."""
    model: str | None = None
    """Name of the model; null: gemini-2.5-flash for `gemini`. `openai` needs one."""
    base_url: str | None = None
    """Address of the API; null for the public one of the provider."""
    allow_http: bool = False
    """Whether `base_url` may be http:// of another machine, to which documents and key travel unencrypted."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Randomness of the model; null for its own default."""
    max_output_tokens: int = Field(default=8192, ge=64)
    """Most tokens that the model may write about a section, its thoughts included."""
    timeout_seconds: float = Field(default=120.0, gt=0)
    """Time-out of one call."""
    max_attempts: int = Field(default=6, ge=1)
    """Most attempts of one call that fails, the first included."""
    requests_per_minute: int = Field(default=10, ge=1)
    """Most calls per minute."""
    tokens_per_minute: int = Field(default=250_000, ge=1)
    """Most tokens sent per minute."""
    threads: int = Field(default=4, ge=1)
    """Most calls at once."""

    @property
    def paid_model(self) -> str | None:
        """The model of a service that is asked: that of the settings, else the default; None without a service."""
        if self.provider == "extractive":
            return None
        return self.model or DEFAULT_MODELS.get(self.provider)

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return clean_address(value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider == "openai" and self.model is None:
            raise ValueError("provider: openai needs model, such as `model: gpt-4.1-mini`")
        require_protected(self.base_url, allow_http=self.allow_http, sent="documents and key")
        return self
