"""Markdown files with YAML or TOML front matter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from backstory.documents.front_matter import read_date, split_dated_name, split_front_matter
from backstory.documents.parsed_document import ParsedDocument
from backstory.errors import InputError

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_DATE_FIELDS = ("date", "published_at", "published")
_NOT_SLUG = re.compile(r"[^\w]+")


class MarkdownReader:
    """Reads ``.md`` and ``.markdown``.

    Title, slug and date come from the front matter, else from the file name (``2025-03-04-my-post.md``), else the
    title from the first heading.
    """

    suffixes = frozenset({".md", ".markdown"})

    def read(self, content: bytes, name: str) -> ParsedDocument:
        """Read one file; see :class:`backstory.documents.DocumentReader`."""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise InputError(f"line {line}: not UTF-8 text; save the file as UTF-8") from error
        parts = split_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"))
        body = parts.body.strip("\n")
        if not body.strip():
            raise InputError("there is no text after the front matter; write some, or remove the file")
        named_date, stem = split_dated_name(PurePosixPath(name).stem)
        slug = _text(parts.fields, "slug") or _NOT_SLUG.sub("-", stem.lower()).strip("-") or stem
        return ParsedDocument(
            title=_text(parts.fields, "title") or _first_heading(body) or slug,
            slug=slug,
            published_at=_date(parts.fields) or named_date,
            tags=_tags(parts.fields),
            kind=_text(parts.fields, "kind"),
            tenant=_text(parts.fields, "tenant"),
            text=body,
        )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, list | Mapping):
        raise InputError(f"{name} must be a text, found {type(value).__name__}")
    return " ".join(str(value).split()) or None


def _date(fields: Mapping[str, Any]) -> datetime | None:
    given = next((fields[name] for name in _DATE_FIELDS if fields.get(name) not in (None, "")), None)
    return None if given is None else read_date(given)


def _tags(fields: Mapping[str, Any]) -> tuple[str, ...]:
    value = fields.get("tags")
    if value is None:
        return ()
    if isinstance(value, Mapping):
        raise InputError("tags must be a list, or a text with commas")
    given = value if isinstance(value, list) else str(value).split(",")
    return tuple(dict.fromkeys(tag for tag in (str(item).strip() for item in given) if tag))


def _first_heading(body: str) -> str | None:
    found = _HEADING.search(_FENCED.sub("", body))
    return " ".join(found.group(1).split()) if found else None
