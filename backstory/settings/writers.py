"""Settings of the writers: who writes the posts, within which limits, and what becomes of them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from backstory.settings.addresses import clean_address, require_protected
from backstory.settings.group import SettingsGroup

DEFAULT_MODELS: Final = {"gemini": "gemini-2.5-flash"}
"""Models that are asked if the settings name none, by provider."""


class WriterSettings(SettingsGroup):
    """Who writes a post for each window, and what becomes of the posts."""

    provider: Literal["none", "digest", "gemini", "openai", "custom"] = "none"
    """`none`: no posts; `digest`: no model; `gemini`; `openai`: any server with that API; `custom`: your `plugin`."""
    feedback: Literal["on", "off"] = "off"
    """`on`: a written post is a document for every window that begins after its own window has ended."""
    folder: str = "written"
    """Folder of the written posts, relative to the workspace."""
    without_context: Literal["write", "skip"] = "write"
    """Whether windows that were given no document get a post, too."""
    min_characters: int = Field(default=20, ge=0)
    """Fewest characters of a post; a shorter draft is rejected."""
    max_characters: int = Field(default=20_000, ge=200)
    """Most characters of a post; a longer draft is rejected."""
    plugin: str | None = None
    """Class for `custom`: `writers/mine.py:MyWriter`, relative to the workspace, or `my_module:MyWriter`."""
    prompt: str | None = None
    """Jinja file of the prompt, relative to the workspace; null for the shipped one (`backstory prompt`)."""
    model: str | None = None
    """Name of the model; null: gemini-2.5-flash for `gemini`. `openai` needs one."""
    base_url: str | None = None
    """Address of the API; null for the public one of the provider."""
    allow_http: bool = False
    """Whether `base_url` may be http:// of another machine, to which chats, documents and key travel unencrypted."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Randomness of the model; null for its own default."""
    max_output_tokens: int = Field(default=8192, ge=64)
    """Most tokens that the model may write for a post, its thoughts included."""
    timeout_seconds: float = Field(default=120.0, gt=0)
    """Time-out of one call."""
    max_attempts: int = Field(default=6, ge=1)
    """Most attempts of one call that fails, the first included."""
    max_attempts_per_window: int = Field(default=3, ge=1)
    """Most drafts of the same window, context and prompt; each run asks for one more while all were rejected."""
    requests_per_minute: int = Field(default=10, ge=1)
    """Most calls per minute."""
    tokens_per_minute: int = Field(default=250_000, ge=1)
    """Most tokens sent per minute."""
    threads: int = Field(default=4, ge=1)
    """Most calls at once; with `feedback: on`, windows are written one after the other."""

    @property
    def paid_model(self) -> str | None:
        """The model of a service that is asked: that of the settings, else the default; None without a service."""
        if self.provider not in ("gemini", "openai"):
            return None
        return self.model or DEFAULT_MODELS.get(self.provider)

    @field_validator("folder")
    @classmethod
    def _inside_the_workspace(cls, value: str) -> str:
        path = PurePosixPath(value)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{value!r} must be a folder inside the workspace, such as written")
        return value

    @field_validator("plugin")
    @classmethod
    def _names_a_class(cls, value: str | None) -> str | None:
        if value is not None:
            place, _, name = value.rpartition(":")
            if not place or not name.isidentifier():
                raise ValueError("name a file or module and a class, such as writers/mine.py:MyWriter")
        return value

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return clean_address(value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider == "custom" and self.plugin is None:
            raise ValueError("provider: custom needs plugin, such as `plugin: writers/mine.py:MyWriter`")
        if self.provider == "openai" and self.model is None:
            raise ValueError("provider: openai needs model, such as `model: gpt-4.1-mini`")
        require_protected(self.base_url, allow_http=self.allow_http, sent="chats, documents and key")
        if self.min_characters > self.max_characters:
            raise ValueError(
                f"min_characters {self.min_characters} must not be above max_characters {self.max_characters}"
            )
        return self
