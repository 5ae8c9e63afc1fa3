"""Front matter: the fields before a text, in YAML (between ``---``), TOML (between ``+++``) or JSON (``{`` to ``}``).

The names of fields are those of different tools: Jekyll, Hugo, Obsidian, Astro and others. Lookup by name ignores case,
spaces, hyphens and underscores.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
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


class Fields:
    """The fields of a file by name; of two names that differ only in spelling, the first.

    A field that holds something else than is asked for raises ``ReadError``.
    """

    def __init__(self, fields: Iterable[tuple[str, Any]] = ()) -> None:
        self._fields: dict[str, tuple[str, Any]] = {}
        for name, value in fields:
            self._fields.setdefault(_plain_name(name), (name, value))

    def text(self, name: str) -> str | None:
        """Return a field's text as one line; None if the field is absent or blank."""
        written, value = self._get(name)
        if isinstance(value, list | dict):
            raise ReadError(f"the field {written} must be one text; put it in quotes", code="invalid_field")
        return _join_words(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field's texts without duplicates: the items of a list, or a text split at commas, else at spaces."""
        written, value = self._get(name)
        if value is not None and not isinstance(value, list | dict):
            value = str(value).split("," if "," in str(value) else None)
        items = [] if value is None else value
        if not isinstance(items, list) or any(isinstance(item, list | dict) for item in items):
            raise ReadError(
                f"the field {written} must be a list of texts, or one text with commas", code="invalid_field"
            )
        return tuple(dict.fromkeys(filter(None, map(_join_words, items))))

    def date(self, *names: str) -> datetime | None:
        """Return the date of the first field that is present and not blank; None if there is none."""
        for name in names:
            if (text := self.text(name)) is not None:
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
        counts if it contains a date: in Jekyll it is true or false, in notes on books a year.
        """
        stated = self.date(*PUBLICATION_FIELDS)
        if stated is None:
            with suppress(ValueError):
                stated = parse_date(str(self._get("published")[1]))
        return stated or self.date(*CREATION_FIELDS)

    def find_change(self) -> LastChange:
        """Return the date of the last change, an upper bound for a document that states no other date."""
        return LastChange(self.date(*UPDATE_FIELDS))

    def is_draft(self) -> bool:
        """Return whether the document is a draft: ``draft: true``, ``published: false``, ``status: draft`` and such."""
        for name in ("draft", "isDraft"):
            written, value = self._get(name)
            if value not in (None, "", []) and self._word(name) not in _YES | _NO:
                problem = f"the field {written} must be true or false, not {value!r}"
                raise ReadError(problem, code="invalid_field")
        return (
            any(self._word(name) in _YES for name in ("draft", "isDraft"))
            or any(self._word(name) in _NO for name in ("published", "publish"))
            or self._word("status") in ("draft", "unpublished")
        )

    def list_tags(self) -> tuple[str, ...]:
        """List the tags, each once, without the ``#`` of Obsidian; a nested tag such as ``house/garden`` is one tag."""
        written = self.texts("tags") or self.texts("tag")
        return tuple(dict.fromkeys(tag for text in written if (tag := text.removeprefix("#").strip())))

    def _get(self, name: str) -> tuple[str, Any]:
        return self._fields.get(_plain_name(name), (name, None))

    def _word(self, name: str) -> str:
        value = self._get(name)[1]
        return "" if isinstance(value, list | dict) else (_join_words(value) or "").lower()


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
    if _JSON_START.match(text):
        with _naming_problems("JSON"):
            values, place = json.JSONDecoder().raw_decode(text[: MOST_CHARACTERS + 1])
        behind, _, body = text[place:].partition("\n")
        if behind.strip():
            raise ReadError("text follows the front matter; begin it on a line of its own")
        return Fields(values.items()), body
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
    if mark == "---":
        return Fields(_list_yaml(block)), body
    with _naming_problems("TOML"):
        return Fields(tomllib.loads(f"\n{block}").items()), body


@contextmanager
def _naming_problems(language: str) -> Iterator[None]:
    """Raise ``ReadError`` for what the parsers raise; what is wrong is named without a word of the file."""
    try:
        yield
    except RecursionError as error:
        problem = "the front matter is nested too deeply; make it flat"
        raise ReadError(problem, code="nested_too_deeply") from error
    except (YAMLError, ValueError, OverflowError) as error:
        place = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        problem = error.problem if isinstance(error, MarkedYAMLError) else str(error).partition("\n")[0]
        line = f"line {place.line + 1}: " if place else ""
        raise ReadError(
            f"{line}the front matter is not valid {language}: {problem}; correct it, quote a text that holds a colon, "
            "or begin a text that is no front matter with a blank line",
            code=f"invalid_{language.lower()}",
        ) from error


def _list_yaml(block: str) -> list[tuple[str, Any]]:
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    with _naming_problems("YAML"):
        root = yaml.compose(f"\n{block}")
    if root is None:
        return []
    if not isinstance(root, MappingNode):
        raise ReadError(
            "the front matter must be lines such as `title: Text`; if it is a part of the text, begin it with a blank "
            "line"
        )
    names = Counter(key.value for key, _ in root.value if isinstance(key, ScalarNode))
    if twice := [name for name, number in names.items() if number > 1]:
        raise ReadError(f"the front matter has {twice[0]} twice; remove one")
    return [(key.value, _read_node(value)) for key, value in root.value if isinstance(key, ScalarNode)]


def _read_node(node: Node) -> object:
    """Return a text as it is written, so that a title 007 is kept; a list of texts; or a mark of anything deeper."""
    if isinstance(node, SequenceNode):
        return [{} if isinstance(item, SequenceNode) else _read_node(item) for item in node.value]
    if not isinstance(node, ScalarNode):
        return {}
    return None if node.tag == _NULL else node.value


def _plain_name(name: str) -> str:
    """Normalize a name, so that ``publish_date``, ``publishDate`` and ``Publish Date`` are equal."""
    return _LETTERS_ONLY.sub("", name).casefold()


def _join_words(value: object) -> str | None:
    """Write a value on one line, with � for half a surrogate pair, which no file can hold."""
    if value is None:
        return None
    text = str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join(text.split()) or None
