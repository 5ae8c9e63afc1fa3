"""What chat models are shown of the results of a library, by ``privacy.documents``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from backstory.interfaces.library.results import Answer, Chunk, Match
from backstory.pipeline.chats.named_documents import NameView
from backstory.retrieval.found import DocumentEntry, Result
from backstory.writing.answers.answer import Claim

_WITHHELD_TEXT: Final = "(withheld)"
"""Stands for a text of a document that no model is sent."""
_TEXTS: Final = ("title", "heading", "text", "match", "summary", "quote", "tags", "metadata")
"""Fields of results that hold words of a document."""

_R = TypeVar("_R", bound=Result)


def show_result(result: _R, view: NameView, read_text: Callable[[str], str]) -> _R:
    """Return a result as a model is sent it, with notes of what was replaced or withheld; texts are read by id."""
    if view.is_open:
        return result
    shown = show(result, view)
    if isinstance(shown, Chunk) and isinstance(result, Chunk):
        before = read_text(shown.document_id)[: result.char_start]
        start = len(_send([shown.document_id], before, view))
        shown = shown.model_copy(update={"char_start": start, "char_end": start + len(shown.text)})
    if "notes" in type(result).model_fields:
        notes = dict.fromkeys([*getattr(shown, "notes", ()), *view.list_notes()])
        shown = shown.model_copy(update={"notes": tuple(notes)})
    return shown


def show(result: _R, view: NameView, document_id: str | None = None) -> _R:
    """Return a result with the words of documents as a model is sent them."""
    about = getattr(result, "document", result)
    document_id = getattr(about, "document_id", document_id)
    changes: dict[str, Any] = {}
    for name, value in result:
        if isinstance(value, Result):
            changes[name] = show(value, view, document_id)
        elif isinstance(value, tuple) and value and isinstance(value[0], Result):
            changes[name] = tuple(show(each, view, document_id) for each in value)
        elif document_id is not None and name in _TEXTS:
            changes[name] = _send([document_id], value, view)
    if isinstance(result, Match):
        changes["text_start"] = len(_send([result.document_id], result.text[: result.text_start], view))
    if isinstance(result, DocumentEntry):
        notes = [result.note, *view.list_notes(result.document_id)]
        changes["note"] = "; ".join(filter(None, notes)) or None
    if isinstance(result, Claim):
        changes["text"] = _send([place.document_id for place in result.citations], result.text, view)
    if isinstance(result, Answer):
        named = [place.document_id for claim in result.claims for place in claim.citations]
        # A list names documents, and a refusal the nearest ones, by their titles.
        named += [each.document_id for each in result.documents]
        named += [hit.document_id for hit in result.hits if result.refused is not None]
        changes["markdown"] = _send(named, result.markdown, view)
    return result.model_copy(update=changes)


def _send(document_ids: Sequence[str], value: Any, view: NameView) -> Any:
    """Show the texts in a value of JSON that holds words of documents; all are withheld if one of them is."""
    if isinstance(value, dict):
        return {key: _send(document_ids, one, view) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_send(document_ids, one, view) for one in value)
    if isinstance(value, str) and value:
        if view.list_withheld(document_ids):
            return _WITHHELD_TEXT
        for document_id in dict.fromkeys(document_ids):
            value = view.show(document_id, value)
    return value
