"""Settings of the writers: who writes the posts, within which limits, and what becomes of them."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from backstory.base.environment import ANSWER_KEY_VARIABLE, SUMMARY_KEY_VARIABLE, WRITER_KEY_VARIABLE
from backstory.base.errors import SettingsError
from backstory.settings.groups import InnerPath, LanguageModelSettings

LetterGrain: TypeAlias = Literal["day", "week", "month"]
"""The period that a letter tells of."""
PostGrain: TypeAlias = Literal["window", "day", "week", "month"]


class WriterSettings(LanguageModelSettings):
    """Who writes a post for each window, and what becomes of the posts."""

    key_variable: ClassVar[str] = WRITER_KEY_VARIABLE

    provider: Literal["none", "digest", "gemini", "openai", "custom"] = "none"
    """`none`: no posts; `digest`: no model; `gemini`, `openai`, or a name of `services`; `custom`: your `plugin`."""
    feedback: Literal["on", "off"] = "off"
    """`on`: a written post is a document for every window that begins after its own window has ended."""
    feedback_scope: Literal["conversation", "workspace"] = "conversation"
    """Whose posts a window gets with `feedback: on`: those of its own conversation, or those of all conversations."""
    grain: PostGrain = "window"
    """What a post tells of: a `window`, or, as a letter, all windows of a `day`, `week` or `month`."""
    grains: dict[str, PostGrain] = Field(default_factory=dict)
    """The same for single conversations, such as `{family: week}`."""
    folder: InnerPath = "written"
    """Folder of the written posts, relative to the workspace."""
    without_context: Literal["write", "skip"] = "write"
    """Whether windows without a document in their context get a post, too."""
    min_characters: int = Field(default=20, ge=0)
    """Fewest characters of a post; a shorter draft is rejected."""
    max_characters: int = Field(default=20_000, ge=200)
    """Most characters of a post; a longer draft is rejected."""
    plugin: str | None = None
    """Class for `custom`: `writers/mine.py:MyWriter`, relative to the workspace, or `my_module:MyWriter`."""
    prompt: str | None = None
    """Jinja file of the prompt, relative to the workspace; null for the shipped one (`backstory prompt`)."""
    max_output_tokens: int = Field(default=8192, ge=64)
    """Most tokens that the model may write for a post, its thoughts included."""
    threads: int = Field(default=4, ge=1)
    """Most calls at once; with `feedback: on`, windows are written one after the other."""

    def find_grain(self, conversation_id: str) -> PostGrain:
        """Return what a post of a conversation tells of."""
        return self.grains.get(conversation_id, self.grain)

    @property
    def letter_grains(self) -> frozenset[LetterGrain]:
        """The periods of which letters are written."""
        return frozenset(grain for grain in (self.grain, *self.grains.values()) if grain != "window")

    @field_validator("plugin")
    @classmethod
    def _names_a_class(cls, value: str | None) -> str | None:
        if value is not None:
            place, _, name = value.rpartition(":")
            if not place or not name.isidentifier():
                raise SettingsError(
                    "name a file or module and a class, such as writers/mine.py:MyWriter", code="invalid_name"
                )
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider == "custom" and self.plugin is None:
            raise SettingsError(
                "provider: custom needs plugin, such as `plugin: writers/mine.py:MyWriter`",
                code="absent_setting",
            )
        if self.min_characters > self.max_characters:
            raise SettingsError(
                f"min_characters {self.min_characters} must not be above max_characters {self.max_characters}",
                code="swapped_range",
            )
        return self


MAX_WORDS: Final = 20_000
"""Default limit of the words of a document that are summarized at once."""


class SummarySettings(LanguageModelSettings):
    """Who summarizes a document on demand. No run reads these settings."""

    key_variable: ClassVar[str] = SUMMARY_KEY_VARIABLE
    sent: ClassVar[str] = "documents and key"

    provider: Literal["extractive", "gemini", "openai"] = "extractive"
    """`extractive`: sentences of the document, without a model; `gemini`, `openai`, or a name of `services`."""
    max_output_tokens: int = Field(default=8192, ge=64)
    """Most tokens that the model may write about a section, its thoughts included."""
    threads: int = Field(default=4, ge=1)
    """Most calls at once."""


class AnswerSettings(LanguageModelSettings):
    """Who answers questions. No run reads these settings."""

    key_variable: ClassVar[str] = ANSWER_KEY_VARIABLE
    sent: ClassVar[str] = "questions, documents and key"

    provider: Literal["extractive", "gemini", "openai"] = "extractive"
    """`extractive`: sentences of the documents, without a model; `gemini`, `openai`, or a name of `services`."""
    unsupported: Literal["remove", "mark"] = "remove"
    """What becomes of a model's statement that the passages it cites do not say: `mark` shows it as not supported."""
    router: Literal["rules", "model"] = "rules"
    """Who tells what a question asks for, such as a list: `rules` of words, or the `model`, one more call for each."""
    max_output_tokens: int = Field(default=8192, ge=64)
    """Most tokens that the model may write in one call, its thoughts included."""

    @model_validator(mode="after")
    def _has_a_router(self) -> Self:
        if self.router == "model" and self.provider == "extractive":
            raise SettingsError(
                "router: model needs a model, such as `provider: gemini`; or write `router: rules`",
                code="absent_setting",
            )
        return self
