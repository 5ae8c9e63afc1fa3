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

FIRST_PDF_YEAR: Final = 1993
"""PDF is not older; an earlier year comes from a clock that was never set."""
_MOST_CHARACTERS: Final = 300
_PDF_DATE: Final = re.compile(
    r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?\d*\s*([Zz]|[+-]\d\d(?:'?\d\d)?)?.*",
    re.ASCII | re.DOTALL,
)
_PROGRAM: Final = re.compile(
    r"(?:microsoft (?:office )?)?(?:word|powerpoint|excel|publisher) - ", re.IGNORECASE
)

_FILE_NAME: Final = re.compile(
    r"\S.*\.(?:docx?|odt|rtf|pptx?|odp|xlsx?|ods|dvi|tex|indd|qxd|pages|pmd|fm|ps|pdf|html?|txt|md)",
    re.IGNORECASE,
)

_NO_TITLE: Final = re.compile(
    r"(?:untitled(?: document| page)?|no title|title|none|null|unbenannt|sans titre|sin t[ií]tulo|senza titolo"
    r"|document|dokument|documento|\(?(?:anonymous|unspecified)\)?|unknown|unbekannt|new document|neues dokument"
    r"|presentation|präsentation|powerpoint presentation|slide|folie|scan|scanned document|print preview|layout"
    r")[ _-]*\d*",
    re.IGNORECASE,
)


def read_title(stated: str | None) -> str | None:
    """Return the title of a document; None for the name of a file, a number, a paragraph, or ``untitled`` and such."""
    title = " ".join("".join(char if char.isprintable() else " " for char in stated or "").split())
    title = _PROGRAM.sub("", title, count=1) if _PROGRAM.match(title) else title
    is_title = (
        any(char.isalpha() for char in title)
        and len(title) <= _MOST_CHARACTERS
        and _FILE_NAME.fullmatch(title) is None
        and _NO_TITLE.fullmatch(title) is None
    )
    return title if is_title else None


def read_pdf_date(stated: str) -> datetime | None:
    """Return a date such as ``D:20240822125427+02'00'`` in UTC, or without a zone if it has none; None for others."""
    found = _PDF_DATE.fullmatch(stated.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second, zone = found.groups("")
    time = f"{hour or '00'}:{minute or '00'}:{min(second or '00', '59')}"
    moment = _read_date(f"{year}-{month}-{day} {time} {zone.replace(chr(39), '')}")
    return moment if moment and FIRST_PDF_YEAR <= moment.year < MAXYEAR else None


_SEPARATORS: Final = re.compile(r"[,;\n]")
_EVENTS: Final = {"modification": "modified", "creation": "created"}
_DEFAULT_YEARS: Final = 1981
"""Programs that set no date write 1970 or 1980, where their clocks begin."""


def read_properties(root: Element | None) -> ParsedDocument:
    """Read the properties of a document of Microsoft Office, of an OpenDocument file or of an e-book, without its text.

    A publication, as of a book, is stated in place of a last change.
    """
    if root is None:
        return ParsedDocument("")
    is_book = local_name(root.tag) == "metadata"
    stated: defaultdict[str, list[str]] = defaultdict(list)
    for element in root.iter():
        name = local_name(element.tag)
        if name == "meta" and (named := element.get("property")):
            name = named.partition(":")[2] or named
        # Of a book it is its publication, unless EPUB 2 names another event; else the last change.
        if name == "date":
            event = next((value for key, value in element.attrib.items() if local_name(key) == "event"), "")
            name = _EVENTS.get(event, "published") if is_book else "modified"
        if text := " ".join((element.text or "").split()):
            stated[name].append(text)

    def find(*names: str) -> datetime | None:
        return next(filter(None, (_read_date(text) for name in names for text in stated[name])), None)

    published = find("published")
    change = find_last_change(find("created", "creation-date"), find("modified"))
    keywords = [*stated["keywords"], *stated["keyword"]]
    tags = (tag.strip() for text in keywords for tag in _SEPARATORS.split(text))
    return ParsedDocument(
        text="",
        title=read_title("".join(stated["title"][:1])),
        published_at=published,
        change=NO_CHANGE if published else change,
        tags=tuple(dict.fromkeys(filter(None, tags))),
    )


def local_name(name: object) -> str:
    """Return a name without its namespace; empty for a comment, which has none."""
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def _read_date(text: str) -> datetime | None:
    with suppress(ValueError):  # the property was written by a program, and no one can mend it
        moment = parse_date(text)
        return moment if moment.year >= _DEFAULT_YEARS else None
    return None
