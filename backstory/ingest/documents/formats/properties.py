"""Title, dates and keywords that programs write into the properties of their files."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from datetime import MAXYEAR, datetime
from typing import Final
from xml.etree.ElementTree import Element

from backstory.ingest.documents.dates import NO_CHANGE, find_last_change, parse_date
from backstory.ingest.documents.parsed_document import ParsedDocument

_FIRST_PDF_YEAR: Final = 1993
"""PDF is not older; an earlier year comes from a clock that was never set."""
_DEFAULT_YEARS: Final = 1981
"""Programs that set no date write 1970 or 1980, where their clocks begin."""
_MOST_CHARACTERS: Final = 300
_PDF_DATE: Final = re.compile(
    r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?\d*\s*([Zz]|[+-]\d\d(?:'?\d\d)?)?.*",
    re.ASCII | re.DOTALL,
)
_PROGRAM: Final = re.compile(
    r"(?:microsoft (?:office )?)?(?:word|powerpoint|excel|publisher) - ", re.IGNORECASE
)
_NO_TITLE: Final = re.compile(
    r"(?:untitled(?: document| page)?|no title|title|none|null|unbenannt|sans titre|sin t[ií]tulo|senza titolo"
    r"|document|dokument|documento|\(?(?:anonymous|unspecified)\)?|unknown|unbekannt|new document|neues dokument"
    r"|presentation|präsentation|powerpoint presentation|slide|folie|scan|scanned document|print preview|layout"
    r")[ _-]*\d*"
    r"|\S.*\.(?:docx?|odt|rtf|pptx?|odp|xlsx?|ods|dvi|tex|indd|qxd|pages|pmd|fm|ps|pdf|html?|txt|md)",
    re.IGNORECASE,
)
_SEPARATORS: Final = re.compile(r"[,;\n]")
_EVENTS: Final = {"modification": "modified", "creation": "created"}


def read_title(stated: str | None) -> str | None:
    """Return the title of a document; None for the name of a file, a number, a paragraph, or ``untitled`` and such."""
    title = " ".join("".join(char if char.isprintable() else " " for char in stated or "").split())
    title = title[found.end() :] if (found := _PROGRAM.match(title)) else title
    is_title = any(map(str.isalpha, title)) and len(title) <= _MOST_CHARACTERS
    return title if is_title and _NO_TITLE.fullmatch(title) is None else None


def read_pdf_date(stated: str) -> datetime | None:
    """Return a date such as ``D:20240822125427+02'00'`` in UTC, or without a zone if it has none; None for others."""
    found = _PDF_DATE.fullmatch(stated.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second, zone = found.groups("")
    time = f"{hour or '00'}:{minute or '00'}:{min(second or '00', '59')}"
    moment = _read_date(f"{year}-{month}-{day} {time} {zone.replace(chr(39), '')}")
    return moment if moment and _FIRST_PDF_YEAR <= moment.year < MAXYEAR else None


def read_properties(root: Element) -> ParsedDocument:
    """Read the properties of a document of Microsoft Office, of an OpenDocument file or of an e-book, without its text.

    A publication, as of a book, is stated in place of a last change.
    """
    stated: defaultdict[str, list[str]] = defaultdict(list)
    for element in root.iter():
        name = element.get("property", element.tag).rpartition(":")[2]
        # Of a book it is its publication, unless EPUB 2 names another event; else the last change.
        if name == "date":
            event = read_attribute(element, "event")
            name = _EVENTS.get(event, "published") if root.tag == "metadata" else "modified"
        if text := " ".join((element.text or "").split()):
            stated[name].append(text)

    def find(*names: str) -> datetime | None:
        return next(filter(None, (_read_date(text) for name in names for text in stated[name])), None)

    published = find("published")
    change = find_last_change(find("created", "creation-date"), find("modified"))
    tags = (tag.strip() for text in stated["keywords"] + stated["keyword"] for tag in _SEPARATORS.split(text))
    return ParsedDocument(
        text="",
        title=read_title("".join(stated["title"][:1])),
        published_at=published,
        change=NO_CHANGE if published else change,
        tags=tuple(dict.fromkeys(filter(None, tags))),
    )


def read_attribute(element: Element, name: str, default: str = "") -> str:
    """Return an attribute by its name without the namespace; of two such ones, that which has a namespace."""
    values = (value for key, value in element.attrib.items() if key.endswith(f"}}{name}"))
    return next(values, element.get(name, default))


def _read_date(text: str) -> datetime | None:
    with suppress(ValueError):  # the property was written by a program, and no one can mend it
        moment = parse_date(text)
        return moment if moment.year >= _DEFAULT_YEARS else None
    return None
