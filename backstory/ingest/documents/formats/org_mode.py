"""Org mode -> Markdown's headings and code; all other text stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from backstory.ingest.documents.formats.marked_text import (
    MarkedText,
    fence_code,
    join_blocks,
    keep_line,
    write_heading,
)
from backstory.ingest.documents.metadata.front_matter import Field

_HEADING: Final = re.compile(r"(\*+)[ \t]+(.*?)(?:[ \t]+(:[\w@#%:]+:))?[ \t]*")
_KEYWORD: Final = re.compile(r"#\+([A-Za-z_]+):[ \t]*(.*)")
_BEGIN: Final = re.compile(r"[ \t]*#\+begin_(src|example|comment)\b[ \t]*(\S*).*", re.IGNORECASE)
_DRAWER: Final = re.compile(r"[ \t]*:([\w-]+):[ \t]*")
_COMMENTED: Final = re.compile(r"(?:[A-Z]+ )?(?:\[#.\] )?COMMENT(?: .*)?")
_END: Final = re.compile(r"[ \t]*:END:[ \t]*", re.IGNORECASE)
_TIMESTAMP: Final = re.compile(
    r"[<\[]([0-9]{4}-[0-9]{2}-[0-9]{2})(?: +[^\W\d]+\.?)?(?: +([0-9]{1,2}:[0-9]{2})(?:-[0-9]{1,2}:[0-9]{2})?)?"
    r"(?: +[.+-]{1,2}[0-9]+[hdwmy])*[>\]]"
)
_TAG_FIELDS: Final = ("filetags", "keywords")


def convert_org_mode(text: str) -> MarkedText:
    r"""Convert a text; its fields are the keywords (``#+DATE: <2024-05-01 Wed>``).

    ``text``: org mode with newlines as ``\n``.
    """
    lines = text.split("\n")
    out: list[str] = []
    fields: list[Field] = []
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        keyword, begin, heading = _KEYWORD.fullmatch(line), _BEGIN.fullmatch(line), _HEADING.fullmatch(line)
        if keyword is not None:
            fields += _read_keyword(keyword[1].lower(), keyword[2], at)
        elif begin is not None:
            closing = f"#+end_{begin[1].lower()}"
            end = next((n for n in range(at, len(lines)) if lines[n].strip().lower() == closing), len(lines))
            if begin[1].lower() != "comment":
                out += ["", fence_code(lines[at:end], begin[2] if begin[1].lower() == "src" else ""), ""]
            at = end + 1
        elif _DRAWER.fullmatch(line) and (end_of_drawer := _find_end(lines, at)) is not None:
            at = end_of_drawer + 1
        elif heading is not None and _COMMENTED.fullmatch(heading[2]):
            at = _find_next_heading(lines, at, len(heading[1]))
        elif heading is not None:
            out += ["", write_heading(len(heading[1]), heading[2]), ""]
        elif not line.startswith("# ") and line != "#":
            out.append(keep_line(line))
    return MarkedText(join_blocks(out), tuple(fields))


def _find_end(lines: Sequence[str], at: int) -> int | None:
    """Return the line that ends a drawer, which holds no heading; None if nothing does."""
    for number in range(at, len(lines)):
        if _END.fullmatch(lines[number]):
            return number
        if _HEADING.fullmatch(lines[number]):
            return None
    return None


def _find_next_heading(lines: Sequence[str], at: int, level: int) -> int:
    """Return the next heading that is not below one of a level, or the end."""
    headings = ((number, _HEADING.fullmatch(lines[number])) for number in range(at, len(lines)))
    return next((number for number, found in headings if found and len(found[1]) <= level), len(lines))


def _read_keyword(name: str, value: str, line: int) -> list[Field]:
    if name in _TAG_FIELDS:
        return [Field("tags", " ".join(value.replace(":", " ").split()) or None, line)]
    stamp = _TIMESTAMP.fullmatch(value.strip())
    if stamp is not None:
        value = " ".join(filter(None, stamp.groups()))
    return [] if value.startswith(("\\", "{")) else [Field(name, value or None, line)]
