"""Wording that messages share: a list of names, a number with its noun, a text that is cut short."""

from __future__ import annotations

from collections.abc import Sequence


def name_some(names: Sequence[str], most: int, *, separator: str = ", ") -> str:
    """Name the first of several things, and count the others: ``a, b and 3 more``.

    Args:
        names: Names of all things, in order.
        most: Most names to write, at least 1.
        separator: Written between two names. One with a semicolon is written before the number of the others, too.
    """
    named = separator.join(names[:most])
    if len(names) <= most:
        return named
    return f"{named}{separator if ';' in separator else ' '}{count_rest(len(names), most)}"


def count_rest(total: int, shown: int, listed_by: str = "") -> str:
    """Count the things that a list leaves out: ``and 3 more``, or ``and 3 more, which --json lists``.

    Args:
        total: How many there are.
        shown: Most that the list shows.
        listed_by: What lists them all; nothing is said of it if empty.

    Returns:
        The words; empty if the list shows all.
    """
    if total <= shown:
        return ""
    return f"and {total - shown:,} more{f', which {listed_by} lists' if listed_by else ''}"


def inflect(number: int, noun: str, plural: str = "") -> str:
    """Return a noun in the form that goes with a number.

    Args:
        number: How many there are.
        noun: The form for one.
        plural: The form for any other number; ``noun`` with an s if empty.
    """
    return noun if number == 1 else plural or f"{noun}s"


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun: ``1 file``, ``2,000 files``.

    Args:
        number: How many there are.
        noun: As for :func:`inflect`.
        plural: As for :func:`inflect`.
    """
    return f"{number:,} {inflect(number, noun, plural)}"


def shorten(text: str, most: int) -> str:
    """Return a text, or its beginning and an ellipsis if it is long.

    Args:
        text: The text.
        most: Most characters of it.
    """
    return text if len(text) <= most else f"{text[:most]}…"
