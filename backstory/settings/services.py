"""The table of services, to which the groups of settings refer by name, and what each group takes from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from backstory.base.addresses import require_protected
from backstory.settings.groups import (
    SERVICES,
    MisplacedSettingsError,
    ServiceSettings,
    SettingsGroup,
    WebAddress,
)


class Service(SettingsGroup):
    """One service of models: its address and its limits.

    The table ``services`` holds such entries by names of your own, as in ``services: {ollama: {kind: openai, base_url:
    "http://127.0.0.1:11434/v1"}}``. A group refers to one by name: ``writers: {provider: ollama, model: llama3.2}``.
    The names ``gemini`` and ``openai`` mean the services of Google and OpenAI and need no entry. Models with different
    limits at one service are two entries.
    """

    kind: Literal["gemini", "openai"] | None = None
    """API of the service: `gemini`, or `openai` for any server with that API; only `gemini` and `openai` need none."""
    base_url: WebAddress | None = None
    """Address of the API, such as `http://127.0.0.1:11434/v1` for Ollama; null for the public one of the kind."""
    allow_http: bool = False
    """Whether `base_url` may be http:// of another machine, to which chats, documents and key travel unencrypted."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Time-out of one call; null: 60 for `embedding`, else 120."""
    max_attempts: int | None = Field(default=None, ge=1)
    """Most attempts of one call that fails, the first included; null: 6."""
    texts_per_minute: int | None = Field(default=None, ge=1)
    """Most texts that `embedding` sends per minute; null: 100 for `gemini`, 50000 for `openai`."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Most calls per minute of each language model; null: 10."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Most tokens sent to each model per minute; null: 250000, and for `embedding` 30000 (`gemini`) or 1000000."""

    @model_validator(mode="after")
    def _is_protected(self) -> Service:
        require_protected(self.base_url, allow_http=self.allow_http, sent=ServiceSettings.sent)
        return self


SERVICE_FIELDS: Final = tuple(name for name in Service.model_fields if name != "kind")
"""Settings of a service. The groups that call it hold them, too, but take them from its table only."""


def fill_from_services(
    given: Mapping[str, Any], groups: Mapping[str, type[ServiceSettings]]
) -> dict[str, Any]:
    """Return settings in which each group holds what the table says of its service.

    Args:
        given: Settings as a file holds them.
        groups: The groups that call services, by name.

    Returns:
        The settings with ``provider`` replaced by the kind of the service. What is invalid stays, and is found later.

    Raises:
        MisplacedSettingsError: A service has no kind or an impossible name, or a group holds settings of a service.
    """
    table = given.get("services") or {}
    if not isinstance(table, Mapping):
        return dict(given)
    kinds, problems = _find_kinds(table, groups)
    filled = dict(given)
    for group, model in groups.items():
        settings = given.get(group)
        if not isinstance(settings, Mapping):
            continue
        provider = settings.get("provider")
        named = provider if isinstance(provider, str) and provider in kinds else None
        problems += [
            (
                (group, field),
                f"write it as services.{named or 'openai'}.{field}, for all that call this service",
            )
            for field in settings
            if field in SERVICE_FIELDS and field in model.model_fields
        ]
        if named is not None:
            own = {
                name: value for name, value in _read(table.get(named)).items() if name in model.model_fields
            }
            filled[group] = {**settings, **own, "provider": kinds[named]}
    if problems:
        raise MisplacedSettingsError(problems)
    return filled


def _find_kinds(
    table: Mapping[str, Any], groups: Mapping[str, type[ServiceSettings]]
) -> tuple[dict[str, str], list[tuple[tuple[str, ...], str]]]:
    """Find the kind of each service, and those that have none, or a name with another meaning."""
    reserved = {
        name for model in groups.values() for name in get_args(model.model_fields["provider"].annotation)
    }
    kinds = {name: name for name in SERVICES}
    problems: list[tuple[tuple[str, ...], str]] = []
    for name, entry in table.items():
        kind = entry.get("kind") if isinstance(entry, Mapping) else getattr(entry, "kind", None)
        if name not in SERVICES and name in reserved:
            problems.append(
                (("services", name), "this is the name of a provider; give the service another one")
            )
        elif name in SERVICES and kind not in (None, name):
            problems.append(
                (("services", name, "kind"), f"this is always {name}; give the service another name")
            )
        elif name not in SERVICES and isinstance(entry, Mapping) and kind is None:
            problems.append(
                (("services", name), "needs `kind: gemini`, or `kind: openai` for a server with that API")
            )
        # An invalid kind is reported at its own place.
        kinds[name] = kind if isinstance(kind, str) and kind in SERVICES else kinds.get(name, "openai")
    return kinds, problems


def _read(entry: Any) -> dict[str, Any]:
    """Read what an entry sets; nothing from an invalid one, which the settings report at its own place."""
    try:
        service = Service.model_validate(entry or {})
    except ValidationError:
        return {}
    return {name: value for name in SERVICE_FIELDS if (value := getattr(service, name)) is not None}
