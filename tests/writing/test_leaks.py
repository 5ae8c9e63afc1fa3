"""A draft that holds a real name becomes no post, and nothing of it is kept."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.settings.writers import WriterSettings
from backstory.text.people import Discretion
from backstory.writing.draft import Draft
from backstory.writing.draft_cache import DraftCache
from backstory.writing.material import ContextMaterial, WindowMaterial, WindowMessage
from backstory.writing.posts import write_post
from backstory.writing.writer_calls import WriterCalls
from tests.caches import open_cache

NOON = datetime(2025, 3, 13, 12, tzinfo=UTC)
NAME = "Ada Lind"


class Repeater:
    """A writer that gives the draft that it was made with."""

    id = prompt_hash = "repeater-1"

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def write(self, _window: WindowMaterial, _context: ContextMaterial) -> Draft:
        return self._draft


@pytest.mark.parametrize(
    ("draft", "status"),
    [
        (Draft("The elbow", f"{NAME} fixed it."), "rejected"),
        (Draft(f"The elbow of {NAME}", "It was fixed."), "rejected"),
        (Draft("The elbow", "It was fixed.", tags=(NAME,)), "rejected"),
        (Draft("The elbow", "It was fixed."), "written"),
    ],
)
def test_a_draft_with_a_real_name_is_not_kept(draft: Draft, status: str, tmp_path: Path) -> None:
    message = WindowMessage("m1", NOON, "Person-1", "The elbow broke.")
    window = WindowMaterial("w1", "garden", "2025-03-13", NOON, NOON, "en", (message,))
    drafts = DraftCache(open_cache(tmp_path))
    row = write_post(
        window,
        ContextMaterial("no_hits"),
        Repeater(draft),
        WriterSettings(min_characters=1),
        Discretion(partial(find_naming_texts, names=[NAME])),
        drafts,
        WriterCalls(),
    )
    assert row["status"] == status
    assert NAME not in str(row)
    assert (row["text"] == "") == (status == "rejected")
