"""Filters of a search: the documents and pages that may be hits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from backstory.base.errors import InputError
from backstory.index.request import Filters
from backstory.interfaces.library.names import NamedDocument, find_document, find_matching
from backstory.settings.models import RAGSettings

if TYPE_CHECKING:
    from backstory.interfaces.library.snapshots import OpenSnapshot

_MOST_NEAREST: Final = 3
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
                raise InputError(
                    f"filter {name} is a single text; pass a list of texts", code="wrong_type", name=name
                )
        if not isinstance(self.metadata, Mapping):
            raise InputError(
                f"filter metadata is {self.metadata!r}; pass a mapping of names to values",
                code="wrong_type",
                name="metadata",
            )
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise InputError(
                f"filter as_of: {self.as_of} has no time zone; pass an aware time, such as UTC",
                code="no_time_zone",
                name="as_of",
            )
        if self.pages is not None and not 1 <= self.pages[0] <= self.pages[1]:
            raise InputError(
                f"filter pages {self.pages}: pages are counted from 1, the first before the last",
                code="out_of_range",
                name="pages",
                value=self.pages,
            )

    @property
    def names_documents(self) -> bool:
        """Whether the filters name documents, which must then be looked up."""
        return bool(self.documents or self.paths or self.metadata)


def describe_unknown_settings(snapshot: OpenSnapshot) -> list[str]:
    """Describe the kinds and tags of the settings that no document has, and that let a search find nothing."""
    settings = snapshot.workspace.settings.rag
    if not (settings.kinds or settings.tags):
        return []
    return [
        f"the setting rag.{name}s names {value!r}, but {_tell_nearest(name, value, nearest)}"
        for name, value, nearest in _list_unknown(settings, snapshot, settings.tenant)
    ]


def _require_known(filters: SearchFilters, snapshot: OpenSnapshot, tenant: str | None) -> None:
    """Require that some document of the tenant has each kind and each tag of filters, if it has documents at all."""
    for name, value, nearest in _list_unknown(filters, snapshot, tenant):
        raise _make_error(name, value, nearest)


def _list_unknown(
    wanted: SearchFilters | RAGSettings, snapshot: OpenSnapshot, tenant: str | None
) -> Iterator[tuple[str, str, list[str]]]:
    """List the kinds and tags that no document of a tenant has, each with the nearest; none without documents."""
    if not snapshot.name_documents(tenant):
        return
    index = snapshot.index
    for name, values, known in (
        ("kind", wanted.kinds, index.list_labels("kind", tenant)),
        ("tag", wanted.tags, index.list_labels("tags", tenant)),
    ):
        yield from ((name, value, _find_nearest(value, known)) for value in values if value not in known)


def _make_error(name: str, value: str, nearest: list[str]) -> InputError:
    hint = "" if name == _METADATA else "; `backstory documents` lists all"
    told = f"{_tell_nearest(name, value, nearest)}{hint}"
    return InputError(told, code="unknown_value", name=name, value=value, nearest=nearest)


def _tell_nearest(name: str, value: str, nearest: Sequence[str]) -> str:
    none = "no document has metadata at all" if name == _METADATA else f"no document has a {name} at all"
    told = f"the nearest: {', '.join(nearest)}" if nearest else none
    return f"no document has the {name} {value!r}; {told}"


def _find_nearest(value: str, known: Sequence[str]) -> list[str]:
    """Find the known names that are spelled most alike, whatever their case; all of a few."""
    if len(known) <= _MOST_NEAREST:
        return list(known)
    folded = {name.casefold(): name for name in known}
    return [folded[each] for each in get_close_matches(value.casefold(), folded, _MOST_NEAREST, 0.0)]


def admit(filters: SearchFilters, settings: RAGSettings, snapshot: OpenSnapshot, keys: int) -> Filters | None:
    """Build the conditions of the index.

    Args:
        filters: What the caller wants.
        settings: The ``rag`` settings.
        snapshot: The documents that are searched.
        keys: Number of search keys.

    Returns:
        The conditions; None if no document can meet them.

    Raises:
        InputError: A name fits no document, or several, a glob matches none, or no document has a kind, a tag or
            metadata of a name (code ``unknown_value`` with ``name``, ``value`` and ``nearest``).
    """
    tenant = settings.tenant if filters.tenant is None else filters.tenant
    if filters.kinds or filters.tags:
        _require_known(filters, snapshot, tenant)
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
    wanted: Mapping[str, Any], documents: Sequence[NamedDocument], named: Collection[str]
) -> set[str]:
    """Find those of some documents whose metadata has the wanted values.

    Args:
        wanted: The values by their names.
        documents: All documents of the tenant.
        named: Ids of those that may be found.

    Raises:
        InputError: No document has metadata of a wanted name.
    """
    from backstory.interfaces.library.added_texts import read_metadata  # few searches need it

    found = {
        one.document_id: read_metadata(one.path, one.uri) for one in documents if one.document_id in named
    }
    known = set[str]().union(*found.values())
    if documents and not wanted.keys() <= known:
        known.update(*(read_metadata(one.path, one.uri) for one in documents if one.document_id not in found))
        for name in wanted:
            if name not in known:
                raise _make_error(_METADATA, name, _find_nearest(name, sorted(known)))
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
