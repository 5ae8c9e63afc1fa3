"""Front matter of Markdown files: YAML between ``---`` lines, or TOML between ``+++`` lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from backstory.errors import InputError

_FENCES = {"---": "YAML", "+++": "TOML"}
_DATE_AT_START = re.compile(r"^(\d{4}-\d{2}-\d{2})(?:[-_ ]|$)")


@dataclass(frozen=True)
class FrontMatter:
    """A Markdown file, taken apart.

    Attributes:
        fields: The front matter; empty if there is none.
        body: The text after it.
    """

    fields: Mapping[str, Any]
    body: str


def split_front_matter(text: str) -> FrontMatter:
    r"""Take the front matter off a text.

    Args:
        text: A Markdown file with newlines as ``\n``.

    Returns:
        Its fields and its body. A first line ``---`` without a closing one is a rule, not front matter.

    Raises:
        InputError: The front matter is not valid; the message names the line of the file.
    """
    first, _, rest = text.partition("\n")
    fence = first.rstrip()
    if fence not in _FENCES:
        return FrontMatter({}, text)
    closing = re.search(rf"^{re.escape(fence)}[ \t]*$", rest, flags=re.MULTILINE)
    if closing is None:
        return FrontMatter({}, text)
    block, body = rest[: closing.start()], rest[closing.end() :].removeprefix("\n")
    fields = _read_yaml(block) if fence == "---" else _read_toml(block)
    if fields is None:
        return FrontMatter({}, body)
    if not isinstance(fields, Mapping):
        raise InputError(f"line 2: front matter must be `name: value` pairs, found {type(fields).__name__}")
    return FrontMatter({str(name).lower(): value for name, value in fields.items()}, body)


def _read_yaml(block: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(block)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 2 if mark else 2
        raise InputError(f"line {line}: front matter is not valid YAML ({error.problem})") from error
    except (YAMLError, ValueError) as error:
        raise InputError(f"line 2: front matter is not valid YAML ({error})") from error


def _read_toml(block: str) -> Any:
    try:
        return tomllib.loads(block)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found.group(1)) + 1 if found else 2
        raise InputError(f"line {line}: front matter is not valid TOML ({error})") from error


def read_date(value: Any) -> datetime:
    """Take a date of the front matter.

    Args:
        value: A date, a datetime, or a text in ISO form; without a zone it is UTC, without a time midnight.

    Returns:
        An aware datetime in UTC.

    Raises:
        InputError: It is none of these.
    """
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime.combine(value, time())
    else:
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError as error:
            raise InputError(f"date {value!r} is not a date; write it as YYYY-MM-DD") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def split_dated_name(stem: str) -> tuple[datetime | None, str]:
    """Take a date off the beginning of a file name, as in ``2025-03-04-my-post``.

    Args:
        stem: File name without its ending.

    Returns:
        The date, or None where there is none, and the rest of the name.
    """
    found = _DATE_AT_START.match(stem)
    if found is None:
        return None, stem
    try:
        moment = datetime.fromisoformat(found.group(1)).replace(tzinfo=UTC)
    except ValueError:
        return None, stem  # looks like a date and is not one, such as 2025-13-40: part of the name
    return moment, stem[found.end() :] or stem
