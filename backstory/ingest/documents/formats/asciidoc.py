"""AsciiDoc -> Markdown's headings and code; all other text stays as it is written."""

from __future__ import annotations

import re
from typing import Final

from backstory.ingest.documents.formats.marked_text import (
    MarkedText,
    fence_code,
    join_blocks,
    keep_line,
    write_heading,
)
from backstory.ingest.documents.metadata.front_matter import Field

_HEADING: Final = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_ATTRIBUTE: Final = re.compile(r":([\w-]+):(?:[ \t]+(.*))?")
_SOURCE: Final = re.compile(r"\[(?:source|,)(?:%\w+)?,? *([\w+-]*).*\]")
_CODE: Final = re.compile(r"-{4,}|\.{4,}|`{3,}")
_AUTHOR: Final = re.compile(r"\w[\w.'’-]*(?: [\w.'’-]+){0,3}(?: <[^<>]+>)?(?:; .+)?")
_COMMENT: Final = re.compile(r"/{4,}")
_REVISION: Final = re.compile(
    r"(?:v?(?P<version>\d[\w.-]*),[ \t]*)?(?P<date>[^:{}]*\d{4}[^:{}]*)(?::[ \t]+.*)?|v\d[\w.-]*(?:[,:].*)?"
)
"""Line below that of the author: ``v2.0, 2026-02-10: remark``."""

_NAMES: Final = {"revdate": "date", "keywords": "tags"}


def convert_asciidoc(text: str) -> MarkedText:
    r"""Convert a text; its fields are the attributes of its header (``:revdate: 2024-05-01``).

    ``text``: AsciiDoc with newlines as ``\n``.
    """
    lines = text.split("\n")
    out: list[str] = []
    fields: list[Field] = []
    language = ""
    is_header = True
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        attribute = _ATTRIBUTE.fullmatch(line) if is_header else None
        heading = _HEADING.fullmatch(line)
        source = _SOURCE.fullmatch(line)
        if attribute is not None:
            value = attribute[2] or None
            if value is None or "{" not in value:
                fields.append(Field(_NAMES.get(attribute[1], attribute[1]), value, at))
        elif _CODE.fullmatch(line) or _COMMENT.fullmatch(line):
            end = next((n for n in range(at, len(lines)) if lines[n].rstrip() == line), len(lines))
            if _CODE.fullmatch(line):
                out += ["", fence_code(lines[at:end], language), ""]
            language, at, is_header = "", end + 1, False
        elif source is not None:
            language = source[1]
        elif heading is not None:
            out += ["", write_heading(len(heading[1]), heading[2]), ""]
            is_header = is_header and len(heading[1]) == 1
        elif not line.startswith("//"):
            out.append(keep_line(line))
            is_author = is_header and at < len(lines) and _is_author(lines, at - 1)
            if is_author and (revision := _REVISION.fullmatch(lines[at].strip())) is not None:
                fields += [Field("date", revision["date"].strip(), at + 1)] if revision["date"] else []
                at += 1
            is_header = is_header and not (line == "" and any(out))
    return MarkedText(join_blocks(out), tuple(fields))


def _is_author(lines: list[str], number: int) -> bool:
    """Return whether a line is that of the author: below the title, without a blank line between."""
    above = [line for line in lines[:number] if not line.startswith(("//", ":"))]
    return bool(above) and above[-1].startswith(("= ", "# ")) and _AUTHOR.fullmatch(lines[number]) is not None
