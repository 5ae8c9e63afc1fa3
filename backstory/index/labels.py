"""Kinds and tags that a filter or a setting names, and that no document of an index has."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

import polars as pl

from backstory.index.search import SearchIndex
from backstory.settings.models import RAGSettings

_MOST_NEAREST: Final = 3


class UnknownLabel(NamedTuple):
    """A label that no document has.

    Attributes:
        name: What it is of: ``kind``, ``tag`` or ``metadata``.
        value: The label.
        nearest: Labels of documents that are spelled most alike.
    """

    name: str
    value: str
    nearest: list[str]

    def describe(self) -> str:
        """Say that no document has it, and name the nearest."""
        such = self.name if self.name == "metadata" else f"a {self.name}"
        told = f"the nearest: {', '.join(self.nearest)}" if self.nearest else f"no document has {such} at all"
        return f"no document has the {self.name} {self.value!r}; {told}"


def list_unknown_labels(
    index: SearchIndex, kinds: Sequence[str], tags: Sequence[str], tenant: str | None
) -> list[UnknownLabel]:
    """List the kinds and tags that no document of a tenant has; none if it has no documents.

    Args:
        index: The index.
        kinds: Kinds that somebody names.
        tags: Tags that somebody names.
        tenant: The tenant; None for all documents.
    """
    if not (kinds or tags):
        return []
    owned = index.documents if tenant is None else index.documents.filter(pl.col("tenant") == tenant)
    if owned.is_empty():
        return []
    return [
        UnknownLabel(name, value, find_nearest(value, known))
        for name, values, known in (
            ("kind", kinds, index.list_labels("kind", tenant)),
            ("tag", tags, index.list_labels("tags", tenant)),
        )
        for value in values
        if value not in known
    ]


def describe_unknown_settings(index: SearchIndex, rag: RAGSettings) -> list[str]:
    """Describe the kinds and tags of the settings that no document has, and that let a search find nothing."""
    unknown = list_unknown_labels(index, rag.kinds, rag.tags, rag.tenant)
    return [f"the setting rag.{each.name}s names {each.value!r}, but {each.describe()}" for each in unknown]


def find_nearest(value: str, known: Sequence[str]) -> list[str]:
    """Find the known names that are spelled most alike, whatever their case; all of a few."""
    if len(known) <= _MOST_NEAREST:
        return list(known)
    folded = {name.casefold(): name for name in known}
    return [folded[each] for each in get_close_matches(value.casefold(), folded, _MOST_NEAREST, 0.0)]
