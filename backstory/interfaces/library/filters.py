"""Filters of a search: the documents and pages that may be hits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from backstory.base.errors import InputError
from backstory.index.request import Filters, UnknownLabel, find_nearest, list_unknown_labels
from backstory.interfaces.library.names import DocumentNames, find_document, find_matching
from backstory.settings.models import RAGSettings

if TYPE_CHECKING:
    from backstory.interfaces.library.snapshots import OpenSnapshot

_METADATA: Final = "metadata"


@dataclass(frozen=True)
class SearchFilters:
    """Conditions that every hit must meet; an empty or absent one does not restrict.

    ``kinds``, ``tags`` and ``tenant`` override the settings ``rag.kinds``, ``rag.tags`` and ``rag.tenant``.
    ``rag.document_ids`` always applies.

    Attributes:
        documents: Names of documents, as :func:`backstory.interfaces.library.names.find_document` takes them.
        paths: Globs, one of which the path of a document must match; see
            :func:`backstory.interfaces.library.names.find_matching`.
        kinds: Kinds of documents.
        tags: Tags, at least one of which a document must have.
        tenant: Owner of the documents.
        as_of: Documents that were published after this time are hidden; undated ones are not.
        pages: First and last page; a chunk must hold text of one of these pages.
        metadata: Values of the metadata with which a text was added; of a list, one value suffices.

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
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("documents", "paths", "kinds", "tags"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"filter {name} is a single text; pass a list of texts", code="wrong_type")
        if not isinstance(self.metadata, Mapping):
            raise InputError(
                f"filter metadata is {self.metadata!r}; pass a mapping of names to values", code="wrong_type"
            )
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise InputError(
                f"filter as_of: {self.as_of} has no time zone; pass an aware time, such as UTC",
                code="no_time_zone",
            )
        if self.pages is not None and not 1 <= self.pages[0] <= self.pages[1]:
            raise InputError(
                f"filter pages {self.pages}: pages are counted from 1, the first before the last",
                code="out_of_range",
            )

    @classmethod
    def take(cls, given: SearchFilters | Mapping[str, Any]) -> SearchFilters:
        """Take filters, or a mapping of their names to their values."""
        if isinstance(given, cls):
            return given
        known = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(known):
            raise InputError(
                f"filters are {given!r}; pass SearchFilters, or a mapping with some of {', '.join(known)}",
                code="unknown_value",
            )
        return cls(**given)

    @property
    def names_documents(self) -> bool:
        """Whether the filters name documents, which must then be looked up."""
        return bool(self.documents or self.paths or self.metadata)


def _require_known(unknown: Iterable[UnknownLabel]) -> None:
    """Raise for the first label that no document has."""
    for each in unknown:
        hint = "" if each.name == _METADATA else "; `backstory documents` lists all"
        raise InputError(f"{each.describe()}{hint}", code="unknown_value")


def admit(filters: SearchFilters, settings: RAGSettings, snapshot: OpenSnapshot, keys: int) -> Filters | None:
    """Build the conditions of the index; None if no document can meet them."""
    tenant = settings.tenant if filters.tenant is None else filters.tenant
    _require_known(list_unknown_labels(snapshot.index.documents, filters.kinds, filters.tags, tenant))
    ids: set[str] | None = set(settings.document_ids) or None
    if filters.names_documents:
        documents = snapshot.name_documents(tenant)
        named = {find_document(documents, name).document_id for name in filters.documents}
        for pattern in filters.paths:
            named |= {document.document_id for document in find_matching(documents, pattern)}
        if not (filters.documents or filters.paths):
            named = {document.document_id for document in documents}
        if filters.metadata:
            named = _match_metadata(filters.metadata, documents, named)
        ids = named if ids is None else ids & named
    if ids is not None and not ids:
        return None
    return Filters(
        as_of=None if filters.as_of is None else [filters.as_of] * keys,
        kinds=list(filters.kinds or settings.kinds),
        tags=list(filters.tags or settings.tags),
        document_ids=sorted(ids or ()),
        tenant=tenant,
        undated=settings.undated == "serve",
        pages=filters.pages,
    )


def _match_metadata(
    wanted: Mapping[str, Any], documents: Sequence[DocumentNames], named: Collection[str]
) -> set[str]:
    """Find those of some documents whose metadata has the wanted values."""
    from backstory.interfaces.library.added_texts import read_metadata  # few searches need it

    found = {
        one.document_id: read_metadata(one.path, one.uri) for one in documents if one.document_id in named
    }
    known = set[str]().union(*found.values())
    if documents and not wanted.keys() <= known:
        known.update(*(read_metadata(one.path, one.uri) for one in documents if one.document_id not in found))
        _require_known(
            UnknownLabel(_METADATA, name, find_nearest(name, sorted(known)))
            for name in wanted
            if name not in known
        )
    return {document_id for document_id, metadata in found.items() if _has(metadata, wanted)}


def _has(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether metadata has all the wanted values; one value of a list suffices."""
    return all(
        name in metadata
        and (
            metadata[name] == value
            or (isinstance(metadata[name], list) and not isinstance(value, list) and value in metadata[name])
        )
        for name, value in wanted.items()
    )
