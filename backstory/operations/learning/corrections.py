"""What people said of the explanation of a window: that a document should be in its context, or should not be.

One file of the workspace holds these corrections, as ids. They are labels of `backstory learn`, and change nothing
else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path

Place: TypeAlias = Literal["here", "absent"]
"""Where a document should be: in the context of the window, or not."""

PLACES: Final[tuple[Place, ...]] = ("here", "absent")

Corrections: TypeAlias = Mapping[tuple[str, str], Place]
"""Where documents should be, by the ids of window and document."""


def read_corrections(path: Path) -> Corrections:
    """Read the corrections of a workspace; empty if nobody made one.

    Raises:
        WorkspaceError: The file does not hold corrections.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["corrections"]
        corrections = {
            (str(each["window_id"]), str(each["document_id"])): _read_place(each["should_be"])
            for each in entries
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorkspaceError(
            f"{path} is damaged, and it holds what people said about documents. Restore it from a backup, or delete "
            "it: `backstory learn` then knows nothing of their corrections",
            code="damaged_record",
        ) from error
    return corrections


def record_correction(path: Path, window_id: str, document_id: str, place: Place | None) -> None:
    """Record where a document should be, in place of an earlier correction, and flush it to disk.

    Args:
        path: The file.
        window_id: The window.
        document_id: The document.
        place: Where it should be; None takes an earlier correction back.

    Raises:
        WorkspaceError: The file does not hold corrections.
    """

    def change(corrections: Corrections) -> Corrections:
        others = {key: value for key, value in corrections.items() if key != (window_id, document_id)}
        return others if place is None else {**others, (window_id, document_id): place}

    _change(path, change)


def keep_corrections(path: Path, windows: Collection[str], documents: Collection[str]) -> None:
    """Drop the corrections about any other window or document.

    Raises:
        WorkspaceError: The file does not hold corrections.
    """
    if path.exists():
        _change(
            path,
            lambda corrections: {
                key: place for key, place in corrections.items() if key[0] in windows and key[1] in documents
            },
        )


def _read_place(value: object) -> Place:
    for place in PLACES:
        if value == place:
            return place
    raise ValueError(f"{value!r} is no place of a document")


def _change(path: Path, change: Callable[[Corrections], Corrections]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(path) as file:
        corrections = [
            {"window_id": window_id, "document_id": document_id, "should_be": place}
            for (window_id, document_id), place in sorted(change(read_corrections(path)).items())
        ]
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{json.dumps({'corrections': corrections}, indent=1)}\n".encode())
        file.flush()
        publish(temporary_path(path), path)
