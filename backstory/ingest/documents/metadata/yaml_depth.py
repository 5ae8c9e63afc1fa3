"""The depth of a YAML text, which is measured before it is parsed: the parser calls itself for each level."""

from __future__ import annotations

import re
from typing import Final

_BRACKET: Final = re.compile(r"[\[{]|[]}]")


_INDICATORS: Final = re.compile(r"[ \t]*((?:[-?:][ \t]+)*)")


def find_depth(text: str) -> int:
    """Return an upper bound of the nesting depth of lists and groups in a YAML text.

    Brackets in strings and comments count too, which matters only if dozens of them are never closed.

    It returns maximum number of brackets open at once or of levels opened by indentation, whichever is greater.
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
