"""Patterns of paths: as in ``.gitignore``, and globs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class Patterns:
    """Patterns as in ``.gitignore``: the last that matches a path decides, and one that begins with ``!`` keeps it.

    Attributes:
        lines: The patterns; blank lines and comments are allowed.
    """

    lines: tuple[str, ...] = ()

    def find(self, path: str) -> tuple[bool, str] | None:
        """Find the pattern that decides on a path.

        Args:
            path: Relative to the folder that the patterns are for, with ``/``; that of a folder ends with one.

        Returns:
            Whether the path matches, and the pattern; None if no pattern says anything of it.
        """
        found = self._spec.check_file(path)
        if found.include is None or found.index is None:
            return None
        return bool(found.include), str(self._spec.patterns[found.index].pattern)

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        return compile_patterns(self.lines)


@lru_cache(maxsize=256)
def compile_patterns(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """Compile patterns.

    Raises:
        ValueError: A line is no pattern.
    """
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error) as error:
            raise ValueError(
                f"{line!r} is not a pattern as in .gitignore, such as *.tmp or drafts/"
            ) from error
    return GitIgnoreSpec.from_lines(lines)


def matches_glob(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether a path matches a glob.

    Args:
        parts: The names in the path.
        pattern: Names with ``*``, ``?`` and ``[]``; ``**`` stands for any number of folders.
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        rest = pattern[1:] or ("*",)
        return any(matches_glob(parts[count:], rest) for count in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and matches_glob(parts[1:], pattern[1:])
