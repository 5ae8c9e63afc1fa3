"""The class of a question, and its completion, by a model behind a loopback server; the rules decide if it fails."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from backstory.writing.answers.answer import Route, Turn
from tests.models.services import chat_server
from tests.models.services.chat_server import ChatBehaviour, ChatServer
from tests.writing.answers.conftest import Models

Connect = Callable[..., Models]
HISTORY = [Turn("How often is the greenhouse watered in summer?", "Every second morning [1].")]
FAILURES: list[tuple[ChatBehaviour, int, str]] = [
    (chat_server.complete("a poem"), 100, "not JSON"),
    (chat_server.complete(None, finish="content_filter"), 100, "blocked (content_filter)"),
    (chat_server.refuse(500, "down"), 100, "no usable answer"),
    (chat_server.refuse(401, "bad key"), 100, "key"),
    (chat_server.complete("{}"), 0, "the budget of the day is used up"),
]
MALFORMED = [
    "",
    "null",
    "[]",
    '{"kind": "poem", "reason": "it rhymes"}',
    '{"kind": ["list"], "reason": "all"}',
    '{"kind": "list"}',
    '{"kind": "list", "reason": 7}',
    '{"kind": "list", "reason": "cut',
    "[" * 100_000,
]


def by_rules(question: str) -> Route:  # noqa: ARG001
    return Route("lookup", "it asks for one thing")


def test_a_model_tells_what_is_asked_for(chat: ChatServer, connect: Connect) -> None:
    chat.always = chat_server.complete(json.dumps({"kind": "list", "reason": "it wants all invoices"}))
    asked = connect().questions.route("Invoices of 2024, please", by_rules)
    assert asked.route == Route("list", "the model says: it wants all invoices")
    assert (asked.tokens, asked.cost) == (150, 0.15)
    assert "Invoices of 2024, please" in chat.requests[0].user


@pytest.mark.parametrize(("behaviour", "calls", "reason"), FAILURES)
def test_the_rules_tell_it_where_the_model_cannot_and_say_why(
    chat: ChatServer, connect: Connect, behaviour: ChatBehaviour, calls: int, reason: str
) -> None:
    chat.always = behaviour
    asked = connect(calls=calls, max_attempts=1).questions.route("Invoices?", by_rules)
    assert asked.route.kind == "lookup"
    assert asked.route.reason.startswith("it asks for one thing (by rules, since the model gave no answer: ")
    assert reason in asked.route.reason


@pytest.mark.parametrize("reply", MALFORMED)
def test_the_rules_tell_it_where_the_reply_is_malformed(
    chat: ChatServer, connect: Connect, reply: str
) -> None:
    chat.always = chat_server.complete(reply)
    asked = connect().questions.route("Invoices?", by_rules)
    assert asked.route.kind == "lookup"
    assert "by rules, since the model gave no answer" in asked.route.reason
    assert len(chat.requests) == 2
    assert asked.tokens == 300


def test_a_malformed_reply_is_repaired_once(chat: ChatServer, connect: Connect) -> None:
    good = chat_server.complete(json.dumps({"kind": "list", "reason": "all of them"}))
    chat.script.extend([chat_server.complete('{"kind": "poem"}'), good])
    assert connect().questions.route("Invoices?", by_rules).route.kind == "list"
    assert "poem" in json.dumps(chat.requests[1].body)


def test_a_model_completes_a_follow_up(chat: ChatServer, connect: Connect) -> None:
    whole = "How often is the greenhouse watered in winter?"
    chat.script.extend([chat_server.complete("no"), chat_server.complete(json.dumps({"question": whole}))])
    asked = connect().questions.condense("And in winter?", HISTORY)
    assert (asked.question, asked.note, asked.tokens) == (whole, None, 300)
    assert HISTORY[0].question in chat.requests[0].user


@pytest.mark.parametrize(("behaviour", "calls", "reason"), FAILURES)
def test_a_follow_up_that_the_model_did_not_complete_says_why(
    chat: ChatServer, connect: Connect, behaviour: ChatBehaviour, calls: int, reason: str
) -> None:
    chat.always = behaviour
    asked = connect(calls=calls, max_attempts=1).questions.condense("And in winter?", HISTORY)
    assert asked.question is None
    assert reason in (asked.note or "")
