"""The chat model of the settings for one question: what it is sent holds the names of members as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from backstory.base.errors import InputError
from backstory.pipeline.chats.model_view import ModelView
from backstory.pipeline.workspace import Workspace
from backstory.writing.answers.answer import (
    AskedQuestion,
    AskedRoute,
    Citation,
    Claim,
    Kind,
    MadeAnswer,
    Passage,
    Route,
    Turn,
)

# The clients of models load slowly, and answers without a model need none.
if TYPE_CHECKING:
    from backstory.writing.answers.choice import AnswerModels

_WITHHELD: Final = "it names a member of a chat, and privacy.documents is reject"


class ModelAnswers:
    """Asks the chat model about one question: an :class:`backstory.writing.answers.answer.Answerer`."""

    def __init__(self, workspace: Workspace, models: AnswerModels) -> None:
        """Set the model."""
        self._models = models
        self._view = ModelView(workspace, workspace.settings.answers)
        self.id = models.answerer.id
        self.prompt_hash = models.answerer.prompt_hash

    def route(self, question: str, by_rules: Callable[[str], Route]) -> AskedRoute:
        """Tell what a question asks for: by the model if the settings want that, else by the rules."""
        sent = self._view.send(None, question) if self._models.routes else None
        if sent is not None:
            return self._models.questions.route(sent, lambda _: by_rules(question))
        route = by_rules(question)
        if self._models.routes:
            route = Route(route.kind, f"{route.reason} (by rules, since {_WITHHELD})")
        return AskedRoute(route, 0, 0.0)

    def condense(self, question: str, history: Sequence[Turn]) -> AskedQuestion:
        """Ask for a question that can be understood alone, from the turns that may be sent, at least one."""
        sent = self._view.send(None, question)
        turns = [
            Turn(asked, answered)
            for turn in history
            if (asked := self._view.send(None, turn.question)) is not None
            and (answered := self._view.send(None, turn.answer)) is not None
        ]
        if sent is None or not turns:
            return AskedQuestion(None, 0, 0.0, f"the question was completed by rules, since {_WITHHELD}.")
        return self._models.questions.condense(sent, turns)

    def answer(
        self, question: str, parts: Sequence[str], passages: Sequence[Passage], *, kind: Kind
    ) -> MadeAnswer:
        """Answer a question; see :class:`backstory.writing.answers.answer.Answerer`."""
        asked, *sent_parts = (self._view.send(None, text) for text in (question, *parts))
        if asked is None:
            raise InputError(
                f"the question was not sent to the model: {_WITHHELD}; ask without the name, or set answers.provider "
                "to extractive",
                code="withheld_question",
            )
        own = {passage.id: passage for passage in passages}
        sent = [shown for passage in passages if (shown := self._show(passage)) is not None]
        made = self._models.answerer.answer(asked, [part or asked for part in sent_parts], sent, kind=kind)
        claims = tuple(_place(claim, own) for claim in made.claims)
        named = tuple(replace(part, text=text) for part, text in zip(made.parts, parts, strict=True))
        notes = (*made.notes, *(f"for the model, {note}" for note in self._view.list_notes()))
        return replace(made, claims=claims, parts=named, notes=notes)

    def _show(self, passage: Passage) -> Passage | None:
        """Return a passage as the model is sent it; None if it is withheld."""
        title, heading, text = (
            self._view.send(passage.document_id, part)
            for part in (passage.title, passage.heading, passage.text)
        )
        if title is None or heading is None or text is None:
            return None
        return replace(passage, title=title, heading=heading, text=text)


def _place(claim: Claim, own: Mapping[str, Passage]) -> Claim:
    """Let the citations of a claim name the passages as the documents have them."""
    return replace(claim, citations=tuple(_locate(each, own[each.passage.id]) for each in claim.citations))


def _locate(citation: Citation, passage: Passage) -> Citation:
    """Find a quote in the passage itself; one that holds a replaced name, or stands there twice, is the whole one."""
    if citation.passage.text == passage.text:
        return replace(citation, passage=passage)
    if passage.text.count(citation.quote) != 1:
        return Citation(passage, passage.text, passage.char_start, passage.char_end)
    start = passage.char_start + passage.text.index(citation.quote)
    return Citation(passage, citation.quote, start, start + len(citation.quote))
