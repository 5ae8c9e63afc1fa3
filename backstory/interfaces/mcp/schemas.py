"""JSON schemas as short as a model can use them: every client sends those of all tools with every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
    return short if isinstance(short, dict) else {}


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
        name: _shorten(each, describes=describes, holds_names=name in ("properties", "$defs"))
        for name, each in value.items()
        if name not in left_out
    }
