"""Front matter of text files: YAML between lines of ``---``, or TOML between lines of ``+++``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from backstory.documents.dates import parse_date
from backstory.errors import DocumentError

_NULL = "tag:yaml.org,2002:null"
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOML_END = re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)
_YAML_FIELD = re.compile(r"[\w.-]+[ \t]*:(?:\s|$)")
_TOML_LINE = re.compile(r"\(at line ([0-9]+), ")


@dataclass(frozen=True)
class Field:
    """One field.

    Attributes:
        value: A text as it is written, a list of texts, or None for nothing.
        line: Line of the file, from 1.
    """

    value: Any
    line: int


@dataclass(frozen=True)
class FrontMatter:
    """The fields of a file.

    Attributes:
        uri: What error messages call the file.
        fields: The fields by name.
    """

    uri: str
    fields: Mapping[str, Field]

    def text(self, name: str) -> str | None:
        """Give a field's text in one line; None if it is absent or blank.

        Raises:
            DocumentError: The field is a list or a group of fields.
        """
        field = self.fields.get(name)
        if field is None or field.value is None:
            return None
        if not isinstance(field.value, str):
            raise self._error(field, f"{name} must be one text; put it in quotes")
        return " ".join(self._checked(field, name, field.value).split()) or None

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a field's texts, from a list or from one text with commas, each once.

        Raises:
            DocumentError: The field holds something else.
        """
        field = self.fields.get(name)
        if field is None or field.value is None:
            return ()
        given = field.value.split(",") if isinstance(field.value, str) else field.value
        if not isinstance(given, list) or not all(item is None or isinstance(item, str) for item in given):
            raise self._error(field, f"{name} must be a list of texts, or one text with commas")
        texts = [" ".join(self._checked(field, name, item).split()) for item in given if item is not None]
        return tuple(dict.fromkeys(text for text in texts if text))

    def date(self, name: str) -> datetime | None:
        """Give a field's date in UTC; None if it is absent or blank.

        Raises:
            DocumentError: The field holds something else, or the calendar does not have it.
        """
        text = self.text(name)
        try:
            return None if text is None else parse_date(text)
        except ValueError as error:
            problem = f"{name} {text!r} is not a date; write it as 2025-03-04 or 2025-03-04T10:00:00+02:00"
            raise self._error(self.fields[name], problem) from error

    def _checked(self, field: Field, name: str, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = f"{name} holds half a surrogate pair; write the character itself"
            raise self._error(field, problem) from error
        return text

    def _error(self, field: Field, problem: str) -> DocumentError:
        return DocumentError(f"{self.uri}:{field.line}: {problem}")


def split_front_matter(text: str, uri: str) -> tuple[FrontMatter, str]:
    r"""Take the front matter off a text.

    As in Pandoc, a first line ``---`` that a blank line follows is a thematic break.

    Args:
        text: A whole file, newlines as ``\n``.
        uri: What error messages call it.

    Returns:
        The front matter, without fields if there is none, and the text after it.

    Raises:
        DocumentError: The front matter is not closed, or not valid; the message names the line.
    """
    first, _, rest = text.partition("\n")
    mark = first.rstrip()
    following = rest.partition("\n")[0]
    if mark not in ("---", "+++") or (mark == "---" and not following.strip()):
        return FrontMatter(uri, {}), text
    end = (_YAML_END if mark == "---" else _TOML_END).search(rest)
    if end is None:
        if mark == "---" and not _YAML_FIELD.match(following):
            return FrontMatter(uri, {}), text
        raise DocumentError(f"{uri}:1: the front matter is not closed; add a line {mark} after it")
    block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
    try:
        fields = _read_yaml(block, uri) if mark == "---" else _read_toml(block, uri)
    except RecursionError as error:
        raise DocumentError(f"{uri}:1: the front matter is nested too deeply; make it flat") from error
    return FrontMatter(uri, fields), body


def _read_yaml(block: str, uri: str) -> dict[str, Field]:
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(block)
    except MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        problem = f"{error.problem}; correct it, or quote a text that holds a colon"
        raise DocumentError(f"{uri}:{line + 2}: the front matter is not valid YAML: {problem}") from error
    except (YAMLError, ValueError) as error:
        problem = str(error).partition("\n")[0]
        raise DocumentError(f"{uri}:1: the front matter is not valid YAML: {problem}; correct it") from error
    if root is None:
        return {}
    if not isinstance(root, MappingNode):
        raise DocumentError(
            f"{uri}:2: the front matter must be lines such as `title: Text`; if it is a part of the text, "
            "begin it with a blank line"
        )
    fields: dict[str, Field] = {}
    for key, value in root.value:
        name, line = str(key.value), key.start_mark.line + 2
        if name in fields:
            raise DocumentError(f"{uri}:{line}: the front matter has {name} twice; remove one")
        fields[name] = Field(_plain_node(value), line)
    return fields


def _plain_node(node: Node) -> object:
    """Take texts as they are written, so that a title 007 stays one and a wrong date has its line."""
    if isinstance(node, SequenceNode):
        return [_scalar(item) for item in node.value]
    return _scalar(node)


def _scalar(node: Node) -> object:
    if not isinstance(node, ScalarNode):
        return {}
    return None if node.tag == _NULL else node.value


def _read_toml(block: str, uri: str) -> dict[str, Field]:
    try:
        values = tomllib.loads(block)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_LINE.search(str(error))
        line = int(place[1]) if place else block.count("\n")
        problem = str(error).partition(" (at")[0]
        raise DocumentError(
            f"{uri}:{line + 1}: the front matter is not valid TOML: {problem}; correct it"
        ) from error
    return {name: Field(_plain_value(value), _line_of(name, block)) for name, value in values.items()}


def _plain_value(value: object) -> object:
    if isinstance(value, list):
        return [{} if isinstance(item, list | dict) else _plain_value(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, str | dict) else str(value)


def _line_of(name: str, block: str) -> int:
    found = re.search(rf"^[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*=", block, re.MULTILINE)
    return block[: found.start()].count("\n") + 2 if found else 1
