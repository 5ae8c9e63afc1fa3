"""Front matter: the fields before a text, in YAML (between ``---``), TOML (between ``+++``) or JSON (``{`` to ``}``).

The names of fields are those of different tools: Jekyll, Hugo, Obsidian, Astro and others. Lookup by name ignores case,
spaces, hyphens and underscores.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from backstory.base.errors import ReadError
from backstory.base.wording import shorten
from backstory.ingest.documents.dates import LastChange, parse_date

MOST_CHARACTERS: Final = 1 << 15
"""Maximum length of front matter, which takes far longer to parse than text."""
PUBLICATION_FIELDS: Final = (
    "publishDate", "pubDate", "publishedAt", "publishedOn", "publishedDate", "datePublished",
)  # fmt: skip
CREATION_FIELDS: Final = (
    "date", "created", "createdAt", "createdOn", "createdDate", "dateCreated", "creationDate",
)  # fmt: skip
UPDATE_FIELDS: Final = (
    "updated", "updatedAt", "updatedOn", "updatedDate", "dateUpdated", "lastmod", "lastModified", "lastModifiedAt",
    "lastUpdated", "modified", "modifiedAt", "modifiedDate", "dateModified",
)  # fmt: skip
_YES: Final = frozenset(("true", "yes", "on", "y", "1"))
_NO: Final = frozenset(("false", "no", "off", "n", "0"))
_SHOWN: Final = 60
_LETTERS_ONLY: Final = re.compile(r"[\s_-]")
_NULL: Final = "tag:yaml.org,2002:null"
_ENDS: Final = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE),
}
_YAML_FIELD: Final = re.compile(r"[\w.-]+[ \t]*:(?:\s|$)")
_JSON_START: Final = re.compile(r'\{\s*"|\{[ \t]*\n\s*\}')
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:\n|\Z)")


class Fields:
    """The fields of a file by name; of two names that differ only in spelling, the first."""

    def __init__(self, fields: Iterable[tuple[str, Any]] = ()) -> None:
        self._fields: dict[str, tuple[str, Any]] = {}
        for name, value in fields:
            self._fields.setdefault(_plain_name(name), (name, value))

    def text(self, name: str) -> str | None:
        """Return a field's text as one line; None if the field is absent or blank.

        It raises ``ReadError`` if the field is a list or a group of fields.
        """
        written, value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise ReadError(f"the field {written} must be one text; put it in quotes", code="invalid_field")
        return _join_words(written, value) or None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field's texts without duplicates: the items of a list, or a text split at commas, else at spaces.

        It raises ``ReadError`` if the field has any other content.
        """
        written, value = self._get(name)
        if value is None:
            return ()
        if isinstance(value, str):
            value = value.split(",") if "," in value else value.split()
        if not isinstance(value, list) or not all(item is None or isinstance(item, str) for item in value):
            raise ReadError(
                f"the field {written} must be a list of texts, or one text with commas", code="invalid_field"
            )
        texts = [_join_words(written, item) for item in value if item is not None]
        return tuple(dict.fromkeys(filter(None, texts)))

    def date(self, *names: str) -> datetime | None:
        """Return the date of the first field that is present and not blank; None if there is none.

        It raises ``ReadError`` if the field is not a date, or the day does not exist.
        """
        for name in names:
            text = self.text(name)
            if text is not None:
                try:
                    return parse_date(text)
                except ValueError as error:
                    raise ReadError(
                        f"the field {self._get(name)[0]} {shorten(text, _SHOWN)!r} is not a date; write it as "
                        "2025-03-04 or 2025-03-04T10:00:00+02:00",
                        code="invalid_field",
                    ) from error
        return None

    def find_date(self) -> datetime | None:
        """Return the stated date of publication, else of creation; None if the document states neither.

        Publication precedes ``date``, which in Hugo is the day of writing if a post is published later. ``published``
        counts if it contains a date: in Jekyll it is true or false, in notes on books a year. It raises ``ReadError``
        if the field does not contain a date.
        """
        return self.date(*PUBLICATION_FIELDS) or self._find_published() or self.date(*CREATION_FIELDS)

    def find_change(self) -> LastChange:
        """Return the date of the last change, an upper bound for a document that states no other date.

        It raises ``ReadError`` if the field does not contain a date.
        """
        return LastChange(self.date(*UPDATE_FIELDS))

    def is_draft(self) -> bool:
        """Return whether the document is a draft: ``draft: true``, ``published: false``, ``status: draft`` and such.

        True and false may be any YAML word for them, also in quotes. It raises ``ReadError`` if ``draft`` or
        ``isDraft`` is neither.
        """
        for name in ("draft", "isDraft"):
            written, value = self._get(name)
            answer = _read_flag(value)
            if answer is None and value not in (None, "", []):
                raise ReadError(
                    f"the field {written} must be true or false, not {value!r}", code="invalid_field"
                )
            if answer:
                return True
        if any(_read_flag(self._get(name)[1]) is False for name in ("published", "publish")):
            return True
        return str(self._get("status")[1]).strip().lower() in ("draft", "unpublished")

    def list_tags(self) -> tuple[str, ...]:
        """List the tags, each once, without the ``#`` of Obsidian; a nested tag such as ``house/garden`` is one tag.

        It raises ``ReadError`` if the field has any other content.
        """
        written = self.texts("tags") or self.texts("tag")
        return tuple(dict.fromkeys(tag for text in written if (tag := text.removeprefix("#").strip())))

    def _get(self, name: str) -> tuple[str, Any]:
        return self._fields.get(_plain_name(name), (name, None))

    def _find_published(self) -> datetime | None:
        value = self._get("published")[1]
        with suppress(ValueError):
            return parse_date(value) if isinstance(value, str) else None
        return None


def is_in_drafts(uri: str) -> bool:
    """Return whether a path is in a folder ``_drafts``, where Jekyll keeps drafts."""
    return "_drafts" in PurePosixPath(uri).parts[:-1]


def split_front_matter(text: str) -> tuple[Fields, str]:
    r"""Split the front matter from a text.

    As in Pandoc, a first line ``---`` followed by a blank line is a thematic break. As in Hugo, a JSON object at the
    beginning of a text is front matter. ``text``: a whole file, newlines as ``\n``. It returns the fields and the text
    after them. It raises ``ReadError`` if the front matter is not closed, not valid, or too long.
    """
    first, _, rest = text.partition("\n")
    mark = first.rstrip()
    following = rest.partition("\n")[0]
    try:
        if _JSON_START.match(text):
            return _split_json(text)
        if mark not in _ENDS or (mark == "---" and not following.strip()):
            return Fields(), text
        end = _ENDS[mark].search(rest)
        if end is None:
            if mark == "---" and not _YAML_FIELD.match(following):
                return Fields(), text
            raise ReadError(f"the front matter is not closed; add a line {mark} after it")
        block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
        if len(block) > MOST_CHARACTERS:
            raise ReadError(f"the front matter has more than {MOST_CHARACTERS:,} characters; shorten it")
        return _read_yaml(block) if mark == "---" else _read_toml(block), body
    except RecursionError as error:
        raise ReadError(
            "the front matter is nested too deeply; make it flat", code="nested_too_deeply"
        ) from error


def _read_yaml(block: str) -> Fields:
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(block)
    except (YAMLError, ValueError, OverflowError) as error:
        place = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        problem = error.problem if isinstance(error, MarkedYAMLError) else str(error).partition("\n")[0]
        line = f"line {place.line + 2}: " if place else ""
        raise ReadError(
            f"{line}the front matter is not valid YAML: {problem}; correct it, or quote a text that holds a colon",
            code="invalid_yaml",
        ) from error
    if root is None:
        return Fields()
    if not isinstance(root, MappingNode):
        raise ReadError(
            "the front matter must be lines such as `title: Text`; if it is a part of the text, begin it with a blank "
            "line"
        )
    return Fields(_require_once([(str(key.value), _read_node(value)) for key, value in root.value]).items())


def _require_once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(fields)
    if len(values) < len(fields):
        twice = next(name for name, number in Counter(name for name, _ in fields).items() if number > 1)
        raise ReadError(f"the front matter has {twice} twice; remove one")
    return values


def _read_node(node: Node) -> object:
    """Return a text as it is written, so that a title 007 is kept; a list of texts; or a mark of anything deeper."""
    if isinstance(node, SequenceNode):
        return [{} if isinstance(item, SequenceNode) else _read_node(item) for item in node.value]
    if not isinstance(node, ScalarNode):
        return {}
    return None if node.tag == _NULL else node.value


def _read_toml(block: str) -> Fields:
    try:
        values = tomllib.loads(block)
    except tomllib.TOMLDecodeError as error:
        raise ReadError(
            f"the front matter is not valid TOML (its lines count from the one after +++): {error}; correct it",
            code="invalid_toml",
        ) from error
    except ValueError as error:  # a number with more digits than Python converts
        raise ReadError("the front matter holds a number of too many digits; shorten it") from error
    return Fields((name, _flatten(value)) for name, value in values.items())


def _split_json(text: str) -> tuple[Fields, str]:
    try:
        values, end = json.JSONDecoder(object_pairs_hook=_require_once).raw_decode(
            text[: MOST_CHARACTERS + 1]
        )
    except ReadError:
        raise
    except ValueError as error:
        raise ReadError(
            f"the front matter is not valid JSON: {error}; correct it, or begin a text that is no front matter with a "
            "blank line"
        ) from error
    rest = _REST_OF_LINE.match(text, end)
    if rest is None:
        raise ReadError("text follows the front matter; begin it on a line of its own")
    return Fields((name, _flatten(value)) for name, value in values.items()), text[rest.end() :]


def _flatten(value: object) -> object:
    if isinstance(value, list):
        return [{} if isinstance(item, list | dict) else _flatten(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | dict) else str(value)


def _plain_name(name: str) -> str:
    """Normalize a name, so that ``publish_date``, ``publishDate`` and ``Publish Date`` are equal."""
    return _LETTERS_ONLY.sub("", name).casefold()


def _read_flag(value: object) -> bool | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def _join_words(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ReadError(
            f"the field {name} holds half a surrogate pair; write the character itself", code="invalid_field"
        ) from error
    return " ".join(text.split())
