"""Describes the allowed values of a setting in words, derived from the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from backstory.base.wording import shorten
from backstory.settings.models import SERVED_GROUPS, Settings
from backstory.settings.services import SERVICE_FIELDS

_SHOWN_CHARACTERS = 60
_ITEMS = {"string": "texts", "integer": "whole numbers", "number": "numbers"}
_LOWER, _UPPER = (
    {"minimum": "at least", "exclusiveMinimum": "above"},
    {"maximum": "at most", "exclusiveMaximum": "below"},
)


def known_names(location: Sequence[str | int]) -> list[str]:
    """List the names of the settings in a group.

    Args:
        location: Names on the path to the group, outermost first; empty for the top level.
    """
    names = _facts_at(location).get("properties", {})
    elsewhere = SERVICE_FIELDS if location and location[0] in SERVED_GROUPS else ()
    return [name for name in names if name not in elsewhere]


def describe_allowed(location: Sequence[str | int]) -> str:
    """Describe the allowed values of a setting, such as ``a whole number, at least 1``.

    Args:
        location: Names on the path to the setting, outermost first; an index in a list is a number.
    """
    named = len(location) == 2 and location[0] in SERVED_GROUPS and location[1] == "provider"
    return f"{_describe(_facts_at(location))}{', or a name of services' if named else ''}"


def show_value(value: object) -> str:
    """Format a value as in a settings file, on one line and shortened."""
    if isinstance(value, Mapping):
        return "a group of settings"
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join((repr(value) if isinstance(value, str) else str(value)).split())
    return shorten(text, _SHOWN_CHARACTERS)


@cache
def _schema() -> Mapping[str, Any]:
    return Settings.model_json_schema()


def _resolve(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in facts:
        facts = _schema()["$defs"][facts["$ref"].rpartition("/")[2]]
    return facts


def _facts_at(location: Sequence[str | int]) -> Mapping[str, Any]:
    facts = _resolve(_schema())
    for part in location:
        choices = [_resolve(choice) for choice in facts.get("anyOf", [facts])]
        inner = [found for choice in choices if (found := _step_into(choice, part)) is not None]
        if not inner:
            break  # a single value has no inner settings
        facts = _resolve(inner[0])
    return facts


def _step_into(facts: Mapping[str, Any], part: str | int) -> Mapping[str, Any] | None:
    found = facts.get("properties", {}).get(part, facts.get("additionalProperties"))
    if isinstance(part, int):
        found = facts.get("items")
    return found if isinstance(found, Mapping) else None


def _describe(facts: Mapping[str, Any]) -> str:
    facts = _resolve(facts)
    if "anyOf" in facts:
        return ", or ".join(_describe(choice) for choice in facts["anyOf"])
    if "enum" in facts:
        *others, last = (str(value) for value in facts["enum"])
        return f"{', '.join(others)} or {last}" if others else last
    match facts.get("type"):
        case "boolean":
            return "true or false"
        case "integer":
            return f"a whole number{_describe_limits(facts)}"
        case "number":
            return f"a number{_describe_limits(facts)}"
        case "string":
            return "a text (put a number, a date, or yes and no in quotes)"
        case "null":
            return "null"
        case "array":
            items = _resolve(facts.get("items", {}))
            kind = _ITEMS.get(items.get("type", ""), "values")
            return f"a list of {kind} in brackets, such as {'[1, 4]' if kind == 'whole numbers' else '[one, two]'}"
        case _:
            if isinstance(entry := facts.get("additionalProperties"), Mapping):
                inner = next(iter(_resolve(entry).get("properties", {})), None)
                if inner is None:
                    return f"names of your own, each with one of: {_describe(entry)}"
                return f"names of your own, each with its settings, such as `{{name: {{{inner}: ...}}}}`"
            names = list(facts.get("properties", {}))
            return (
                f"a group of settings, one to a line below it, such as `{names[0]}: ...`"
                if names
                else "a group"
            )


def _describe_limits(facts: Mapping[str, Any]) -> str:
    limits = [f"{words} {facts[name]:g}" for name, words in {**_LOWER, **_UPPER}.items() if name in facts]
    return f", {' and '.join(limits)}" if limits else ""
