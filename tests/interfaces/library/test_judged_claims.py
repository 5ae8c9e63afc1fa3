"""Claims in other words than their passages: a reranker behind a loopback server judges them, and nobody else does."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import Answer
from tests.models.services.chat_server import (
    ChatBehaviour,
    ChatReply,
    ChatRequest,
    ChatServer,
    complete,
    refuse,
)

QUESTION = "What does the night train to Lisbon need?"
QUOTE = "A seat reservation on the night train to Lisbon."
REWORDED = "Travellers should book beforehand."
DENIED = "Travellers should never book beforehand."
OTHER_NUMBER = "Travellers should book 12 days beforehand."

Ask = Callable[..., Answer]


@pytest.fixture
def ask(library: Library, chat: ChatServer) -> Ask:
    """Give a function that asks a model which states claims, beside a reranker that judges or fails."""
    settings = library.workspace.root / "backstory.yaml"
    served = (
        f"services: {{mine: {{kind: openai, base_url: '{chat.url}', max_attempts: 1, requests_per_minute: 1000}}}}\n"
        "answers: {provider: mine, model: tiny}\n"
    )
    plain = settings.read_text("utf-8") + served

    def ask_once(*claims: str, judged: ChatBehaviour | None) -> Answer:
        def reply(request: ChatRequest) -> ChatReply | None:
            if "<passages>" in request.user:
                place = request.user.split("\nTitle: Night train")[0].rpartition('id="')[2].rstrip('">')
                cited = [{"id": place, "quote": QUOTE}]
                stated = [{"text": text, "citations": cited, "parts": [1]} for text in claims]
                return complete(json.dumps({"claims": stated}))(request)
            asked = json.loads(request.user)
            is_claim = asked["parts"][0]["text"] in claims
            return judged(request) if is_claim and judged else rate(4)(request)

        chat.always = reply
        reranked = "rerank: {provider: mine, model: tiny}\n" if judged else ""
        settings.write_text(plain + reranked, "utf-8")
        with Library.open(library.workspace.root) as opened:
            return opened.answer(QUESTION)

    return ask_once


def rate(rating: int) -> ChatBehaviour:
    """Rate every document alike, for one topic."""

    def reply(request: ChatRequest) -> ChatReply | None:
        documents = json.loads(request.user)["documents"]
        rated = [{"id": each["id"], "ratings": [rating]} for each in documents]
        topics = [{"label": "the train", "parts": [1]}]
        return complete(json.dumps({"topics": topics, "documents": rated}))(request)

    return reply


def list_judged(chat: ChatServer, claims: tuple[str, ...]) -> list[str]:
    asked = [
        json.loads(each.user)["parts"][0]["text"] for each in chat.requests if '"parts"' in each.user[:9]
    ]
    return [text for text in asked if text in claims]


def test_a_claim_in_other_words_is_supported_by_the_judgement_of_the_reranker(
    ask: Ask, chat: ChatServer
) -> None:
    told = ask(REWORDED, judged=rate(4))
    assert [(claim.text, claim.supported) for claim in told.claims] == [(REWORDED, True)]
    assert told.claims[0].citations[0].quote == QUOTE.removesuffix(".")
    assert [note for note in told.notes if "rests on the reranker" in note]
    [judged] = [each for each in chat.requests if REWORDED in each.user and '"documents"' in each.user]
    assert QUOTE in judged.user


@pytest.mark.parametrize(
    "judged",
    [
        None,
        rate(3),
        rate(0),
        refuse(500, "down"),
        complete("no JSON"),
        complete(None, finish="content_filter"),
    ],
    ids=["no reranker", "helps only", "unrelated", "down", "malformed", "blocked"],
)
def test_a_claim_in_other_words_is_supported_by_nothing_else(ask: Ask, judged: ChatBehaviour | None) -> None:
    told = ask(REWORDED, judged=judged)
    assert (told.refused, told.claims) == ("not_in_documents", ())


def test_a_reader_is_told_why_a_claim_was_not_judged(ask: Ask) -> None:
    told = ask(REWORDED, judged=refuse(500, "down"))
    assert [note for note in told.notes if "could not be judged" in note and "down" in note]


def test_no_judgement_supports_another_number_or_the_contrary(ask: Ask, chat: ChatServer) -> None:
    told = ask(OTHER_NUMBER, DENIED, judged=rate(5))
    assert (told.refused, told.claims) == ("not_in_documents", ())
    assert list_judged(chat, (OTHER_NUMBER, DENIED)) == []
