"""Writes front matter from fields of a post, as a format and the settings map them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from backstory.base.errors import SettingsError
from backstory.interfaces.pages.export.formats import Stated
from backstory.interfaces.pages.report.page import drop_controls

Value = str | datetime | tuple[str, ...]

_FIELD: Final = re.compile(r"\{(\w+)\}")
_PLAIN: Final = re.compile(r"(?!(?i:true|false|null)\Z)[A-Za-z][A-Za-z_]{3,}")
"""A name that needs no quotation marks; shorter ones may be numbers or truth values of YAML."""

_LINE_ENDS: Final = re.compile("[\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def map_front_matter(stated: Mapping[str, Stated], changed: Mapping[str, Stated | None]) -> dict[str, Stated]:
    """Return the front matter of a format as the settings change it: null leaves a field out."""
    merged = {**stated, **changed}
    return {name: value for name, value in merged.items() if value is not None}


def write_front_matter(stated: Mapping[str, Stated], fields: Mapping[str, Value | None]) -> str:
    """Write front matter in YAML.

    Args:
        stated: Value of each field of the front matter. A text that is one field in braces has the type of it; one
            without a value is left out.
        fields: Values by the names that stand in braces.

    Raises:
        SettingsError: A name in braces is none of the fields.
    """
    lines = []
    for name, value in stated.items():
        filled = fill_in(name, value, fields) if isinstance(value, str) else json.dumps(value)
        if filled is not None:
            lines.append(f"{name if _PLAIN.fullmatch(name) else _quote(name)}: {filled}")
    return "\n".join(["---", *lines, "---", ""])


def fill_in(name: str, template: str, fields: Mapping[str, Value | None]) -> str | None:
    """Return one value of front matter in YAML; None if it is a field without a value."""
    for field in _FIELD.findall(template):
        if field not in fields:
            raise SettingsError(
                f"site.front_matter.{name}: there is no field {{{field}}}; the fields are {', '.join(sorted(fields))}",
                code="unknown_field",
                name=name,
                field=field,
            )
    alone = _FIELD.fullmatch(template)
    if alone is None:
        return _quote(_FIELD.sub(lambda found: _write(fields[found[1]]), template))
    value = fields[alone[1]]
    if value is None or isinstance(value, str):
        return _quote(value) if value else None
    if isinstance(value, datetime):
        return _write(value)
    return f"[{', '.join(map(_quote, value))}]"


def _write(value: Value | None) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return ", ".join(value) if isinstance(value, tuple) else value or ""


def _quote(text: str) -> str:
    """Quote a text so that no YAML parser takes any of it for something else."""
    return json.dumps(_LINE_ENDS.sub(" ", drop_controls(text)), ensure_ascii=False)
