"""The colour and pattern of each kept document.

The hues are those of Okabe and Ito (2002), which people with any common colour blindness can tell apart. There are
seven. Further documents repeat them under a pattern, so that colour and pattern together distinguish 21 documents. The
rank, written wherever there is room, distinguishes any number.
"""

from __future__ import annotations

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
PATTERNS = 3

INK_ON_HUE = ("#ffffff", "#000000", "#000000", "#000000", "#000000", "#000000", "#000000")
"""Text colour on each hue, contrast 4.5 or more (WCAG 2.2 AA)."""


def name_paint(document: int | None) -> str:
    """Return the CSS classes of a kept document by its position; for None, those of parts without a document."""
    if document is None:
        return "unserved"
    return f"hue-{document % len(HUES)} pattern-{document // len(HUES) % PATTERNS}"
