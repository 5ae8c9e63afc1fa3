"""What people said of the explanation of a window: that a document should be in its context, or should not be.

One file of the workspace holds their answers, as ids. They are labels of `backstory learn`, and change nothing else.
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

Answers: TypeAlias = Mapping[tuple[str, str], Place]
"""Where documents should be, by the ids of window and document."""


def read_answers(path: Path) -> Answers:
    """Read the answers of a workspace; empty if nobody gave one.

    Raises:
        WorkspaceError: The file does not hold answers.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["answers"]
        answers = {
            (str(each["window_id"]), str(each["document_id"])): _read_place(each["should_be"])
            for each in entries
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorkspaceError(
            f"{path} is damaged, and it holds what people said about documents. Restore it from a backup, or delete "
            "it: `backstory learn` then knows nothing of their answers",
            code="damaged_record",
            path=path,
        ) from error
    return answers


def record_answer(path: Path, window_id: str, document_id: str, place: Place | None) -> None:
    """Record where a document should be, in place of an earlier answer, and flush it to disk.

    Args:
        path: The file.
        window_id: The window.
        document_id: The document.
        place: Where it should be; None takes an earlier answer back.

    Raises:
        WorkspaceError: The file does not hold answers.
    """

    def change(answers: Answers) -> Answers:
        others = {key: value for key, value in answers.items() if key != (window_id, document_id)}
        return others if place is None else {**others, (window_id, document_id): place}

    _change(path, change)


def keep_answers(path: Path, windows: Collection[str], documents: Collection[str]) -> None:
    """Drop the answers about any other window or document.

    Raises:
        WorkspaceError: The file does not hold answers.
    """
    if path.exists():
        _change(
            path,
            lambda answers: {
                key: place for key, place in answers.items() if key[0] in windows and key[1] in documents
            },
        )


def _read_place(value: object) -> Place:
    for place in PLACES:
        if value == place:
            return place
    raise ValueError(f"{value!r} is no place of a document")


def _change(path: Path, change: Callable[[Answers], Answers]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(path) as file:
        answers = [
            {"window_id": window_id, "document_id": document_id, "should_be": place}
            for (window_id, document_id), place in sorted(change(read_answers(path)).items())
        ]
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{json.dumps({'answers': answers}, indent=1)}\n".encode())
        file.flush()
        publish(temporary_path(path), path)
