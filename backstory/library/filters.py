"""Which documents and pages a search may give hits of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from backstory.errors import InputError
from backstory.index import Filters
from backstory.library.names import NamedDocument, find_document, find_matching
from backstory.settings import RAGSettings


@dataclass(frozen=True)
class SearchFilters:
    """Conditions that every hit must meet; one that is empty or absent does not restrict.

    ``kinds``, ``tags`` and ``tenant`` take the place of the settings ``rag.kinds``, ``rag.tags`` and ``rag.tenant``,
    which hold otherwise. ``rag.document_ids`` always holds.

    Attributes:
        documents: Names of documents, as :func:`backstory.library.names.find_document` takes them.
        paths: Globs, one of which the path of a document must match; see
            :func:`backstory.library.names.find_matching`.
        kinds: Kinds of documents.
        tags: Tags, at least one of which a document must have.
        tenant: Owner of the documents.
        as_of: Documents that were published after this time are hidden; undated ones are not.
        pages: First and last page; a chunk must hold text of one of these pages.

    Raises:
        InputError: A value does not have the required form.
    """

    documents: Sequence[str] = ()
    paths: Sequence[str] = ()
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    tenant: str | None = None
    as_of: datetime | None = None
    pages: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("documents", "paths", "kinds", "tags"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"filter {name} is a single text; pass a list of texts")
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise InputError(f"filter as_of: {self.as_of} has no time zone; pass an aware time, such as UTC")
        if self.pages is not None and not 1 <= self.pages[0] <= self.pages[1]:
            raise InputError(
                f"filter pages {self.pages}: pages are counted from 1, the first before the last"
            )

    @property
    def names_documents(self) -> bool:
        """Whether the filters name documents, so that these must be looked up."""
        return bool(self.documents or self.paths)


def admit(
    filters: SearchFilters, settings: RAGSettings, documents: Sequence[NamedDocument], keys: int
) -> Filters | None:
    """Make the conditions of the index.

    Args:
        filters: What the caller wants.
        settings: The ``rag`` settings.
        documents: All documents of the snapshot; read only if the filters name any.
        keys: Number of search keys.

    Returns:
        The conditions; None if no document can meet them.

    Raises:
        InputError: A name fits no document, or several.
    """
    ids: set[str] | None = set(settings.document_ids) or None
    if filters.names_documents:
        named = {find_document(documents, name).document_id for name in filters.documents}
        for pattern in filters.paths:
            named |= {document.document_id for document in find_matching(documents, pattern)}
        ids = named if ids is None else ids & named
    if ids is not None and not ids:
        return None
    return Filters(
        as_of=None if filters.as_of is None else [filters.as_of] * keys,
        kinds=list(filters.kinds or settings.kinds),
        tags=list(filters.tags or settings.tags),
        document_ids=sorted(ids or ()),
        tenant=settings.tenant if filters.tenant is None else filters.tenant,
        undated=settings.undated == "serve",
        pages=filters.pages,
    )
