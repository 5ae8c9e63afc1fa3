"""What people said of the explanation of a window: that a document should be in its context, or should not be.

The state of the workspace holds these corrections, as ids. They are labels of `backstory learn`, and change nothing
else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias

from backstory.storage.schema import CORRECTIONS
from backstory.storage.state import State

Place: TypeAlias = Literal["here", "absent"]
"""Where a document should be: in the context of the window, or not."""

PLACES: Final[tuple[Place, ...]] = ("here", "absent")

_DELETE: Final = "DELETE FROM corrections WHERE window_id = ? AND document_id = ?"

Corrections: TypeAlias = Mapping[tuple[str, str], Place]
"""Where documents should be, by the ids of window and document."""


def read_corrections(state: State) -> Corrections:
    """Read the corrections of a workspace from its state."""
    query = "SELECT window_id, document_id, should_be FROM corrections ORDER BY window_id, document_id"
    with state.reading() as session:
        return {(window, document): place for window, document, place in session.execute(query)}


def record_correction(state: State, window_id: str, document_id: str, place: Place | None) -> None:
    """Record where a document should be, in place of an earlier correction; None takes that back."""
    with state.begin() as session:
        if place is None:
            session.execute(_DELETE, (window_id, document_id))
        else:
            state.upsert(session, CORRECTIONS, [(window_id, document_id, place)])


def keep_corrections(state: State, windows: Collection[str], documents: Collection[str]) -> None:
    """Delete the corrections about any other window or document, also from the disk."""
    gone = [key for key in read_corrections(state) if key[0] not in windows or key[1] not in documents]
    if gone:
        with state.begin() as session:
            session.executemany(_DELETE, gone)
        state.compact()
