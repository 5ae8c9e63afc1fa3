"""Splitting a text file into front matter and text, and parsing the fields.

YAML is enclosed in lines of ``---``, TOML in lines of ``+++``, JSON in ``{`` and ``}``.
"""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from backstory.base.errors import ReadError
from backstory.ingest.documents.metadata.front_matter import Field, FrontMatter, collect_fields
from backstory.ingest.documents.metadata.yaml_depth import find_depth

_MOST_LEVELS = 50
_NULL = "tag:yaml.org,2002:null"
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOML_END = re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)
_YAML_FIELD = re.compile(r"[\w.-]+[ \t]*:(?:\s|$)")
_TOML_LINE = re.compile(r"\(at line ([0-9]+), ")
_JSON_START = re.compile(r'\{\s*"|\{[ \t]*\n\s*\}')
_REST_OF_LINE = re.compile(r"[ \t]*(?:\n|\Z)")


def split_front_matter(text: str, uri: str) -> tuple[FrontMatter, str]:
    r"""Split the front matter from a text.

    As in Pandoc, a first line ``---`` followed by a blank line is a thematic break. As in Hugo, a JSON object at the
    beginning of a text is front matter.

    ``text``: a whole file, newlines as ``\n``. It returns the front matter, without fields if there is none, and the
    text after it. It raises ``ReadError`` if the front matter is not closed, or not valid; the message names the line.
    """
    first, _, rest = text.partition("\n")
    mark = first.rstrip()
    following = rest.partition("\n")[0]
    try:
        if _JSON_START.match(text):
            return _split_json(text, uri)
        if mark not in ("---", "+++") or (mark == "---" and not following.strip()):
            return FrontMatter(uri, {}), text
        end = (_YAML_END if mark == "---" else _TOML_END).search(rest)
        if end is None:
            if mark == "---" and not _YAML_FIELD.match(following):
                return FrontMatter(uri, {}), text
            raise ReadError(f"{uri}:1: the front matter is not closed; add a line {mark} after it")
        block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
        fields = _read_yaml(block, uri) if mark == "---" else _read_toml(block, uri)
    except RecursionError as error:
        raise _too_deep(uri) from error
    return collect_fields(uri, fields), body


def _too_deep(uri: str) -> ReadError:
    return ReadError(
        f"{uri}:1: the front matter is nested too deeply; make it flat", code="nested_too_deeply"
    )


def _read_yaml(block: str, uri: str) -> list[Field]:
    if find_depth(block) > _MOST_LEVELS:
        raise _too_deep(uri)
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(block)
    except MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        problem = f"{error.problem}; correct it, or quote a text that holds a colon"
        raise ReadError(
            f"{uri}:{line + 2}: the front matter is not valid YAML: {problem}", code="invalid_yaml"
        ) from error
    except (YAMLError, ValueError, OverflowError) as error:
        problem = str(error).partition("\n")[0]
        raise ReadError(
            f"{uri}:1: the front matter is not valid YAML: {problem}; correct it", code="invalid_yaml"
        ) from error
    if root is None:
        return []
    if not isinstance(root, MappingNode):
        raise ReadError(
            f"{uri}:2: the front matter must be lines such as `title: Text`; if it is a part of the text, "
            "begin it with a blank line"
        )
    fields: dict[str, Field] = {}
    for key, value in root.value:
        name, line = str(key.value), key.start_mark.line + 2
        if name in fields:
            raise ReadError(f"{uri}:{line}: the front matter has {name} twice; remove one")
        fields[name] = Field(name, _plain_node(value), line)
    return list(fields.values())


def _plain_node(node: Node) -> object:
    """Convert a YAML node with its scalars as written, so that a title 007 is kept and a wrong date has its line."""
    if isinstance(node, SequenceNode):
        return [_scalar(item) for item in node.value]
    return _scalar(node)


def _scalar(node: Node) -> object:
    if not isinstance(node, ScalarNode):
        return {}
    return None if node.tag == _NULL else node.value


def _read_toml(block: str, uri: str) -> list[Field]:
    try:
        values = tomllib.loads(block)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_LINE.search(str(error))
        line = int(place[1]) if place else block.count("\n")
        problem = str(error).partition(" (at")[0]
        raise ReadError(
            f"{uri}:{line + 1}: the front matter is not valid TOML: {problem}; correct it",
            code="invalid_toml",
        ) from error
    except ValueError as error:  # a number with more digits than Python converts
        raise ReadError(
            f"{uri}:1: the front matter holds a number of too many digits; shorten it", code="invalid_toml"
        ) from error
    return [
        Field(name, _plain_value(value), _line_of(rf"^[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*=", block) + 1)
        for name, value in values.items()
    ]


def _split_json(text: str, uri: str) -> tuple[FrontMatter, str]:
    names: list[str] = []

    def read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names[:] = [name for name, _ in pairs]  # the outermost object is parsed last
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=read_object, parse_constant=_refuse_constant)
    try:
        values, end = decoder.raw_decode(text)
    except ValueError as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise ReadError(
            f"{uri}:{line}: the front matter is not valid JSON: {problem}; correct it, or begin a text that is no "
            "front matter with a blank line"
        ) from error
    rest = _REST_OF_LINE.match(text, end)
    if rest is None:
        line = text.count("\n", 0, end) + 1
        raise ReadError(f"{uri}:{line}: text follows the front matter; begin it on a line of its own")
    block = text[:end]
    fields = [
        Field(
            name,
            _plain_value(value),
            _line_of(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:", block),
        )
        for name, value in values.items()
    ]
    twice = next((field for field in fields if names.count(field.name) > 1), None)
    if twice is not None:
        raise ReadError(f"{uri}:{twice.line}: the front matter has {twice.name} twice; remove one")
    return collect_fields(uri, fields), text[rest.end() :]


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _plain_value(value: object) -> object:
    if isinstance(value, list):
        return [{} if isinstance(item, list | dict) else _plain_value(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | dict) else str(value)


def _line_of(pattern: str, block: str) -> int:
    """Return the first line of a block that matches a pattern, from 1; 1 if there is no match."""
    found = re.search(pattern, block, re.MULTILINE)
    return block[: found.start()].count("\n") + 1 if found else 1
