"""What chat models are shown of a library: its results, and the passages of a question, by ``privacy.documents``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from backstory.base.errors import InputError
from backstory.interfaces.library.results import Answer, Chunk, DocumentEntry, Match
from backstory.pipeline.chats.name_view import NameView
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import Hit, Result
from backstory.writing.answers.answer import (
    AskedQuestion,
    AskedRoute,
    Citation,
    Claim,
    Kind,
    MadeAnswer,
    Route,
    Turn,
)

if TYPE_CHECKING:
    from backstory.writing.answers.choice import AnswerModels

_WITHHELD: Final = "it names a member of a chat, and privacy.documents is reject"
_WITHHELD_TEXT: Final = "(withheld)"
"""Stands for a text of a document that no model is sent."""
_TEXTS: Final = ("title", "heading", "text", "match", "summary", "quote", "tags", "metadata")
"""Fields of results that hold words of a document."""

_R = TypeVar("_R", bound=Result)


def show_result(result: _R, view: NameView, read_text: Callable[[str], str]) -> _R:
    """Return a result as a model is sent it, with notes of what was replaced or withheld.

    ``read_text`` reads the whole text of a document, by its id.
    """
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


class ModelAnswers:
    """Asks the chat model about one question: an :class:`backstory.writing.answers.answer.Answerer`."""

    def __init__(self, workspace: Workspace, models: AnswerModels) -> None:
        """Set the model."""
        self._models = models
        self._view = NameView(workspace, workspace.settings.answers)
        self.id = models.answerer.id
        self.prompt_hash = models.answerer.prompt_hash

    def route(self, question: str, by_rules: Callable[[str], Route]) -> AskedRoute:
        """Tell what a question asks for: by the model if the settings want that, else by the rules."""
        sent = self._view.show(None, question) if self._models.routes else None
        if sent is not None:
            return self._models.questions.route(sent, lambda _: by_rules(question))
        route = by_rules(question)
        if self._models.routes:
            route = Route(route.kind, f"{route.reason} (by rules, since {_WITHHELD})")
        return AskedRoute(route, 0, 0.0)

    def condense(self, question: str, history: Sequence[Turn]) -> AskedQuestion:
        """Ask for a question that can be understood alone, from the turns that may be sent, at least one."""
        sent = self._view.show(None, question)
        turns = [
            Turn(asked, answered)
            for turn in history
            if (asked := self._view.show(None, turn.question)) is not None
            and (answered := self._view.show(None, turn.answer)) is not None
        ]
        if sent is None or not turns:
            return AskedQuestion(None, 0, 0.0, f"the question was completed by rules, since {_WITHHELD}.")
        return self._models.questions.condense(sent, turns)

    def answer(
        self, question: str, parts: Sequence[str], passages: Sequence[Hit], *, kind: Kind
    ) -> MadeAnswer:
        """Answer a question; see :class:`backstory.writing.answers.answer.Answerer`."""
        asked, *sent_parts = (self._view.show(None, text) for text in (question, *parts))
        if asked is None:
            raise InputError(
                f"the question was not sent to the model: {_WITHHELD}; ask without the name, or set answers.provider "
                "to extractive",
                code="withheld_question",
            )
        withheld = self._view.list_withheld([passage.document_id for passage in passages])
        shown = {
            each.chunk_id: (each, show(each, self._view))
            for each in passages
            if each.document_id not in withheld
        }
        made = self._models.answerer.answer(
            asked, [part or asked for part in sent_parts], [sent for _, sent in shown.values()], kind=kind
        )
        claims = tuple(
            claim.model_copy(
                update={"citations": tuple(_locate(each, *shown[each.chunk_id]) for each in claim.citations)}
            )
            for claim in made.claims
        )
        named = tuple(replace(part, text=text) for part, text in zip(made.parts, parts, strict=True))
        notes = (*made.notes, *(f"for the model, {note}" for note in self._view.list_notes()))
        return replace(made, claims=claims, parts=named, notes=notes)


def _locate(citation: Citation, own: Hit, shown: Hit) -> Citation:
    """Find a quote in the passage itself; one that holds a replaced name, or stands there twice, is the whole one."""
    start, end = 0, len(own.text)
    if shown.text == own.text:
        start, end = citation.char_start - own.char_start, citation.char_end - own.char_start
    elif own.text.count(citation.quote) == 1:
        start = own.text.index(citation.quote)
        end = start + len(citation.quote)
    return Citation.quoting(own, start, end)
