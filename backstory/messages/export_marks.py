"""Finding the parts of an export that one platform wrote, by the paths of values at their beginning."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from backstory.messages.export_parts import ExportParts
from backstory.messages.json_stream import find_paths, read_head


def find_marked(
    parts: ExportParts, marks: Collection[frozenset[str]], is_named: Callable[[str], object]
) -> list[str]:
    """Return the parts that hold all paths of one of the marks; see :func:`backstory.messages.json_stream.find_paths`.

    Args:
        parts: The parts of an export.
        marks: Sets of paths.
        is_named: Whether a part of an archive may be meant, by the last part of its name. A single file may have any
            name.
    """
    named = [name for name in parts.names if parts.is_single or is_named(PurePosixPath(name).name)]
    found = []
    for name in named:
        with parts.open(name) as file:
            paths = find_paths(read_head(file))
        if any(mark <= paths for mark in marks):
            found.append(name)
    return found
