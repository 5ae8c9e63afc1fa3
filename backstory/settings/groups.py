"""The base of the settings of models behind services: which model, at which address, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from backstory.base.addresses import clean_address, require_protected
from backstory.base.errors import SettingsError

WebAddress: TypeAlias = Annotated[str, AfterValidator(clean_address)]
"""An address of http or https without a slash at its end."""


class MisplacedSettingsError(ValueError):
    """Settings that stand in the wrong place, or that are no settings any more.

    Attributes:
        problems: The location of each, from where the error was raised, and what to do.
    """

    def __init__(self, problems: Sequence[tuple[tuple[str, ...], str]]) -> None:
        super().__init__("; ".join(f"{'.'.join(location)}: {what}" for location, what in problems))
        self.problems = problems


class SettingsGroup(BaseModel):
    """Base of all groups of settings: frozen, and an unknown name is an error."""

    # Every command loads the settings, and their validators take less time to build all at once.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    former: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Names that were settings in an earlier release, and what to say of each."""

    @model_validator(mode="before")
    @classmethod
    def _explain_former_names(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            problems = [((name,), what) for name, what in cls.former.items() if name in given]
            if problems:
                raise MisplacedSettingsError(problems)
        return given


SERVICES: Final = ("gemini", "openai")
"""The providers that are services, which have an address, a key, limits and a price."""


class ServiceSettings(SettingsGroup):
    """Settings of a model that may be behind a service.

    In a settings file, address, limits, time-out and attempts are those of the table ``services``.
    """

    default_models: ClassVar[Mapping[str, str]]
    """Default models if the settings name none, by provider."""
    example_model: ClassVar[str]
    """A model of `provider: openai`, for the error that asks for one."""
    sent: ClassVar[str] = "chats, documents and key"
    """What travels to the service."""

    provider: str
    """Who runs the model."""
    model: str | None = None
    """Name of the model."""
    base_url: WebAddress | None = None
    """Address of the API; null for the public one of the provider."""
    allow_http: bool = False
    """Whether `base_url` may be http:// of another machine, to which chats, documents and key travel unencrypted."""
    timeout_seconds: float = Field(default=120.0, gt=0)
    """Time-out of one call."""
    max_attempts: int = Field(default=6, ge=1)
    """Most attempts of one call that fails, the first included."""

    @property
    def paid_model(self) -> str | None:
        """The model that calls of the service name: that of the settings, else the default; None without a service."""
        if self.provider not in SERVICES:
            return None
        return self.model or self.default_models.get(self.provider)

    @model_validator(mode="after")
    def _names_a_service(self) -> Self:
        if self.provider == "openai" and self.model is None:
            raise SettingsError(
                f"provider: openai needs model, such as `model: {self.example_model}`",
                code="absent_setting",
                name="model",
            )
        require_protected(self.base_url, allow_http=self.allow_http, sent=self.sent)
        return self


class LanguageModelSettings(ServiceSettings):
    """Settings of a language model that may be behind a service."""

    default_models: ClassVar[Mapping[str, str]] = MappingProxyType({"gemini": "gemini-2.5-flash"})
    example_model: ClassVar[str] = "gpt-4.1-mini"

    model: str | None = None
    """Name of the model; null: gemini-2.5-flash for `gemini`. `openai` needs one."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Randomness of the model; null for its own default."""
    requests_per_minute: int = Field(default=10, ge=1)
    """Most calls per minute."""
    tokens_per_minute: int = Field(default=250_000, ge=1)
    """Most tokens sent per minute."""
