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
from datetime import datetime
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from backstory.base.errors import ReadError
from backstory.base.wording import shorten
from backstory.ingest.documents.dates import parse_date

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
_DRAFT: Final = ("draft", "isDraft")
_SHOWN_IF: Final = ("published", "publish")
_SHOWN: Final = 60
_LETTERS_ONLY: Final = re.compile(r"[\s_-]")
_NULL: Final = "tag:yaml.org,2002:null"
_LANGUAGES: Final = {"---": "YAML", "+++": "TOML"}
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
        self._fields: dict[str, Any] = {}
        for name, value in fields:
            self._fields.setdefault(_plain_name(str(name)), value)

    def text(self, name: str) -> str | None:
        """Return a field as one line; None if the field is absent or blank."""
        texts = self._list(name)
        if len(texts) > 1:
            raise ReadError(f"the field {name} must be one text, and not a list", code="invalid_field")
        return texts[0] if texts else None

    def date(self, *names: str) -> datetime | None:
        """Return the date of the first field that is present and not blank; None if there is none."""
        for name in names:
            if (text := self.text(name)) is not None:
                try:
                    return parse_date(text)
                except ValueError as error:
                    raise ReadError(
                        f"the field {name} {shorten(text, _SHOWN)!r} is not a date; write it as 2025-03-04 or "
                        "2025-03-04T10:00:00+02:00",
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
                stated = parse_date(self.text("published") or "")
        return stated or self.date(*CREATION_FIELDS)

    def is_draft(self) -> bool:
        """Return whether the document is a draft: ``draft: true``, ``published: false``, ``status: draft`` and such."""
        words = {name: (self.text(name) or "").lower() for name in _DRAFT}
        for name in (*_SHOWN_IF, "status"):  # of other tools, whose fields may hold anything
            words[name] = ""
            with suppress(ReadError):
                words[name] = (self.text(name) or "").lower()
        for name in _DRAFT:
            if words[name] and words[name] not in _YES | _NO:
                problem = f"the field {name} must be true or false, not {shorten(words[name], _SHOWN)!r}"
                raise ReadError(problem, code="invalid_field")
        is_draft = any(words[name] in _YES for name in _DRAFT) or words["status"] in ("draft", "unpublished")
        return is_draft or any(words[name] in _NO for name in _SHOWN_IF)

    def list_tags(self) -> tuple[str, ...]:
        """List the tags, each once: a list, or a text with commas, else with spaces between them.

        The ``#`` of Obsidian is left out; a nested tag such as ``house/garden`` is one tag.
        """
        name = "tags" if self._list("tags") else "tag"
        tags = self._list(name)
        if not isinstance(self._fields.get(name), list):
            tags = [tag for text in tags for tag in text.split("," if "," in text else None)]
        return tuple(dict.fromkeys(filter(None, (tag.strip().removeprefix("#").strip() for tag in tags))))

    def _list(self, name: str) -> list[str]:
        """List the texts of a field, each on one line, with � for half a surrogate pair, which no file can hold."""
        value = self._fields.get(_plain_name(name))
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, list | dict) for item in items):
            raise ReadError(f"the field {name} must be a text, or a list of texts", code="invalid_field")
        encoded = (str(item).encode("utf-16", "surrogatepass") for item in items if item is not None)
        return list(filter(None, (" ".join(text.decode("utf-16", "replace").split()) for text in encoded)))


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
        values, place = _parse("JSON", text[: MOST_CHARACTERS + 1])
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
    values = _parse(_LANGUAGES[mark], block)
    values = _read_yaml(values) if mark == "---" else values
    if not isinstance(values, dict | None):
        raise ReadError(
            "the front matter must be lines such as `title: Text`; if it is a part of the text, begin it with a blank "
            "line"
        )
    return Fields((values or {}).items()), body


def _parse(language: str, block: str) -> Any:
    """Parse front matter; what is wrong is said without a word of the file."""
    try:
        if language == "JSON":
            return json.JSONDecoder().raw_decode(block)
        if language == "TOML":
            return tomllib.loads(block)
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False
        return yaml.compose(block)
    except RecursionError as error:
        problem = "the front matter is nested too deeply; make it flat"
        raise ReadError(problem, code="nested_too_deeply") from error
    except (YAMLError, ValueError, OverflowError) as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        line = f"line {mark.line + 2}: " if mark else ""
        raise ReadError(
            f"{line}the front matter is not valid {language}; give every field once, close every quote and bracket, "
            "quote a text that holds a colon, or begin a text that is no front matter with a blank line",
            code=f"invalid_{language.lower()}",
        ) from error


def _read_yaml(root: Node | None) -> Any:
    """Read texts as they are written, so that a title 007 is kept. What aliases repeat is never built."""
    if not isinstance(root, MappingNode):
        return root
    fields = [(key.value, value) for key, value in root.value if isinstance(key, ScalarNode)]
    for name, number in Counter(name for name, _ in fields).items():
        if number > 1:
            raise ReadError(f"the front matter has {name} twice; remove one", code="invalid_yaml")
    return {name: _read_node(value) for name, value in fields}


def _read_node(node: Node) -> Any:
    """Read a text, or a list of texts; an empty dictionary is a mark of anything deeper."""
    if isinstance(node, SequenceNode):
        return [{} if isinstance(item, SequenceNode) else _read_node(item) for item in node.value]
    if not isinstance(node, ScalarNode):
        return {}
    return None if node.tag == _NULL else node.value


def _plain_name(name: str) -> str:
    """Normalize a name, so that ``publish_date``, ``publishDate`` and ``Publish Date`` are equal."""
    return _LETTERS_ONLY.sub("", name).casefold()
