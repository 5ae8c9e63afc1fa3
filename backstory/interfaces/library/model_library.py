"""A library whose answers go to a model: an agent's tools show documents as chat models are sent them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from backstory.interfaces.library.answers import Answer, AnsweredClaim
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import Chunk, DocumentEntry, Match, Result
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

    def _give(self, result: _R) -> _R:
        """Return a result as a model is sent it, with notes of what was replaced or withheld."""
        last: ModelView | None = self.__dict__.get("_model_view")
        # What the last view has read of names is used again while it holds.
        view = self.__dict__["_model_view"] = (
            ModelView(self.workspace, None) if last is None else last.renew()
        )
        if view.is_open:
            return result
        shown = _show(result, view)
        if isinstance(shown, Chunk) and isinstance(result, Chunk):
            text = self._read_corpus().read(shown.document_id, None).text[: result.char_start]
            start = len(_send(view, shown.document_id, text))
            shown = shown.model_copy(update={"char_start": start, "char_end": start + len(shown.text)})
        if isinstance(shown, Answer):
            shown = shown.model_copy(update=_show_claims(shown, view))
        if "notes" in type(result).model_fields:
            notes = dict.fromkeys([*getattr(shown, "notes", ()), *view.list_notes()])
            shown = shown.model_copy(update={"notes": tuple(notes)})
        return shown


def _show_claims(answer: Answer, view: ModelView) -> dict[str, Any]:
    """Show the statements and the Markdown of an answer; one whose document is withheld is withheld, too."""
    claims = [
        claim.model_copy(update={"text": _send_of(view, _list_cited([claim]), claim.text)})
        for claim in answer.claims
    ]
    # A list names documents, and a refusal the nearest ones, by their titles.
    named = [each.document_id for each in answer.documents]
    named += [hit.document_id for hit in answer.hits if answer.refused is not None]
    markdown = _send_of(view, [*_list_cited(claims), *named], answer.markdown)
    return {"claims": tuple(claims), "markdown": markdown}


def _show(result: _R, view: ModelView, document_id: str | None = None) -> _R:
    """Return a result with the words of documents as a model is sent them."""
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
