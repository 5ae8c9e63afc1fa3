"""A library whose answers go to a model: an agent's tools show documents as chat models are sent them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from backstory.interfaces.library.answer import Answer, AnsweredClaim
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import (
    Chunk,
    DocumentEntry,
    DocumentList,
    DocumentText,
    Explanation,
    GrepAnswer,
    Match,
    Result,
    SearchAnswer,
    Summary,
)
from backstory.pipeline.chats.model_view import ModelView

WITHHELD: Final = "(withheld)"
"""Stands for a text of a document that no model is sent."""
_TEXTS: Final = ("title", "heading", "text", "match", "summary", "quote")
"""Fields of results that hold words of a document."""
_VALUES: Final = ("tags", "metadata")

_R = TypeVar("_R", bound=Result)


class ModelLibrary(Library):
    """Answers as the library does, by the rule ``privacy.documents``; paths and ids stay.

    Whatever is withheld or written with other names is said in the notes of the answer or of the document. Contexts
    and summaries by a model follow the rule in every library.
    """

    def __init__(self, library: Library) -> None:
        """Wrap a library. Both share one state: what one of them opens, watches or closes, the other does, too."""
        self.__dict__ = library.__dict__

    def search_many(self, *arguments: Any, **options: Any) -> list[SearchAnswer]:
        """Search; see :meth:`Library.search_many`."""
        return [self._show_noted(answer) for answer in super().search_many(*arguments, **options)]

    def answer(self, *arguments: Any, **options: Any) -> Answer:
        """Answer a question; see :meth:`Library.answer`. A statement whose document is withheld is withheld, too."""
        answered = self._show_noted(super().answer(*arguments, **options))
        view = self._start_view()
        claims = [
            claim.model_copy(update={"text": _send_of(view, _list_cited([claim]), claim.text)})
            for claim in answered.claims
        ]
        # A list names documents, and a refusal the nearest ones, by their titles.
        named = [each.document_id for each in answered.documents]
        named += [hit.document_id for hit in answered.hits if answered.refused is not None]
        markdown = _send_of(view, [*_list_cited(claims), *named], answered.markdown)
        return answered.model_copy(update={"claims": tuple(claims), "markdown": markdown})

    def grep(self, *arguments: Any, **options: Any) -> GrepAnswer:
        """Find a pattern; see :meth:`Library.grep`. The pattern is looked for in the documents as they are."""
        return self._show_noted(super().grep(*arguments, **options))

    def documents(self) -> DocumentList:
        """List the documents; see :meth:`Library.documents`."""
        return _show(super().documents(), self._start_view())

    def document(self, name: str) -> DocumentEntry:
        """Describe a document; see :meth:`Library.document`."""
        return _show(super().document(name), self._start_view())

    def text(self, document: str, pages: int | tuple[int, int] | None = None) -> DocumentText:
        """Read a document; see :meth:`Library.text`. Its positions count in the document as it is."""
        return _show(super().text(document, pages), self._start_view())

    def chunk(self, name: str) -> Chunk:
        """Read a chunk; see :meth:`Library.chunk`. Its positions count in the text that :meth:`text` gives."""
        return self._show_chunk(super().chunk(name), self._start_view())

    def chunks(self, places: Iterable[tuple[str, int]]) -> list[Chunk | None]:
        """Read several chunks; see :meth:`chunk`."""
        view = self._start_view()
        found = super().chunks(places)
        return [None if each is None else self._show_chunk(each, view) for each in found]

    def _show_chunk(self, found: Chunk, view: ModelView) -> Chunk:
        before = super().text(found.document_id).text[: found.char_start]
        start = len(_send(view, found.document_id, before))
        shown = _send(view, found.document_id, found.text)
        places = {"char_start": start, "char_end": start + len(shown), "text": shown}
        return found.model_copy(update=places)

    def summarize(self, *arguments: Any, **options: Any) -> Summary:
        """Summarize a document; see :meth:`Library.summarize`."""
        return self._show_noted(super().summarize(*arguments, **options))

    def explain(self, *arguments: Any, **options: Any) -> Explanation:
        """Explain a context; see :meth:`Library.explain`."""
        return _show(super().explain(*arguments, **options), self._start_view())

    def _show_noted(self, result: _R) -> _R:
        """Show a result that has notes."""
        view = self._start_view()
        shown = _show(result, view)
        notes = dict.fromkeys([*getattr(result, "notes", ()), *view.list_notes()])
        return shown.model_copy(update={"notes": tuple(notes)})

    def _start_view(self) -> ModelView:
        """Return a view without notes; what the last one has read of names is used again while it holds."""
        last: ModelView | None = self.__dict__.get("_model_view")
        view = ModelView(self.workspace, None) if last is None else last.renew()
        self.__dict__["_model_view"] = view
        return view


def _show(result: _R, view: ModelView, document_id: str | None = None) -> _R:
    """Return a result with the words of documents as a model is sent them."""
    if view.is_open:
        return result
    about = getattr(result, "document", result)
    document_id = getattr(about, "document_id", document_id)
    changes: dict[str, Any] = {}
    for name in type(result).model_fields:
        value = getattr(result, name)
        if isinstance(value, Result):
            changes[name] = _show(value, view, document_id)
        elif isinstance(value, tuple) and value and isinstance(value[0], Result):
            changes[name] = tuple(_show(each, view, document_id) for each in value)
        elif document_id is not None and name in _TEXTS:
            changes[name] = _send(view, document_id, value)
        elif document_id is not None and name in _VALUES:
            changes[name] = _show_value(view, document_id, value)
    if isinstance(result, Match):
        changes["text_start"] = len(_send(view, result.document_id, result.text[: result.text_start]))
    if isinstance(result, DocumentEntry):
        notes = [result.note, *view.list_notes(result.document_id)]
        changes["note"] = "; ".join(filter(None, notes)) or None
    return result.model_copy(update=changes)


def _show_value(view: ModelView, document_id: str, value: Any) -> Any:
    """Show the texts in a value of JSON."""
    if isinstance(value, str):
        return _send(view, document_id, value)
    if isinstance(value, dict):
        return {key: _show_value(view, document_id, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_show_value(view, document_id, one) for one in value)
    return value


def _list_cited(claims: Sequence[AnsweredClaim]) -> list[str]:
    """List the documents that claims cite, by id."""
    return list(dict.fromkeys(place.document_id for claim in claims for place in claim.citations))


def _send_of(view: ModelView, document_ids: Sequence[str], text: str) -> str:
    """Show a text that holds words of several documents."""
    if view.list_withheld(document_ids):
        return WITHHELD
    for document_id in document_ids:
        text = _send(view, document_id, text)
    return text


def _send(view: ModelView, document_id: str, text: str) -> str:
    if not text:
        return text
    sent = view.send(document_id, text)
    return WITHHELD if sent is None else sent
