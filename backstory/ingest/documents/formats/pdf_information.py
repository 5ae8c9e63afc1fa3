"""Title and date of a PDF, from what its program wrote into the document information."""

from __future__ import annotations

import re
from datetime import MAXYEAR, UTC, datetime, timedelta, timezone
from typing import Final

FIRST_YEAR: Final = 1993
"""PDF is not older; an earlier year comes from a clock that was never set."""

_MOST_CHARACTERS: Final = 300
_DATE: Final = re.compile(
    r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?\d*\s*([Zz]|([+-])(\d\d)'?(\d\d)?)?.*",
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
    r"(?:untitled|no title|title|none|null|unbenannt|sans titre|sin t[ií]tulo|senza titolo|document|dokument|documento"
    r"|\(?(?:anonymous|unspecified)\)?|unknown|unbekannt|new document|neues dokument"
    r"|presentation|präsentation|powerpoint presentation|slide|folie|scan|scanned document|layout)[ _-]*\d*",
    re.IGNORECASE,
)


def read_title(stated: str | None) -> str | None:
    """Return the title of a document, or None if a program filled the field.

    The name of a file (``x.doc``, ``Microsoft Word - x.doc``), what a program calls any document (``untitled``,
    ``Document1``), a number, and whole paragraphs are no titles.
    """
    title = " ".join("".join(char if char.isprintable() else " " for char in stated or "").split())
    title = _PROGRAM.sub("", title, count=1) if _PROGRAM.match(title) else title
    is_title = (
        any(char.isalpha() for char in title)
        and len(title) <= _MOST_CHARACTERS
        and _FILE_NAME.fullmatch(title) is None
        and _NO_TITLE.fullmatch(title) is None
    )
    return title if is_title else None


def read_date(stated: str) -> datetime | None:
    """Return a date of the document information (``D:20240822125427+02'00'``) in UTC, or None if it is no date.

    Without a time it is midnight. Without a zone it has none. A year without a day, or before PDF existed, is no date.
    """
    found = _DATE.fullmatch(stated.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    hours, minutes = (int(part or 0) for part in found.groups()[8:])
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if found[8] == "-" else 1)
    try:
        moment = datetime(
            year, month, day, hour, minute, min(second, 59), tzinfo=timezone(offset)
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if not FIRST_YEAR <= moment.year < MAXYEAR:  # a zone moves the last day of all beyond what can be written
        return None
    return moment if found[7] else moment.replace(tzinfo=None)
