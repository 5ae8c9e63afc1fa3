"""Reads ``backstory.yaml``; what is wrong in it is named with its line."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from backstory.errors import SettingsError, WorkspaceError
from backstory.settings import Settings


def read_settings(path: Path) -> Settings:
    """Read and check a settings file, which is never written to.

    Args:
        path: A YAML file; an empty one gives the defaults.

    Returns:
        The settings.

    Raises:
        WorkspaceError: There is no such file.
        SettingsError: The file is not YAML, or holds an unknown or invalid setting; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise WorkspaceError(
            f"{path} is not there; run `backstory init {path.parent}` to make a workspace"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text ({error}); save the file as UTF-8") from error
    try:
        tree = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{path}:{line}: not valid YAML: {error.problem}") from error
    if tree is None:
        return Settings()
    if not isinstance(tree, dict):
        raise SettingsError(
            f"{path}:1: expected groups of settings such as `rag:`, found {type(tree).__name__}"
        )
    try:
        return Settings.model_validate(_plain(tree))
    except ValidationError as error:
        lines = [_describe(path, tree, dict(problem)) for problem in error.errors()]
        raise SettingsError("\n".join(lines)) from None


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node


def _describe(path: Path, tree: Any, problem: dict[str, Any]) -> str:
    location = [part for part in problem["loc"] if part != "tuple"]
    name = ".".join(str(part) for part in location)
    line = _line_of(tree, location)
    if problem["type"] == "extra_forbidden":
        known = _known_names(location[:-1])
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(known)}"
        return f"{path}:{line}: unknown setting {name}{hint}"
    given = "" if isinstance(problem["input"], dict) else f" (found {problem['input']!r})"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{path}:{line}: {name}: {message}{given}"


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


def _known_names(location: list[Any]) -> list[str]:
    model: Any = Settings
    for part in location:
        model = model.model_fields[str(part)].annotation
    return list(model.model_fields)
