"""Lines of a table that were left out or read with doubt: how many, the first of them, and why."""

from __future__ import annotations


class UnreadLines:
    """Counts lines by what is wrong with them, and remembers the first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def add(self, line: int, problem: str) -> None:
        """Note a line."""
        first, count = self._found.get(problem, (line, 0))
        self._found[problem] = (first, count + 1)

    def describe(self) -> str | None:
        """Describe what was found, such as ``lines left out because they are not JSON: 2, the first is line 7``."""
        parts = [
            f"lines {problem}: {count:,}, the first is line {first:,}"
            for problem, (first, count) in self._found.items()
        ]
        return "; ".join(parts) or None
