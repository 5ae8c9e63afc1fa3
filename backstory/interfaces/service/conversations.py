"""The conversations of a user, what they say of answers, and their feedback as a set of questions for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from backstory.interfaces.library.evaluation import LabelledQuestion
from backstory.interfaces.service.authentication import DESCRIBED, Access, Owner, Reader, Served
from backstory.interfaces.service.chat import make_history, refuse_conversation
from backstory.interfaces.service.failures import ErrorBody
from backstory.interfaces.service.service import Service
from backstory.retrieval.found import Result
from backstory.storage.conversations import Conversation, Feedback, KeptTurn, Thumb
from backstory.writing.answers.answer import UNSEARCHED

_MOST_LISTED: Final = 100
REMOVED_ANSWER: Final = "This answer was removed, because it quoted what is no longer among the documents."
REMOVED_QUESTION: Final = "Removed question"

Id = Annotated[str, Path(max_length=64, description="Id of a conversation.")]


class ConversationEntry(Result):
    """A conversation."""

    id: str = Field(description="Its id.")
    title: str = Field(description="The beginning of its first question.")
    created_at: datetime = Field(description="When it began, UTC.")
    updated_at: datetime = Field(description="When its last question was asked, UTC.")
    turns: int = Field(description="Number of its questions.")


class ConversationPage(Result):
    """Some conversations of a user."""

    conversations: tuple[ConversationEntry, ...] = Field(description="The conversations, the latest first.")
    count: int = Field(description="Number of all of them.")
    next_offset: int | None = Field(description="Where the next page begins; null after the last one.")


class GivenFeedback(Result):
    """What a user said of an answer."""

    thumb: Thumb = Field(description="Whether it is good.")
    text: str = Field(description="Why; may be empty.")
    given_at: datetime = Field(description="When, UTC.")


class ConversationTurn(Result):
    """A question, and its answer."""

    turn: int = Field(description="Its number, from 1.")
    asked_at: datetime = Field(description="When it was asked, UTC.")
    question: str = Field(description="The question; empty if it was removed.")
    answer: dict[str, Any] | None = Field(
        description="The answer as /api/chat/message gave it, without its hits; null if it was removed, because it "
        "quoted what is no longer among the documents."
    )
    feedback: GivenFeedback | None = Field(description="What was said of it; null for nothing.")


class WholeConversation(ConversationEntry):
    """A conversation with its questions and answers."""

    history: tuple[ConversationTurn, ...] = Field(description="The questions and answers, in their order.")


class FeedbackText(BaseModel):
    """What a user says of an answer."""

    model_config = ConfigDict(extra="forbid")

    thumb: Thumb = Field(description="Whether it is good.")
    text: str = Field(default="", max_length=4_000, description="Why.")


def make_conversations_router() -> APIRouter:
    """Make the routes of conversations and feedback."""
    router = APIRouter(
        prefix="/api",
        tags=["conversations"],
        dependencies=list(DESCRIBED),
        responses={404: {"model": ErrorBody}},
    )

    @router.get("/conversations")
    def list_conversations(
        access: Reader,
        service: Served,
        limit: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> ConversationPage:
        """List your conversations, the latest first."""
        store = service.conversations(access.tenant)
        found, total = store.list_of(access.caller.user_id, limit=limit, offset=offset)
        after = offset + len(found)
        return ConversationPage(
            conversations=tuple(ConversationEntry(**_describe(each)) for each in found),
            count=total,
            next_offset=after if after < total and found else None,
        )

    @router.get("/conversations/{id}")
    def read_conversation(id: Id, access: Reader, service: Served) -> WholeConversation:  # noqa: A002 - the path's word
        """Read one of your conversations."""
        conversation, turns = find_turns(service, access, id)
        return _describe_whole(conversation, turns)

    @router.delete("/conversations/{id}", status_code=204)
    def delete_conversation(id: Id, access: Reader, service: Served) -> None:  # noqa: A002 - the path's word
        """Delete one of your conversations from the disk."""
        if not service.conversations(access.tenant).remove(id, access.caller.user_id):
            raise refuse_conversation()

    @router.get(
        "/conversations/{id}/export",
        response_class=Response,
        responses={200: {"content": {"text/markdown": {}, "application/json": {}}}},
    )
    def export_conversation(
        id: Id,  # noqa: A002 - the path's word
        access: Reader,
        service: Served,
        format: Annotated[Literal["markdown", "json"], Query()] = "markdown",  # noqa: A002 - the word everybody looks for
    ) -> Response:
        """Export one of your conversations as a file."""
        conversation, turns = find_turns(service, access, id)
        if format == "markdown":
            content, media, suffix = export_markdown(conversation, turns), "text/markdown", "md"
        else:
            whole = _describe_whole(conversation, turns)
            content, media, suffix = whole.model_dump_json(indent=1), "application/json", "json"
        attached = {"Content-Disposition": f'attachment; filename="conversation-{conversation.id}.{suffix}"'}
        return Response(content, media_type=f"{media}; charset=utf-8", headers=attached)

    @router.post("/conversations/{id}/turns/{turn}/feedback")
    def give_feedback(
        id: Id,  # noqa: A002 - the path's word
        turn: Annotated[int, Path(ge=1, le=1_000_000)],
        said: FeedbackText,
        access: Reader,
        service: Served,
    ) -> GivenFeedback:
        """Say whether an answer is good, in place of what you said before."""
        return _describe_feedback(keep_feedback(service, access, id, turn, said.thumb, said.text))

    @router.get(
        "/feedback/export",
        response_class=PlainTextResponse,
        responses={200: {"content": {"application/x-ndjson": {}}}},
    )
    def export_feedback(access: Owner, service: Served) -> Response:
        """Export the judged answers of all users, without their names, as questions that `backstory eval` takes."""
        lines = [
            label.model_dump_json(exclude_defaults=True)
            for before, turn in service.conversations(access.tenant).read_judged()
            for label in _label(before, turn)
        ]
        return Response(
            "".join(f"{line}\n" for line in lines), media_type="application/x-ndjson; charset=utf-8"
        )

    return router


def find_turns(service: Service, access: Access, conversation_id: str) -> tuple[Conversation, list[KeptTurn]]:
    """Find a conversation of a caller, with its questions and answers."""
    store, user = service.conversations(access.tenant), access.caller.user_id
    conversation, turns = store.find(conversation_id, user), store.read_turns(conversation_id, user)
    if conversation is None or turns is None:
        raise refuse_conversation()
    return conversation, turns


def keep_feedback(
    service: Service, access: Access, conversation_id: str, turn: int, thumb: Thumb, text: str
) -> Feedback:
    """Keep what a caller says of an answer in place of what the caller said before, and return it."""
    feedback = Feedback(thumb, text.strip(), service.clock())
    store = service.conversations(access.tenant)
    if not store.give_feedback(conversation_id, access.caller.user_id, turn, feedback):
        raise refuse_conversation()
    return feedback


def _describe(conversation: Conversation) -> Mapping[str, Any]:
    return {
        "id": conversation.id,
        "title": conversation.title,
        "created_at": _time(conversation.created),
        "updated_at": _time(conversation.updated),
        "turns": conversation.turn_count,
    }


def _describe_whole(conversation: Conversation, turns: Sequence[KeptTurn]) -> WholeConversation:
    history = tuple(_describe_turn(turn) for turn in turns)
    return WholeConversation(**_describe(conversation), history=history)


def _describe_turn(turn: KeptTurn) -> ConversationTurn:
    return ConversationTurn(
        turn=turn.number,
        asked_at=_time(turn.asked),
        question=turn.question,
        answer=None if turn.answer is None else dict(turn.answer),
        feedback=None if turn.feedback is None else _describe_feedback(turn.feedback),
    )


def _describe_feedback(feedback: Feedback) -> GivenFeedback:
    return GivenFeedback(thumb=feedback.thumb, text=feedback.text, given_at=_time(feedback.given))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def export_markdown(conversation: Conversation, turns: Sequence[KeptTurn]) -> str:
    """Write a conversation as Markdown."""
    parts = [f"# {conversation.title or REMOVED_QUESTION}"]
    for turn in turns:
        parts.append(f"## {' '.join(turn.question.split()) or REMOVED_QUESTION}")
        parts.append(REMOVED_ANSWER if turn.answer is None else str(turn.answer["markdown"]))
    return "\n\n".join(parts) + "\n"


def _label(before: Sequence[KeptTurn], turn: KeptTurn) -> Iterator[LabelledQuestion]:
    """Make a labelled question of a judged answer. A good one labels it; of a bad one, only the question is known.

    A question or an answer that was removed labels nothing.
    """
    if turn.answer is None or turn.feedback is None or not turn.question.strip():
        return
    asked = {
        "question": turn.question,
        "history": tuple(make_history(before)),
        "group": turn.feedback.thumb,
        "note": turn.feedback.text,
    }
    if turn.feedback.thumb == "down":
        yield LabelledQuestion(**asked)
        return
    answer = turn.answer
    places = [place for claim in answer["claims"] for place in claim["citations"] if claim["supported"]]
    listed = [entry["uri"] for entry in answer["documents"]]
    is_answered = answer["refused"] is None and bool(places or listed)
    is_asked = answer["kind"] not in UNSEARCHED
    yield LabelledQuestion(
        **asked,
        kind=answer["kind"],
        answerable=is_answered if is_asked else None,
        documents=tuple(dict.fromkeys([*(place["uri"] for place in places), *listed])),
        quotes=tuple(dict.fromkeys(place["quote"] for place in places)),
    )
