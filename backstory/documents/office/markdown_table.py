"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as a table whose header is the first row.

    Args:
        rows: The cells, in rows of any length.

    Returns:
        The table; empty if no cell has text.
    """
    width = max(map(len, rows), default=0)
    if not any(cell.strip() for row in rows for cell in row):
        return ""
    lines = [_write_row([*row, *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])


def _write_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
