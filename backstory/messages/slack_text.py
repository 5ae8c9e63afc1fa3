"""The markup in texts of Slack: ids of people and channels, links, and escaped characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_MARKUP: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_ESCAPES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_SCHEME: Final = re.compile(r"^(?:mailto:|tel:|https?://)")


def read_markup(text: str, people: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """Write the markup of a text as people see it.

    Args:
        text: As the export holds it.
        people: Names by the ids of people.
        channels: Names by the ids of channels.

    Returns:
        The text with ``@name``, ``#channel`` and ``label (address)``; an id without a name stays after its sign.
    """

    def write(match: re.Match[str]) -> str:
        sign, target, label = match.groups()
        if sign == "@":
            return f"@{people.get(target) or label or target}"
        if sign == "#":
            return f"#{label or channels.get(target) or target}"
        if sign == "!":
            return label or f"@{target.partition('^')[0]}"
        plain = _SCHEME.sub("", target).rstrip("/")
        if not label or label.rstrip("/") in (target.rstrip("/"), plain):
            return plain if target.startswith(("mailto:", "tel:")) else target
        return f"{label} ({target})"

    written = _MARKUP.sub(write, text)
    for escape, character in _ESCAPES:
        written = written.replace(escape, character)
    return written
