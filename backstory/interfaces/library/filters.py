"""Filters of a search: the documents and pages that may be hits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from backstory.base.errors import InputError
from backstory.index.request import Filters, UnknownLabel, find_nearest, list_unknown_labels
from backstory.interfaces.library.names import DocumentNames, find_document, find_matching
from backstory.settings.models import RAGSettings

if TYPE_CHECKING:
    from backstory.interfaces.library.snapshots import OpenSnapshot

_CODES: Final = {"extra_forbidden": "unknown_value", "timezone_aware": "no_time_zone"}


class DocumentFilters(BaseModel):
    """Which documents may be found; a filter that is empty does not restrict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: Sequence[str] = Field(default=(), description="Paths, titles or ids.")
    paths: Sequence[str] = Field(default=(), description="Globs of paths, such as notes/**/*.md.")
    kinds: Sequence[str] = Field(default=(), description="Kinds, such as post.")
    tags: Sequence[str] = Field(default=(), description="Tags, at least one of which a document has.")
    pages: Sequence[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="First and last page; not for a whole conversation.",
    )
    metadata: Mapping[str, Any] = Field(default={}, description="Values that an added text was given.")


class SearchFilters(DocumentFilters):
    """Conditions that every hit must meet; an empty or absent one does not restrict.

    ``kinds``, ``tags`` and ``tenant`` override the settings ``rag.kinds``, ``rag.tags`` and ``rag.tenant``.
    ``rag.document_ids`` always applies. Of metadata that is a list, one value suffices. An :class:`InputError` means
    that a value does not have the required form.
    """

    tenant: str | None = Field(default=None, description="Owner of the documents.")
    as_of: AwareDatetime | None = Field(
        default=None,
        description="Documents that were published after this time are hidden; undated ones are not.",
    )

    if not TYPE_CHECKING:  # for type checkers, the fields are the arguments

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                name = ".".join(map(str, fault["loc"]))
                known = ", ".join(type(self).model_fields)
                what = f"filter {name}: {fault['msg']}, not {fault['input']!r}; the filters are {known}"
                raise InputError(what, code=_CODES.get(fault["type"], "wrong_type")) from None
            if self.pages is not None and not 1 <= self.pages[0] <= self.pages[1]:
                what = f"filter pages {self.pages}: pages count from 1, the first before the last"
                raise InputError(what, code="out_of_range")

    @classmethod
    def take(cls, given: DocumentFilters | Mapping[str, Any] | None, **others: Any) -> Self:
        """Take filters, or a mapping of their names to their values; others by name take precedence."""
        if not isinstance(given, DocumentFilters | Mapping | None):
            raise InputError(f"filters are {given!r}; pass SearchFilters or a mapping", code="unknown_value")
        return cls(**{**dict(given or {}), **others})


def admit(filters: SearchFilters, settings: RAGSettings, snapshot: OpenSnapshot) -> Filters | None:
    """Build the conditions of the index for one query; None if no document can meet them."""
    tenant = settings.tenant if filters.tenant is None else filters.tenant
    unknown = list_unknown_labels(snapshot.index.documents, filters.kinds, filters.tags, tenant)
    if unknown:
        raise InputError(f"{unknown[0].describe()}; `backstory documents` lists all", code="unknown_value")
    ids: set[str] | None = set(settings.document_ids) or None
    if filters.documents or filters.paths or filters.metadata:
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
        as_of=None if filters.as_of is None else [filters.as_of],
        kinds=list(filters.kinds or settings.kinds),
        tags=list(filters.tags or settings.tags),
        document_ids=sorted(ids or ()),
        tenant=tenant,
        undated=settings.undated == "serve",
        pages=None if filters.pages is None else (filters.pages[0], filters.pages[1]),
    )


def _match_metadata(
    wanted: Mapping[str, Any], documents: Sequence[DocumentNames], named: Collection[str]
) -> set[str]:
    """Find those of some documents whose metadata has the wanted values."""
    from backstory.interfaces.library.added_texts import read_metadata  # few searches need it

    found = {one.document_id: read_metadata(one.path, one.uri) for one in documents}
    known = set[str]().union(*found.values())
    unknown = [name for name in wanted if name not in known]
    if documents and unknown:
        label = UnknownLabel("metadata", unknown[0], find_nearest(unknown[0], sorted(known)))
        raise InputError(label.describe(), code="unknown_value")
    return {document_id for document_id in named if _has(found[document_id], wanted)}


def _has(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether metadata has all the wanted values; one value of a list suffices."""
    return all(
        name in metadata
        and (metadata[name] == value or (isinstance(metadata[name], list) and value in metadata[name]))
        for name, value in wanted.items()
    )
