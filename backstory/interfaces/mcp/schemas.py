"""JSON schemas as short as a model can use them: every client sends those of all tools with every request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

_DEFINITIONS: Final = "$defs"
_REFERENCE: Final = "$ref"
_NULL: Final = {"type": "null"}
_SAID_ELSEWHERE: Final = frozenset({"title", "additionalProperties", "required", "default", "format"})
"""What a schema of a result need not say: the names say it, and results are complete."""


def shorten_schema(schema: Mapping[str, Any], *, describes: bool = True) -> dict[str, Any]:
    """Shorten a schema without another meaning for what is valid, except that a result may lack a key.

    Args:
        schema: The schema, as pydantic writes it.
        describes: Whether descriptions and defaults stay, as for arguments. Those of results are in the documentation.
    """
    short = _shorten(schema, describes=describes)
    return _place_definitions(short) if isinstance(short, dict) else {}


def _place_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Write a definition that is used once in its place: shorter to read, and faster for a client to compare with."""
    definitions = schema.get(_DEFINITIONS, {})
    uses = Counter(_list_references(schema))
    once = {
        name: value
        for name, value in definitions.items()
        if uses[f"#/{_DEFINITIONS}/{name}"] == 1 and f"#/{_DEFINITIONS}/{name}" not in _list_references(value)
    }
    if not once:
        return schema
    kept = {name: value for name, value in definitions.items() if name not in once}
    rest = {name: value for name, value in schema.items() if name != _DEFINITIONS}
    placed = _replace({_DEFINITIONS: kept, **rest} if kept else rest, once)
    return placed if isinstance(placed, dict) else {}


def _list_references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _list_references(each)
    elif isinstance(value, dict):
        if isinstance(value.get(_REFERENCE), str):
            yield value[_REFERENCE]
        yield from _list_references(list(value.values()))


def _replace(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_replace(each, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    others = {name: _replace(each, definitions) for name, each in value.items() if name != _REFERENCE}
    name = str(value.get(_REFERENCE, "")).removeprefix(f"#/{_DEFINITIONS}/")
    if name in definitions:
        return {**_replace(definitions[name], definitions), **others}
    return {_REFERENCE: value[_REFERENCE], **others} if _REFERENCE in value else others


def _shorten(value: Any, *, describes: bool, holds_names: bool = False) -> Any:
    if isinstance(value, list):
        return [_shorten(each, describes=describes) for each in value]
    if not isinstance(value, dict):
        return value
    if holds_names:  # the keys are names of fields, not words of JSON Schema
        return {name: _shorten(each, describes=describes) for name, each in value.items()}
    if not describes and len(choices := [each for each in value.get("anyOf", ()) if each != _NULL]) == 1:
        [choice] = choices
        kind = choice.get("type")
        if isinstance(kind, str) and "enum" not in choice:
            value = {**choice, "type": [kind, "null"]}
    left_out = {"title"} if describes else {*_SAID_ELSEWHERE, "description", "minimum", "maximum"}
    return {
        name: _shorten(each, describes=describes, holds_names=name in ("properties", _DEFINITIONS))
        for name, each in value.items()
        if name not in left_out
    }
