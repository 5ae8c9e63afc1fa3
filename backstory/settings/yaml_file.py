"""Reads ``backstory.yaml``, and reports each error with its line."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from backstory.base.errors import SettingsError, WorkspaceError
from backstory.settings.allowed_values import describe_allowed, known_names, show_value
from backstory.settings.groups import MisplacedSettingsError
from backstory.settings.models import SECRET_SETTINGS, Settings
from backstory.settings.yaml_depth import find_depth

_MOST_LEVELS = 50
_MOST_VALUES = 10_000


def read_settings(path: Path) -> Settings:
    """Read and check a settings file, which is never written to.

    Args:
        path: A YAML file; an empty one gives the defaults.

    Raises:
        WorkspaceError: There is no such file, or it cannot be read.
        SettingsError: The file is not YAML, or holds an unknown or invalid setting. The error names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise WorkspaceError(
            f"{path} does not exist; run `backstory init {path.parent}` to make a workspace",
            code="no_workspace",
            path=path,
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path}: not UTF-8 text ({error}); save the file as UTF-8", code="not_utf8", path=path
        ) from error
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be read ({error.strerror}); make it readable", code="unreadable_file", path=path
        ) from error
    if find_depth(text) > _MOST_LEVELS:
        raise SettingsError(
            f"{path}: nested too deeply; write every value out", code="nested_too_deeply", path=path
        )
    try:
        tree = YAML(typ="rt").load(text)
        is_crowded = _count_values(tree, {}) > _MOST_VALUES
        plain = None if is_crowded else _plain(tree)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = str(error.problem).partition("\n")[0]
        raise SettingsError(
            f"{path}:{line}: not valid YAML: {problem}; write lines such as `rag:` and, indented by two blanks, "
            "`top_k: 5`",
            code="invalid_yaml",
            path=path,
            line=line,
        ) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SettingsError(
            f"{path}:{line}: not valid YAML: a control character (U+{ord(text[error.position]):04X}); remove it",
            code="invalid_yaml",
            path=path,
            line=line,
        ) from error
    # ruamel.yaml raises AttributeError for a group that is merged into itself.
    except (YAMLError, ValueError, OverflowError, AttributeError) as error:
        problem = str(error).partition("\n")[0]
        raise SettingsError(
            f"{path}: not valid YAML: {problem}; correct it, or remove it", code="invalid_yaml", path=path
        ) from error
    except RecursionError as error:
        raise SettingsError(
            f"{path}: a value is nested too deeply, or contains itself; write every value out",
            code="nested_too_deeply",
            path=path,
        ) from error
    if is_crowded:
        raise SettingsError(
            f"{path}: aliases such as `*a` expand to more than {_MOST_VALUES:,} values; write the values out",
            code="too_many_values",
            path=path,
        )
    if tree is None:
        return Settings()
    if not isinstance(tree, dict):
        raise SettingsError(
            f"{path}:1: expected groups of settings such as `rag:`, found {show_value(plain)}",
            code="invalid_setting",
            path=path,
            line=1,
        )
    try:
        return Settings.model_validate(plain)
    except ValidationError as error:
        described = [found for problem in error.errors() for found in _describe_all(tree, dict(problem))]
        problems = sorted(set(described), key=lambda problem: (problem.line, problem.what))
        first = problems[0]
        raise SettingsError(
            "\n".join(f"{path}:{problem.line}: {problem.what}" for problem in problems),
            code="unknown_setting" if first.is_unknown else "invalid_setting",
            path=path,
            line=first.line,
            setting=first.setting,
            settings=tuple(problem.setting for problem in problems),
        ) from None


class _Problem(NamedTuple):
    """A bad setting: its line, its name with those of its groups, and a sentence about it."""

    line: int
    setting: str
    what: str
    is_unknown: bool = False


def _count_values(node: Any, counted: dict[int, int]) -> int:
    """Count the values below a node, those of an alias once for every use, without writing the aliases out."""
    if not isinstance(node, dict | list):
        return 1
    if id(node) not in counted:
        below = node.values() if isinstance(node, dict) else node
        counted[id(node)] = 1 + sum(_count_values(value, counted) for value in below)
    return counted[id(node)]


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node


def _describe_all(tree: Any, problem: dict[str, Any]) -> list[_Problem]:
    """Describe each setting in a problem that pydantic found."""
    cause = problem.get("ctx", {}).get("error")
    if not isinstance(cause, MisplacedSettingsError):
        return [_describe(tree, problem)]
    return [
        _Problem(_line_of(tree, location), name, f"{name}: {what}")
        for below, what in cause.problems
        for location in [[*problem["loc"], *below]]
        for name in [".".join(map(str, location))]
    ]


def _describe(tree: Any, problem: dict[str, Any]) -> _Problem:
    """Describe a problem that pydantic found by a sentence that replaces its message."""
    location = [part for part in problem["loc"] if part != "tuple"]
    name = ".".join(str(part) for part in location)
    line = _line_of(tree, location)
    if problem["type"] == "extra_forbidden":
        known = known_names(location[:-1])
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(known)}"
        return _Problem(line, name, f"unknown setting {name}{hint}", is_unknown=True)
    if name in SECRET_SETTINGS:
        what = f"{name} is no address that begins with https:// or http:// (its value is not shown)"
        return _Problem(line, name, what)
    if problem["type"] == "value_error":  # raised by our validators, whose message is already plain
        cause = problem["ctx"]["error"]
        is_hidden = isinstance(problem["input"], dict) or getattr(cause, "code", "") == "secret_in_address"
        given = "" if is_hidden else f" (found {show_value(problem['input'])})"
        return _Problem(line, name, f"{name}: {cause}{given}")
    what = f"{name} is {show_value(problem['input'])}, but must be {describe_allowed(location)}"
    return _Problem(line, name, what)


def _line_of(tree: Any, location: list[Any]) -> int:
    line = 1
    node = tree
    for part in location:
        if isinstance(node, dict) and part in node:
            line = node.lc.key(part)[0] + 1  # type: ignore[attr-defined]
            node = node[part]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            line = node.lc.item(part)[0] + 1  # type: ignore[attr-defined]
            node = node[part]
        else:
            break
    return line
