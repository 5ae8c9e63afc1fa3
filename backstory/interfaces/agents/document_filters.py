"""Which documents the tools of agents search; the tenant is always that of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from backstory.base.errors import InputError
from backstory.interfaces.library.filters import SearchFilters


class DocumentFilters(BaseModel):
    """Which documents may be found; a filter that is empty does not restrict."""

    model_config = ConfigDict(extra="forbid")

    documents: list[str] = Field(default=[], description="Paths, titles or ids.")
    paths: list[str] = Field(default=[], description="Globs of paths, such as notes/**/*.md.")
    kinds: list[str] = Field(default=[], description="Kinds, such as post.")
    tags: list[str] = Field(default=[], description="Tags, at least one of which a document has.")
    pages: list[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="First and last page; not for a whole conversation.",
    )
    metadata: dict[str, Any] = Field(default={}, description="Values that an added text was given.")


def make_filters(
    filters: DocumentFilters | Mapping[str, Any] | None,
    *,
    documents: Sequence[str] = (),
    as_of: datetime | None = None,
) -> SearchFilters:
    """Make the filters of a search.

    Args:
        filters: What a tool was given.
        documents: Names of documents that the tool itself names.
        as_of: Documents that were published after this time are hidden.

    Raises:
        InputError: A value does not have the required form.
    """
    wanted = DocumentFilters.model_validate(filters or {})
    if documents and (wanted.documents or wanted.paths):
        raise InputError("the call names its document already; leave the filters documents and paths out")
    first_and_last = None if wanted.pages is None else (wanted.pages[0], wanted.pages[1])
    return SearchFilters(
        documents=(*documents, *wanted.documents),
        paths=wanted.paths,
        kinds=wanted.kinds,
        tags=wanted.tags,
        metadata=wanted.metadata,
        pages=first_and_last,
        as_of=as_of,
    )
