"""The fields of a document's front matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backstory.base.errors import ReadError
from backstory.base.wording import shorten
from backstory.ingest.documents.metadata.dates import parse_date

_YES = frozenset(("true", "yes", "on", "y", "1"))
_NO = frozenset(("false", "no", "off", "n", "0"))
_SHOWN = 60
_DATE_FORMS = "2025-03-04 or 2025-03-04T10:00:00+02:00"
_LETTERS_ONLY = re.compile(r"[\s_-]")


@dataclass(frozen=True)
class Field:
    """One field.

    Attributes:
        name: Name as written in the file.
        value: A text as written, a list of texts, or None for an empty field.
        line: Line number in the file, from 1.
    """

    name: str
    value: Any
    line: int


@dataclass(frozen=True)
class FrontMatter:
    """The fields of a file. Lookup by name ignores case, spaces, hyphens and underscores.

    Attributes:
        uri: Name of the file in error messages.
        fields: The fields by :func:`plain_name`.
    """

    uri: str
    fields: Mapping[str, Field]

    def text(self, name: str) -> str | None:
        """Return a field's text as one line; None if the field is absent or blank.

        It raises ``ReadError`` if the field is a list or a group of fields.
        """
        field = self.fields.get(plain_name(name))
        if field is None or field.value is None:
            return None
        if not isinstance(field.value, str):
            raise self._error(field, f"{field.name} must be one text; put it in quotes")
        return " ".join(self._checked(field, field.value).split()) or None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field's texts without duplicates: the items of a list, or a text split at commas, else at spaces.

        It raises ``ReadError`` if the field has any other content.
        """
        field = self.fields.get(plain_name(name))
        if field is None or field.value is None:
            return ()
        value = field.value
        if isinstance(value, str):
            value = value.split(",") if "," in value else value.split()
        if not isinstance(value, list) or not all(item is None or isinstance(item, str) for item in value):
            raise self._error(field, f"{field.name} must be a list of texts, or one text with commas")
        texts = [" ".join(self._checked(field, item).split()) for item in value if item is not None]
        return tuple(dict.fromkeys(text for text in texts if text))

    def date(self, *names: str) -> datetime | None:
        """Return the date, in UTC, of the first field that is present and not blank; None if there is none.

        It raises ``ReadError`` if the field is not a date, or the day does not exist.
        """
        for name in names:
            text = self.text(name)
            if text is not None:
                field = self.fields[plain_name(name)]
                try:
                    return parse_date(text)
                except ValueError as error:
                    problem = (
                        f"{field.name} {shorten(text, _SHOWN)!r} is not a date; write it as {_DATE_FORMS}"
                    )
                    raise self._error(field, problem) from error
        return None

    def flag(self, name: str) -> bool | None:
        """Return a field as true or false, from any YAML word for it; None if it is absent, blank or neither."""
        field = self.fields.get(plain_name(name))
        word = field.value.strip().lower() if field is not None and isinstance(field.value, str) else ""
        return True if word in _YES else False if word in _NO else None

    def strict_flag(self, name: str) -> bool | None:
        """Return a field as true or false; None if it is absent or blank.

        It raises ``ReadError`` if the field is neither true nor false.
        """
        answer, field = self.flag(name), self.fields.get(plain_name(name))
        if answer is None and field is not None and field.value not in (None, "", []):
            raise self._error(field, f"{field.name} must be true or false, not {field.value!r}")
        return answer

    def _checked(self, field: Field, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = f"{field.name} holds half a surrogate pair; write the character itself"
            raise self._error(field, problem) from error
        return text

    def _error(self, field: Field, problem: str) -> ReadError:
        return ReadError(f"{self.uri}:{field.line}: {problem}", code="invalid_field")


def plain_name(name: str) -> str:
    """Normalize a field's name, so that ``publish_date``, ``publishDate`` and ``Publish Date`` are equal."""
    return _LETTERS_ONLY.sub("", name).casefold()


def collect_fields(uri: str, fields: Iterable[Field]) -> FrontMatter:
    """Build the front matter of a file; if names differ only in spelling, the first field is used."""
    by_name: dict[str, Field] = {}
    for field in fields:
        by_name.setdefault(plain_name(field.name), field)
    return FrontMatter(uri, by_name)
