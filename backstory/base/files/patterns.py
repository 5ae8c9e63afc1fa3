"""Patterns of paths: as in ``.gitignore``, and globs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Final

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_NAME_OF_GROUP: Final = re.compile(r"\(\?P<\w+>")


@dataclass(frozen=True)
class Patterns:
    """Patterns as in ``.gitignore``: the last that matches a path decides, and one that begins with ``!`` keeps it.

    Attributes:
        lines: The patterns; blank lines and comments are allowed.
    """

    lines: tuple[str, ...] = ()

    @cached_property
    def keeps_any(self) -> bool:
        """Whether any pattern keeps what it matches."""
        return any(line.startswith("!") for line in self.lines)

    def find(self, path: str) -> tuple[bool, str] | None:
        """Find the pattern that decides on a path.

        Args:
            path: Relative to the folder that the patterns are for, with ``/``; that of a folder ends with one.

        Returns:
            Whether the path matches, and the pattern; None if no pattern says anything of it.
        """
        if self._any.search(path.removeprefix("/" if path.startswith("/") else "./")) is None:
            return None
        found = self._spec.check_file(path)
        if found.include is None or found.index is None:
            return None
        return bool(found.include), str(self._spec.patterns[found.index].pattern)

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        return compile_patterns(self.lines)

    @cached_property
    def _any(self) -> re.Pattern[str]:
        """What any pattern matches, so that most paths are compared once and not with every pattern."""
        return _join(self.lines)


@lru_cache(maxsize=256)
def compile_patterns(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """Compile patterns.

    Raises:
        ValueError: A line is no pattern.
    """
    compiled: list[GitIgnoreSpecPattern] = []
    for line in lines:
        try:
            compiled += GitIgnoreSpec.from_lines([line]).patterns
        except (ValueError, re.error) as error:
            raise ValueError(
                f"{line!r} is not a pattern as in .gitignore, such as *.tmp or drafts/"
            ) from error
    return GitIgnoreSpec(compiled)


@lru_cache(maxsize=256)
def _join(lines: tuple[str, ...]) -> re.Pattern[str]:
    try:
        expressions = [GitIgnoreSpecPattern.pattern_to_regex(line)[0] for line in lines if line]
        # A name may stand only once in an expression. Without any pattern, nothing matches.
        return re.compile(
            "|".join(_NAME_OF_GROUP.sub("(?:", each) for each in expressions if each) or r"(?!)"
        )
    except (ValueError, re.error):
        compile_patterns(lines)  # names the line
        raise


def matches_glob(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path matches a glob, by at most one comparison of each name with each part of the pattern.

    Args:
        parts: The names in the path.
        pattern: Names with ``*``, ``?`` and ``[]``; ``**`` stands for any number of folders.
    """
    wanted = (*pattern, "*") if pattern and pattern[-1] == "**" else tuple(pattern)
    matched = _pass_over_folders({0}, wanted)
    for part in parts:
        further = {
            count if wanted[count] == "**" else count + 1
            for count in matched - {len(wanted)}
            if wanted[count] == "**" or fnmatchcase(part, wanted[count])
        }
        matched = _pass_over_folders(further, wanted)
    return len(wanted) in matched


def _pass_over_folders(matched: set[int], pattern: Sequence[str]) -> set[int]:
    """Add to the lengths of beginnings of a pattern those that are reached where ``**`` stands for no folder."""
    reached = set(matched)
    for count, part in enumerate(pattern):
        if part == "**" and count in reached:
            reached.add(count + 1)
    return reached
