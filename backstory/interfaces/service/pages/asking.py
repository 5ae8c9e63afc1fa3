"""The page of a conversation: its questions with their answers, the cited passages, and what a person says of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from backstory.base.errors import ModelError
from backstory.interfaces.service.authentication import Access, Served
from backstory.interfaces.service.chat import (
    Asked,
    Indexing,
    Question,
    answer_asked,
    keep_answer,
    prepare_question,
    refuse_conversation,
    stream_answer,
)
from backstory.interfaces.service.conversations import (
    REMOVED_QUESTION,
    export_markdown,
    find_turns,
    keep_feedback,
)
from backstory.interfaces.service.event_streams import DONE, ERROR, Emit, EventStream
from backstory.interfaces.service.failures import describe_error
from backstory.interfaces.service.pages.answers import ShownTurn, show_turn
from backstory.interfaces.service.pages.passages import Mark, read_passage
from backstory.interfaces.service.pages.rendering import render, show
from backstory.interfaces.service.pages.visits import PageRoute, ReadingVisitor, is_part, wants_events
from backstory.interfaces.service.service import Service
from backstory.storage.conversations import Conversation, KeptTurn, Thumb

_LISTED: Final = 30
_STEP: Final = "step"
_STEPS: Final[Mapping[str, str]] = {
    "routing": "Understanding the question",
    "searching": "Searching the documents",
    "answering": "Writing the answer, and checking its citations",
}
_TOKENS: Final = "tokens"

Conversational = Annotated[str, Path(max_length=64)]
Number = Annotated[int, Path(ge=1, le=1_000_000)]


def make_asking_router() -> APIRouter:
    """Make the routes of conversations."""
    router = APIRouter(prefix="/tenants/{tenant}", route_class=PageRoute, include_in_schema=False)

    @router.get("")
    def begin_conversation(access: ReadingVisitor, service: Served) -> Response:
        return _show_conversation(service, access, None, ())

    @router.post("/ask")
    async def ask(
        request: Request,
        access: ReadingVisitor,
        service: Served,
        question: Annotated[str, Form()] = "",
        conversation: Annotated[str, Form(max_length=64)] = "",
    ) -> Response:
        if not question.strip():
            return RedirectResponse(f"/tenants/{access.tenant}", 303)
        asked_for = Question(question=question.strip(), conversation_id=conversation or None)
        prepared = await service.search(access.tenant, partial(prepare_question, service, access, asked_for))
        if isinstance(prepared, Indexing):
            return show(
                "indexing.html",
                202,
                caller=access.caller,
                tenant=access.tenant,
                part=is_part(request),
                message=prepared.message,
                question=question,
            )
        if wants_events(request):
            return EventStream(service, access.tenant, partial(_stream, prepared))

        def answer() -> str:
            with service.tenants.entering(access.tenant) as library:
                kept = keep_answer(prepared, answer_asked(prepared, library))
            return _address_turn(access.tenant, kept.conversation_id, kept.turn)

        return RedirectResponse(await service.answer(access.tenant, answer), 303)

    @router.get("/history")
    def list_history(access: ReadingVisitor, service: Served, conversation: str = "") -> Response:
        return show("history.html", **_list_history(service, access, conversation))

    @router.get("/conversations/{id}")
    def read_conversation(id: Conversational, access: ReadingVisitor, service: Served) -> Response:  # noqa: A002
        conversation, turns = find_turns(service, access, id)
        return _show_conversation(service, access, conversation, [show_turn(turn) for turn in turns])

    @router.get("/conversations/{id}/export")
    def export_conversation(id: Conversational, access: ReadingVisitor, service: Served) -> Response:  # noqa: A002
        conversation, turns = find_turns(service, access, id)
        return Response(
            export_markdown(conversation, turns),
            media_type="text/markdown; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="conversation-{conversation.id}.md"'},
        )

    @router.post("/conversations/{id}/delete")
    def delete_conversation(id: Conversational, access: ReadingVisitor, service: Served) -> Response:  # noqa: A002
        if not service.conversations(access.tenant).remove(id, access.caller.user_id):
            raise refuse_conversation()
        return RedirectResponse(f"/tenants/{access.tenant}", 303)

    @router.get("/conversations/{id}/turns/{number}/citations/{place}")
    def read_citation(
        request: Request,
        id: Conversational,  # noqa: A002
        number: Number,
        place: Number,
        access: ReadingVisitor,
        service: Served,
        page: Annotated[int | None, Query(ge=1)] = None,
    ) -> Response:
        _, turns = find_turns(service, access, id)
        cited = next((turn for turn in turns if turn.number == number), None)
        turn = None if cited is None else show_turn(cited)
        places = () if turn is None else (*turn.places, *turn.nearest)
        if place > len(places):
            raise refuse_conversation()
        shown = places[place - 1]
        mark = Mark(shown.start, shown.end, shown.quote)
        with service.tenants.entering(access.tenant) as library:
            passage = read_passage(library, shown.document_id, mark=mark, page=page)
        template = "passage.html" if is_part(request) else "document.html"
        return show(
            template,
            passage=passage,
            back=_address_turn(access.tenant, id, number),
            caller=access.caller,
            tenant=access.tenant,
            may_edit=access.caller.may(access.tenant, "editor"),
        )

    @router.post("/conversations/{id}/turns/{number}/feedback")
    def give_feedback(
        request: Request,
        id: Conversational,  # noqa: A002
        number: Number,
        access: ReadingVisitor,
        service: Served,
        thumb: Annotated[Thumb, Form()],
        text: Annotated[str, Form(max_length=4_000)] = "",
    ) -> Response:
        feedback = keep_feedback(service, access, id, number, thumb, text)
        if is_part(request):
            return show(
                "feedback.html",
                tenant=access.tenant,
                conversation=id,
                number=number,
                feedback=feedback,
                was_given=True,
            )
        return RedirectResponse(_address_turn(access.tenant, id, number), 303)

    return router


def _stream(asked: Asked, emit: Emit) -> None:
    """Answer a question, and emit its steps in words, its text, and at the end the turn as a part of the page."""
    tenant = asked.access.tenant

    def tell(name: str, data: Mapping[str, Any]) -> None:
        if name in _STEPS:
            emit(_STEP, {"text": _STEPS[name]})
        elif name == _TOKENS:
            emit(_TOKENS, data)
        elif name == DONE:
            emit(DONE, _describe_done(asked, data))

    try:
        stream_answer(asked, tell)
    except ModelError as error:
        told = describe_error(error, asked.service.root)
        emit(ERROR, {"html": render("notice.html", error=told.text, hits=error.hits, tenant=tenant)})


def _describe_done(asked: Asked, data: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a turn that was kept: its part of the page, and the address of its conversation."""
    tenant, conversation = asked.access.tenant, data["conversation_id"]
    turn = KeptTurn(data["turn"], asked.question.question, data["answer"], asked.service.clock(), {}, None)
    values = {"tenant": tenant, "conversation": conversation}
    return {
        "html": render("turn.html", turn=show_turn(turn), **values),
        "head": render("head.html", turns=(turn,), title=_name(conversation, asked), **values),
        "conversation": conversation,
        "turn": turn.number,
        "address": f"/tenants/{tenant}/conversations/{conversation}",
    }


def _name(id_: str, asked: Asked) -> str:
    store = asked.service.conversations(asked.access.tenant)
    found = store.find(id_, asked.access.caller.user_id)
    return found.title if found is not None and found.title else REMOVED_QUESTION


def _show_conversation(
    service: Service, access: Access, conversation: Conversation | None, turns: list[ShownTurn] | tuple[()]
) -> Response:
    current = "" if conversation is None else conversation.id
    return show(
        "conversation.html",
        caller=access.caller,
        title="Ask" if conversation is None else conversation.title or REMOVED_QUESTION,
        turns=turns,
        conversation=current,
        most=service.limits.question_characters,
        **_list_history(service, access, current),
    )


def _list_history(service: Service, access: Access, current: str) -> dict[str, Any]:
    found, total = service.conversations(access.tenant).list_of(access.caller.user_id, limit=_LISTED)
    return {"tenant": access.tenant, "conversations": found, "conversation_count": total, "current": current}


def _address_turn(tenant: str, conversation: str, number: int) -> str:
    return f"/tenants/{tenant}/conversations/{conversation}#turn-{number}"
