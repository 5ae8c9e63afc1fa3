"""Title, dates and keywords in the properties of an office document."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.metadata.dates import parse_date

_SEPARATORS: Final = re.compile(r"[,;\n]")
_DEFAULT_YEARS: Final = 1981
"""Programs that set no date write 1970 or 1980, where their clocks begin."""


@dataclass(frozen=True)
class Properties:
    """What a file states of itself.

    Attributes:
        title: Title.
        updated_at: When it was last changed, else created, UTC. Its text cannot be older in all its parts.
        tags: Keywords, each once.
    """

    title: str | None = None
    updated_at: datetime | None = None
    tags: tuple[str, ...] = ()


def read_properties(root: Element | None) -> Properties:
    """Read the properties of a document of Microsoft Office, of an OpenDocument file or of an e-book.

    Args:
        root: The part that holds them; None if there is none.
    """
    if root is None:
        return Properties()
    stated: dict[str, list[str]] = {}
    for element in root.iter():
        name = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if name == "meta" and (named := element.get("property")):
            name = named.partition(":")[2] or named
        text = " ".join((element.text or "").split())
        if text:
            stated.setdefault(name, []).append(text)
    dates = (
        found
        for name in ("modified", "date", "created", "creation-date")
        for text in stated.get(name, ())
        if (found := _read_date(text)) is not None
    )
    keywords = [text for name in ("keywords", "keyword") for text in stated.get(name, ())]
    tags = (tag.strip() for text in keywords for tag in _SEPARATORS.split(text))
    return Properties(
        title=next(iter(stated.get("title", ())), None),
        updated_at=next(dates, None),
        tags=tuple(dict.fromkeys(filter(None, tags))),
    )


def _read_date(text: str) -> datetime | None:
    with suppress(ValueError):  # the property was written by a program, and no one can mend it
        moment = parse_date(text).astimezone(UTC)
        return moment if moment.year >= _DEFAULT_YEARS else None
    return None
