"""Questions of a conversation, answered from the documents of a tenant: whole, or as events while it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from backstory.base.errors import ModelError
from backstory.base.progress import listening
from backstory.index.snapshot import current_version
from backstory.interfaces.library.freshness import describe_indexing
from backstory.interfaces.library.job_store import Job
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import Answer
from backstory.interfaces.library.search import DocumentFilters, SearchFilters
from backstory.interfaces.service.authentication import DESCRIBED, Access, Reader, Served
from backstory.interfaces.service.event_streams import DONE, Emit, EventStream
from backstory.interfaces.service.failures import ErrorBody, describe_error
from backstory.interfaces.service.refusals import RefusedError, hide_paths
from backstory.interfaces.service.service import RETRY_SECONDS, Service
from backstory.retrieval.found import Hit, Result
from backstory.storage.conversations import KeptTurn, list_shown
from backstory.writing.answers.answer import UNSEARCHED, Turn

_NO_INDEX: Final = "no_index"
_UPLOAD: Final = "Nothing is indexed yet, so there is nothing to answer from. Add documents first."
_STEPS: Final = {"searching": "searching"}


class Question(BaseModel):
    """A question, alone or in a conversation."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, description="The question.")
    conversation_id: str | None = Field(
        default=None, max_length=64, description="The conversation that it goes on; null begins one."
    )
    filters: DocumentFilters | None = Field(default=None, description="Which documents may be read.")
    as_of: Annotated[datetime | None, Field(description="Later documents are hidden; with a time zone.")] = (
        None
    )


class Answered(Result):
    """The answer to a question of a conversation."""

    conversation_id: str = Field(description="The conversation.")
    turn: int = Field(description="Number of the question in it, from 1.")
    answer: Answer = Field(description="The answer, each claim with the places that say it.")


class Indexing(Result):
    """There is no index yet, and the first indexing is under way."""

    state: Literal["indexing"] = Field(default="indexing", description="Always indexing.")
    message: str = Field(description="How far it is, in words.")
    job: Job | None = Field(description="The job that indexes; null if another process does.")


class Unanswered(ErrorBody):
    """The model gave no answer; the search had found something."""

    hits: tuple[Hit, ...] = Field(description="What the search found, best first.")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was let in, with what was said before.

    Attributes:
        service: The service.
        access: Whose question it is, and to which tenant.
        question: The question.
        conversation: Id of the conversation that it goes on; None for one that begins.
        history: What was said before in it.
    """

    service: Service
    access: Access
    question: Question
    conversation: str | None
    history: Sequence[Turn]


def make_chat_router() -> APIRouter:
    """Make the routes of questions."""
    router = APIRouter(prefix="/api/chat", tags=["chat"], dependencies=list(DESCRIBED))

    @router.post(
        "/message",
        response_model=Answered,
        responses={
            202: {"model": Indexing, "description": "The first indexing is under way; ask again."},
            400: {"model": ErrorBody},
            404: {"model": ErrorBody},
            503: {"model": Unanswered, "description": "Try again after the seconds of Retry-After."},
        },
    )
    async def answer_message(question: Question, access: Reader, service: Served) -> Any:
        """Answer a question from the documents alone, from the last snapshot while an indexing is under way."""

        def answer() -> Answered | Indexing:
            asked = let_in(service, access, question)
            with service.tenants.entering(access.tenant) as library:
                return find_indexing(asked, library) or keep_answer(asked, answer_asked(asked, library))

        try:
            result = await service.answer(access.tenant, answer)
        except ModelError as error:
            return _tell_hits(error, service)
        return _tell_indexing(result) if isinstance(result, Indexing) else result

    @router.post(
        "/stream",
        status_code=200,
        response_class=EventStream,
        responses={
            200: {
                "content": {"text/event-stream": {}},
                "description": "Events: `routing`, `searching`, `answering` (a model is asked, or its citations are "
                "checked), `tokens` for each claim after its citations were checked, `citations` with their places, "
                "and at the end `done` with the whole answer, or `error`. No claim is sent before it was checked.",
            },
            202: {"model": Indexing, "description": "The first indexing is under way; ask again."},
            400: {"model": ErrorBody},
            404: {"model": ErrorBody},
            503: {"model": ErrorBody},
        },
    )
    async def stream_message(question: Question, access: Reader, service: Served) -> Response:
        """Answer a question event by event. A question whose reader has gone is not kept."""
        prepared = await service.search(access.tenant, partial(prepare_question, service, access, question))
        if isinstance(prepared, Indexing):
            return _tell_indexing(prepared)
        return EventStream(service, access.tenant, partial(stream_answer, prepared))

    return router


def make_history(turns: Sequence[KeptTurn]) -> list[Turn]:
    """Return what was said in a conversation, as a follow-up goes on from it."""
    return [
        Turn(turn.answer["rewritten"] or turn.question, turn.answer["markdown"])
        for turn in turns
        if turn.answer is not None and turn.answer["kind"] not in UNSEARCHED
    ]


def prepare_question(service: Service, access: Access, question: Question) -> Asked | Indexing:
    """Let a question in, or tell how far the first indexing is."""
    asked = let_in(service, access, question)
    with service.tenants.entering(access.tenant) as library:
        return find_indexing(asked, library) or asked


def let_in(service: Service, access: Access, question: Question) -> Asked:
    """Find the conversation of a question; it is refused if the caller has no such one, or if it is too long."""
    service.require_length(question.question)
    if question.conversation_id is None:
        return Asked(service, access, question, None, ())
    store = service.conversations(access.tenant)
    turns = store.read_turns(question.conversation_id, access.caller.user_id, last=service.limits.turns_read)
    if turns is None:
        raise refuse_conversation()
    return Asked(service, access, question, question.conversation_id, make_history(turns))


def refuse_conversation() -> RefusedError:
    """Make the one error for a conversation that is not there, and for one of another person."""
    return RefusedError("you have no such conversation", status=404, code="unknown_conversation")


def find_indexing(asked: Asked, library: Library) -> Indexing | None:
    """Tell how far the first indexing is; None if there is a snapshot, or nothing is under way."""
    workspace = library.workspace
    if current_version(workspace.index):
        return None
    job = asked.service.jobs.store(asked.access.tenant).current()
    told = describe_indexing(workspace)
    if told is None and job is None:
        return None
    return Indexing(message=told or "the first indexing begins soon", job=job)


def answer_asked(asked: Asked, library: Library) -> Answer:
    """Answer a question that was let in."""
    filters = SearchFilters.take(asked.question.filters, as_of=asked.question.as_of)
    answer = library.answer(asked.question.question, history=asked.history, filters=filters)
    return show_answer(answer, asked.service)


def show_answer(answer: Answer, service: Service) -> Answer:
    """Return an answer as clients see it: without the places of files on this machine."""
    notes = tuple(hide_paths(note, service.root) for note in answer.notes)
    documents = tuple(entry.model_copy(update={"path": entry.uri}) for entry in answer.documents)
    shown = answer.model_copy(update={"notes": notes, "documents": documents})
    if answer.refused == _NO_INDEX:
        shown = shown.model_copy(update={"markdown": _UPLOAD, "notes": ()})
    return shown


def keep_answer(asked: Asked, answer: Answer) -> Answered:
    """Keep a question and its answer in its conversation, or in one that begins.

    It is refused if the conversation was deleted, or the user removed, while the question was answered.
    """
    store, user = asked.service.conversations(asked.access.tenant), asked.access.caller.user_id
    question, now = asked.question.question, asked.service.clock()
    values = answer.to_dict()
    conversation = asked.conversation or store.begin(user, question, now)
    turn = store.add_turn(conversation, user, question, values, list_shown(values), now)
    # Only now: a removal of the user takes tokens and roles, and after that the conversations that it finds. A user
    # who is only kept out for a while has neither, too, and keeps the earlier ones.
    if not asked.service.accounts.is_admitted(user):
        if asked.conversation is None:
            store.remove(conversation, user)
        turn = None
    if turn is None:
        raise refuse_conversation()
    return Answered(conversation_id=conversation, turn=turn, answer=answer)


def stream_answer(asked: Asked, emit: Emit) -> None:
    """Answer a question, and emit its steps, its claims and their places.

    The last event is ``done`` with the conversation, the turn and the answer.
    """

    def follow(step: str, done: int, total: int) -> None:
        emit(_STEPS.get(step, "answering"), {"step": step, "done": done, "total": total})

    emit("routing", {"question": asked.question.question})
    with asked.service.tenants.entering(asked.access.tenant) as library, listening(follow, draws=True):
        answer = answer_asked(asked, library)
    for text in _list_pieces(answer):
        emit("tokens", {"text": text})
    emit("citations", {"claims": [claim.to_dict() for claim in answer.claims]})
    emit(DONE, keep_answer(asked, answer).to_dict())


def _list_pieces(answer: Answer) -> list[str]:
    """Divide the text of an answer into its paragraphs, which follow each other without anything between."""
    paragraphs = answer.markdown.split("\n\n")
    return [f"{text}\n\n" for text in paragraphs[:-1]] + paragraphs[-1:]


def _tell_indexing(indexing: Indexing) -> Response:
    again = {"Retry-After": str(RETRY_SECONDS)}
    return JSONResponse(indexing.to_dict(), status_code=202, headers=again)


def _tell_hits(error: ModelError, service: Service) -> Response:
    told = describe_error(error, service.root)
    response = told.to_response()
    body = Unanswered(error=told.text, hits=tuple(error.hits)).to_dict()
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return JSONResponse(body, status_code=told.status, headers=headers)
