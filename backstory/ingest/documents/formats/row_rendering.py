"""Values of tables and JSON -> lines of text, one row each: ``name: Ann; city: Riga``.

Every row names its columns, so that it can be found, read and cited by itself. A value with a line break, with ``; ``
or with a quotation mark at its beginning is written as a JSON string; so are names. An empty value is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from backstory.base.errors import InputError

MOST_DEPTH: Final = 64
"""Maximum number of lists and objects in each other."""

_SPECIAL: Final = re.compile(r'^["\s]|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|; ')
_SPECIAL_NAME: Final = re.compile(rf"{_SPECIAL.pattern}|: |^$")
_NOT_IN_LINES: Final = re.compile(r"[\x7f\x85\u2028\u2029\ud800-\udfff]")


class Number(str):
    """A number as it was written."""

    __slots__ = ()


@dataclass(frozen=True)
class Members:
    """The members of a JSON object in their order; a name may stand twice."""

    pairs: list[tuple[str, Value]]


Value: TypeAlias = "str | Number | bool | Members | list[Value] | None"
"""A value of a cell, or of JSON."""


class TooDeepError(InputError):
    """A value is nested too deeply."""


def show_row(cells: Iterable[tuple[str, Value]]) -> str:
    """Render a row as one line; it is empty if no cell has a value.

    It raises ``TooDeepError`` if a value is nested more than :data:`MOST_DEPTH` deep.
    """
    return "; ".join(f"{show_name(name)}: {text}" for name, text in _flatten(cells, 0))


def show_header(names: Iterable[str]) -> str:
    """Render the names of columns as one line."""
    return "; ".join(map(show_name, names))


def show_name(name: str) -> str:
    """Render a name so that it ends before ``: ``."""
    return _quote(name) if _SPECIAL_NAME.search(name) else name


def show_value(value: Value, depth: int = 0) -> str:
    """Render a value within a line; a list, and an object in it, as JSON.

    It raises ``TooDeepError`` if the value is nested more than :data:`MOST_DEPTH` deep.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return _quote(value) if _SPECIAL.search(value) else str(value)
    return _show_json(value, depth)


def _flatten(cells: Iterable[tuple[str, Value]], depth: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every value; the path of a value in an object has the names around it."""
    for name, value in cells:
        if isinstance(value, Members):
            _check_depth(depth)
            inner = ((f"{name}.{below}", part) for below, part in value.pairs)
            yield from _flatten(inner, depth + 1)
        elif value is not None and value not in ("", []):
            yield name, show_value(value, depth)


def _show_json(value: Value, depth: int) -> str:
    _check_depth(depth)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return str(value) if isinstance(value, Number) else _quote(value)
    if isinstance(value, Members):
        return (
            "{"
            + ", ".join(f"{_quote(name)}: {_show_json(part, depth + 1)}" for name, part in value.pairs)
            + "}"
        )
    return "[" + ", ".join(_show_json(part, depth + 1) for part in value) + "]"


def _check_depth(depth: int) -> None:
    if depth > MOST_DEPTH:
        raise TooDeepError(f"it is nested more than {MOST_DEPTH} levels deep")


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
