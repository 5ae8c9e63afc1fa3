"""The bases of all groups of settings, and the table of services, to which groups refer by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from backstory.base.addresses import clean_address, require_protected
from backstory.base.errors import SettingsError

WebAddress: TypeAlias = Annotated[str, AfterValidator(clean_address)]
"""An address of http or https without a slash at its end."""


def _stay_inside(value: str) -> str:
    path = PurePosixPath(value)
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise SettingsError(f"{value!r} must lie inside its folder, such as written or **/*.md")
    return value


InnerPath: TypeAlias = Annotated[str, AfterValidator(_stay_inside)]
"""A path or glob that leads nowhere outside the folder that it is relative to."""


class SettingsGroup(BaseModel):
    """Base of all groups of settings: frozen, and an unknown name is an error."""

    # Every command loads the settings, and their validators take less time to build all at once.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


SERVICES: Final = ("gemini", "openai")
"""The providers that are services, which have an address, a key, limits and a price."""


class ServiceLimits(SettingsGroup):
    """Where a service is, and how it is called."""

    base_url: WebAddress | None = None
    """Address of the API, such as `http://127.0.0.1:11434/v1` for Ollama; null for the public one of the kind."""
    allow_http: bool = False
    """Whether `base_url` may be http:// of another machine, to which chats, documents and key travel unencrypted."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Time-out of one call; null: 60 for `embedding`, else 120."""
    max_attempts: int = Field(default=6, ge=1)
    """Most attempts of one call that fails, the first included."""
    texts_per_minute: int | None = Field(default=None, ge=1)
    """Most texts that `embedding` sends per minute; null: 100 for `gemini`, 50000 for `openai`."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Most calls per minute of each language model; null: 10."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Most tokens sent to each model per minute; null: 250000, and for `embedding` 30000 (`gemini`) or 1000000."""

    sent: ClassVar[str] = "chats, documents and key"
    """What travels to the service."""

    @model_validator(mode="after")
    def _is_protected(self) -> Self:
        require_protected(self.base_url, allow_http=self.allow_http, sent=self.sent)
        return self


SERVICE_FIELDS: Final = tuple(ServiceLimits.model_fields)
"""Settings of a service. The groups that call it hold them, too, but take them from its table only."""


class Service(ServiceLimits):
    """One service of models: its address and its limits.

    The table ``services`` holds such entries by names of your own, as in ``services: {ollama: {kind: openai, base_url:
    "http://127.0.0.1:11434/v1"}}``. A group refers to one by name: ``writers: {provider: ollama, model: llama3.2}``.
    The names ``gemini`` and ``openai`` mean the services of Google and OpenAI and need no entry. Models with different
    limits at one service are two entries.
    """

    kind: Literal["gemini", "openai"] | None = None
    """API of the service: `gemini`, or `openai` for any server with that API; only `gemini` and `openai` need none."""


class ServiceSettings(ServiceLimits):
    """Settings of a model that may be behind a service, whose limits a file sets in the table ``services``."""

    default_models: ClassVar[Mapping[str, str]] = MappingProxyType({"gemini": "gemini-2.5-flash"})
    """Default models if the settings name none, by provider."""
    example_model: ClassVar[str] = "gpt-4.1-mini"
    """A model of `provider: openai`, for the error that asks for one."""
    key_variable: ClassVar[str]
    """Environment variable of the key of a service with OpenAI's API."""
    default_seconds: ClassVar[float] = 120.0
    """Time-out of one call if the settings name none."""

    provider: str
    """Who runs the model."""
    model: str | None = None
    """Name of the model; null: gemini-2.5-flash for `gemini`. `openai` needs one."""

    @property
    def paid_model(self) -> str | None:
        """The model that calls of the service name: that of the settings, else the default; None without a service."""
        if self.provider not in SERVICES:
            return None
        return self.model or self.default_models.get(self.provider)

    @property
    def seconds(self) -> float:
        """Time-out of one call."""
        return self.timeout_seconds or self.default_seconds

    @property
    def per_minute(self) -> tuple[int, int]:
        """Most texts or requests, whichever the service counts, and most tokens that are sent per minute."""
        return self.requests_per_minute or 10, self.tokens_per_minute or 250_000

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.provider == "openai" and self.model is None:
            raise SettingsError(
                f"provider: openai needs model, such as `model: {self.example_model}`", code="absent_setting"
            )
        return self


class LanguageModelSettings(ServiceSettings):
    """Settings of a language model that may be behind a service."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    """Randomness of the model; null for its own default."""


def fill_from_services(
    given: Mapping[str, Any], groups: Mapping[str, type[ServiceSettings]]
) -> dict[str, Any]:
    """Return settings in which each group holds what the table says of its service, whose kind is its ``provider``.

    What is invalid stays, and is found later.
    """
    table = given.get("services") or {}
    if not isinstance(table, Mapping):
        return dict(given)
    services = {name: _read(name, entry) for name, entry in table.items()}
    problems = list(_find_misnamed(services, groups))
    filled = dict(given)
    for group in groups:
        settings = given.get(group)
        if not isinstance(settings, Mapping):
            continue
        provider = settings.get("provider")
        is_named = isinstance(provider, str) and provider in (*SERVICES, *services)
        for name in settings:
            if name in SERVICE_FIELDS:
                place = f"services.{provider if is_named else 'openai'}.{name}"
                problems.append(_refuse(f"write it as {place}, for all that call this service", group, name))
        if is_named:
            service = services.get(provider, Service())
            kind = provider if provider in SERVICES else service.kind or "openai"
            filled[group] = {**settings, **service.model_dump(exclude={"kind"}), "provider": kind}
    if problems:
        raise ValidationError.from_exception_data("settings", problems)
    return filled


def _read(name: str, entry: Any) -> Service:
    """Read what an entry sets; nothing but a kind from an invalid one, which the settings report at its own place."""
    try:
        return Service.model_validate(entry or {})
    except ValidationError:
        return Service(kind="gemini" if name == "gemini" else "openai")


def _find_misnamed(
    services: Mapping[str, Service], groups: Mapping[str, type[ServiceSettings]]
) -> Iterator[InitErrorDetails]:
    """Find the services that have no kind, or a name with another meaning."""
    reserved = {
        name for model in groups.values() for name in get_args(model.model_fields["provider"].annotation)
    }
    for name, service in services.items():
        if name in SERVICES:
            if service.kind not in (None, name):
                yield _refuse(
                    f"this is always {name}; give the service another name", "services", name, "kind"
                )
        elif name in reserved:
            yield _refuse("this is the name of a provider; give the service another one", "services", name)
        elif service.kind is None:
            told = "needs `kind: gemini`, or `kind: openai` for a server with that API"
            yield _refuse(told, "services", name)


def _refuse(message: str, *location: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("misplaced", message), loc=location, input=None)
