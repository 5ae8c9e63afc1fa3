"""How deeply a YAML text can be nested, told before it is parsed: the parser's time grows with the square of it."""

from __future__ import annotations

import re
from typing import Final

_BRACKET: Final = re.compile(r"[\[{]|[]}]")
_INDICATORS: Final = re.compile(r"[ \t]*((?:[-?:][ \t]+)*)")


def find_depth(text: str) -> int:
    """Give an upper bound of the levels that lists and groups of a YAML text are nested.

    Brackets in texts and comments count, too, which matters only where dozens of them are never closed.

    Args:
        text: YAML.

    Returns:
        Most brackets that are open at once, or most levels that the lines open one below the other, whichever is
        more.
    """
    depth = most = 0
    for bracket in _BRACKET.finditer(text):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        most = max(most, depth)
    indents: list[int] = []
    for line in text.splitlines():
        found = _INDICATORS.match(line)
        if found is None or not line.strip():
            continue
        while indents and indents[-1] >= found.start(1):
            indents.pop()
        indents += [found.start(1)] * (1 + len(found[1].split()))
        most = max(most, len(indents))
    return most
