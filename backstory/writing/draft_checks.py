"""Checks of a draft: what must hold before it becomes a post."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from backstory.privacy.leaks import find_real_names
from backstory.settings import WriterSettings
from backstory.writing.draft import Draft

LEAK: Final = "the draft holds a real name or number; the context or the prompt shows it to the writer"
"""Fault of a draft that must not be stored."""


def find_fault(draft: Draft, settings: WriterSettings, names: Iterable[str] | None) -> str | None:
    """Return why a draft cannot become a post, or None.

    Args:
        draft: The draft.
        settings: Limit of the length.
        names: Real names of all authors; None if no author is hidden.
    """
    if not draft.text.strip() or not draft.title.strip():
        return "the draft is empty"
    if len(draft.text) > settings.max_characters:
        return (
            f"the draft has {len(draft.text)} characters, and writers.max_characters is {settings.max_characters}; "
            "raise it, or ask for less in the prompt"
        )
    if names is None:
        return None
    texts = pl.DataFrame({"text": [draft.title, draft.text, *draft.tags]})
    if not find_real_names(texts, names).is_empty():
        return LEAK
    return None
