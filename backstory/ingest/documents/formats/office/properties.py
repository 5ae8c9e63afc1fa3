"""Title, dates and keywords in the properties of an office document."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.formats.pdf_information import read_title
from backstory.ingest.documents.metadata.dates import parse_date
from backstory.ingest.documents.metadata.last_change import NO_CHANGE, LastChange, find_last_change

_SEPARATORS: Final = re.compile(r"[,;\n]")
_EVENTS: Final = {"modification": "modified", "creation": "created"}
_DEFAULT_YEARS: Final = 1981
"""Programs that set no date write 1970 or 1980, where their clocks begin."""


@dataclass(frozen=True)
class Properties:
    """What a file states of itself.

    Attributes:
        title: Title.
        published_at: When a book was published.
        change: By when the file was written; of no date if it states a publication.
        tags: Keywords, each once.
    """

    title: str | None = None
    published_at: datetime | None = None
    change: LastChange = NO_CHANGE
    tags: tuple[str, ...] = ()


def read_properties(root: Element | None) -> Properties:
    """Read the properties of a document of Microsoft Office, of an OpenDocument file or of an e-book."""
    if root is None:
        return Properties()
    is_book = _local(root.tag) == "metadata"
    stated: dict[str, list[str]] = {}
    for element in root.iter():
        name = _local(element.tag)
        if name == "meta" and (named := element.get("property")):
            name = named.partition(":")[2] or named
        if (
            name == "date"
        ):  # of a book its publication, unless EPUB 2 names another event; else the last change
            event = next((value for key, value in element.attrib.items() if _local(key) == "event"), "")
            name = _EVENTS.get(event, "published") if is_book else "modified"
        text = " ".join((element.text or "").split())
        if text:
            stated.setdefault(name, []).append(text)

    def find(*names: str) -> datetime | None:
        texts = (text for name in names for text in stated.get(name, ()))
        return next(filter(None, map(_read_date, texts)), None)

    published = find("published")
    keywords = [text for name in ("keywords", "keyword") for text in stated.get(name, ())]
    tags = (tag.strip() for text in keywords for tag in _SEPARATORS.split(text))
    return Properties(
        title=read_title(next(iter(stated.get("title", ())), None)),
        published_at=published,
        change=(
            find_last_change(find("created", "creation-date"), find("modified"))
            if published is None
            else NO_CHANGE
        ),
        tags=tuple(dict.fromkeys(filter(None, tags))),
    )


def _local(name: object) -> str:
    """Return a name without its namespace; empty for a comment, which has none."""
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def _read_date(text: str) -> datetime | None:
    with suppress(ValueError):  # the property was written by a program, and no one can mend it
        moment = parse_date(text)
        return moment if moment.year >= _DEFAULT_YEARS else None
    return None
