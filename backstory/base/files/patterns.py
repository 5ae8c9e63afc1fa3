"""Patterns of paths: as in ``.gitignore``, and globs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Final

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_NAME_OF_GROUP: Final = re.compile(r"\(\?P<\w+>")


def compose(name: str) -> str:
    """Write a name with composed letters, in which names compare: macOS stores ``ü`` as two characters."""
    return unicodedata.normalize("NFC", name)


@dataclass(frozen=True)
class Patterns:
    """Patterns as in ``.gitignore``: the last that matches a path decides, and one that begins with ``!`` keeps it."""

    lines: tuple[str, ...] = ()

    def find(self, path: str) -> tuple[bool, str] | None:
        """Find the pattern that decides on a path: whether it matches, and the pattern; None if none does.

        The path is relative to the folder that the patterns are for; that of a folder ends with ``/``.
        """
        path = compose(path)
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
        # A name may stand only once in an expression. Without any pattern, nothing matches.
        expressions = [each.regex.pattern for each in self._spec.patterns if each.regex is not None]
        return re.compile("|".join(_NAME_OF_GROUP.sub("(?:", each) for each in expressions) or r"(?!)")


@lru_cache(maxsize=256)
def compile_patterns(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """Compile patterns, or raise ``ValueError`` with the line that is none."""
    compiled: list[GitIgnoreSpecPattern] = []
    for line in lines:
        try:
            compiled += GitIgnoreSpec.from_lines([compose(line)]).patterns
        except (ValueError, re.error) as error:
            raise ValueError(
                f"{line!r} is not a pattern as in .gitignore, such as *.tmp or drafts/"
            ) from error
    return GitIgnoreSpec(compiled)


def matches_glob(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the names in a path match a glob, whose part ``**`` stands for any number of folders.

    Each name is compared with each part of the pattern at most once.
    """
    wanted = tuple(map(compose, (*pattern, "*") if pattern and pattern[-1] == "**" else pattern))
    matched = _pass_over_folders({0}, wanted)
    for part in map(compose, parts):
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
