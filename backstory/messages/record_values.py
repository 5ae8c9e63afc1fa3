"""Values in the records of a chat export, of which nothing is certain but that they are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_object(value: Any) -> Mapping[str, Any]:
    """Give an object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def list_objects(value: Any) -> list[Mapping[str, Any]]:
    """List the objects of a list; none for any other value."""
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def first_text(*values: Any) -> str | None:
    """Give the first text that is not blank; None if there is none.

    Raises:
        ValueError: It is not valid Unicode.
    """
    for value in values:
        if isinstance(value, str) and value.strip():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ValueError("a text holds half of a UTF-16 surrogate pair") from error
            return value
    return None


def read_content(record: Mapping[str, Any], field: str) -> str:
    """Give the text under a key; an empty one if there is none.

    Raises:
        ValueError: The value is a list, an object, a number or a truth value.
    """
    text = record.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError("the text is not text")  # noqa: TRY004 - the value is data of the file
    return text
