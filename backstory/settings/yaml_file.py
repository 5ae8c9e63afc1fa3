"""Reads ``backstory.yaml``, and reports each error with its line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from backstory.base.errors import SettingsError, WorkspaceError
from backstory.settings.groups import SERVICE_FIELDS, ServiceSettings, SettingsGroup
from backstory.settings.models import Settings

_UNKNOWN: Final = "extra_forbidden"
_MESSAGES: Final = {
    "model_type": "Input should be a group of settings, one to a line below it",
    "tuple_type": "Input should be a list in brackets, such as [one, two]",
    "dict_type": "Input should be names of your own, each with a value",
}
"""What is said in place of the types of Python."""


def read_settings(path: Path) -> Settings:
    """Read and check a settings file; an empty one gives the defaults.

    A ``WorkspaceError`` means that there is no such file, or that it cannot be read. A ``SettingsError`` names the line
    of an unknown or invalid setting.
    """
    tree = _parse(path)
    try:
        return Settings() if tree is None else Settings.model_validate(_make_plain(tree))
    except ValidationError as error:
        problems = sorted({_describe(tree, problem) for problem in error.errors()})
        is_unknown = all(problem["type"] == _UNKNOWN for problem in error.errors())
        raise SettingsError(
            "\n".join(
                f"{path}:{line}: {name}{': ' if name else ''}{message}" for line, name, message in problems
            ),
            code="unknown_setting" if is_unknown else "invalid_setting",
        ) from None


def _parse(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return YAML(typ="rt").load(text)
    except FileNotFoundError as error:
        raise WorkspaceError(
            f"{path} does not exist; run `backstory init {path.parent}` to make a workspace",
            code="no_workspace",
        ) from error
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be read ({error.strerror}); make it readable", code="unreadable_file"
        ) from error
    # ruamel.yaml raises AttributeError for a group that is merged into itself.
    except (YAMLError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        line: int | None = None
        problem = str(error).partition("\n")[0]
        if isinstance(error, MarkedYAMLError) and error.problem_mark:
            line, problem = error.problem_mark.line + 1, str(error.problem).partition("\n")[0]
        elif isinstance(error, ReaderError):
            line = text.count("\n", 0, error.position) + 1
            problem = f"a control character (U+{ord(text[error.position]):04X})"
        raise SettingsError(
            f"{path}{'' if line is None else f':{line}'}: not valid YAML in UTF-8: {problem}; write "
            "lines such as `rag:` and, indented by two blanks, `top_k: 5`",
            code="invalid_yaml",
        ) from error


def _make_plain(node: Any) -> Any:
    """Return a tree with names of settings as texts."""
    if isinstance(node, dict):
        return {str(key): _make_plain(value) for key, value in node.items()}
    return [_make_plain(value) for value in node] if isinstance(node, list) else node


def _describe(tree: Any, problem: ErrorDetails) -> tuple[int, str, str]:
    """Return the line, the name and the message of a problem that pydantic found."""
    location = problem["loc"]
    message = _MESSAGES.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    if problem["type"] == _UNKNOWN:
        known = _list_names(location[:-1])
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        message = "unknown setting; " + (
            f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        )
    return _find_line(tree, location), ".".join(map(str, location)), message


def _list_names(location: Sequence[int | str]) -> list[str]:
    """List the names of the settings in a group."""
    group: type[SettingsGroup] = Settings
    for part in location:
        if part in group.model_fields:
            group = _find_group(group.model_fields[str(part)].annotation) or group
    elsewhere = SERVICE_FIELDS if issubclass(group, ServiceSettings) else ()
    return [name for name in group.model_fields if name not in elsewhere]


def _find_group(annotation: Any) -> type[SettingsGroup] | None:
    if isinstance(annotation, type) and issubclass(annotation, SettingsGroup):
        return annotation
    return next((found for each in get_args(annotation) if (found := _find_group(each))), None)


def _find_line(tree: Any, location: Sequence[int | str]) -> int:
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
