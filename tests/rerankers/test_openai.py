import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from backstory.errors import AuthenticationError, QuotaExhaustedError, RerankError
from backstory.providers.connection import ServiceAccess
from backstory.rerankers.language_model import LanguageModelReranker
from backstory.rerankers.openai import OpenAIRater
from backstory.settings import RerankSettings
from tests.providers.chat_server import (
    ChatBehaviour,
    ChatServer,
    complete,
    drop,
    refuse,
    run_chat_server,
    send,
)
from tests.providers.instant_time import InstantTime
from tests.rerankers.rerank_requests import answer_of, request_of

Connect = Callable[..., LanguageModelReranker]

KEY = "sk-test-that-must-never-be-seen"
GOOD = complete(json.dumps(answer_of({"soup": [2]}, [[0], [5]])))


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        running.always = GOOD
        yield running


@pytest.fixture
def connect(chat: ChatServer, tmp_path: Path, instant_time: InstantTime) -> Connect:
    access = ServiceAccess(
        api_key=SecretStr(KEY),
        limits_file=tmp_path / "limits.sqlite",
        clock=instant_time.clock,
        wait=instant_time.wait,
    )

    def make(**settings: Any) -> LanguageModelReranker:
        defaults = {"provider": "openai", "model": "tiny", "base_url": chat.url, "max_attempts": 3}
        given = RerankSettings.model_validate(defaults | settings)
        return LanguageModelReranker(OpenAIRater(given, access), threads=given.threads, meter=access.meter)

    return make


def test_asks_for_structured_ratings_and_gives_them(chat: ChatServer, connect: Connect) -> None:
    reranker = connect()
    [result] = reranker.judge([request_of("a", "b")])

    assert (result.values.tolist(), result.note) == ([[0, 5]], None)
    assert reranker.id.startswith("openai:127.0.0.1:")
    assert ":tiny:" in reranker.id
    [request] = chat.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["response_format"]["json_schema"]["strict"] is True
    assert request.body["temperature"] == 0
    assert [document["id"] for document in json.loads(request.user)["documents"]] == [1, 2]
    assert "temperature" not in _sent_with(connect, chat, temperature=None)


def test_the_key_of_the_writer_is_not_sent(
    chat: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = RerankSettings(provider="openai", model="tiny", base_url=chat.url)
    monkeypatch.setenv("BACKSTORY_WRITER_KEY", "sk-of-the-writer")
    for key in ("", "sk-of-the-reranker"):
        monkeypatch.setenv("BACKSTORY_RERANK_KEY", key)
        OpenAIRater(settings, ServiceAccess(limits_file=tmp_path / "limits.sqlite")).ask("soup", 1)
    assert [request.headers.get("authorization") for request in chat.requests] == [
        None,
        "Bearer sk-of-the-reranker",
    ]


def test_services_behind_one_gateway_have_ids_of_their_own(connect: Connect) -> None:
    ids = {connect(base_url=f"https://gateway.example/{path}/v1").id for path in ("openai", "groq")}
    assert len(ids) == 2


def _sent_with(connect: Connect, chat: ChatServer, **settings: Any) -> dict[str, Any]:
    connect(**settings).judge([request_of("a", "b")])
    return chat.requests[-1].body


@pytest.mark.parametrize(
    ("behaviour", "note"),
    [
        (complete("{}", finish="content_filter"), "blocked (content_filter)"),
        (complete('{"topics"', finish="length"), "cut (length)"),
        (complete(None, refusal="I cannot help with that."), "refused"),
    ],
)
def test_an_answer_that_is_withheld_gives_a_note(
    chat: ChatServer, connect: Connect, behaviour: ChatBehaviour, note: str
) -> None:
    chat.script.append(behaviour)
    [result] = connect().judge([request_of("a", "b")])
    assert (result.values.shape, result.note) == ((0, 2), note)
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "note"),
    [
        (complete("no"), "broken (not JSON)"),
        (complete(None), "broken (not JSON)"),
        (send(200, b'{"choices": []}'), "broken (not JSON)"),
        (complete('{"topics": [], "documents": []}'), "empty (no topic named)"),
    ],
)
def test_an_answer_that_is_not_whole_is_asked_for_once_more(
    chat: ChatServer, connect: Connect, behaviour: ChatBehaviour, note: str
) -> None:
    chat.script.extend([behaviour, GOOD, behaviour, behaviour])
    results = [connect().judge([request_of("a", "b")])[0] for _ in range(2)]
    assert [result.note for result in results] == [None, note]
    assert len(chat.requests) == 4


@pytest.mark.parametrize("behaviour", [refuse(503), refuse(429), drop, send(200, b"<html>")])
def test_what_may_pass_is_repeated(chat: ChatServer, connect: Connect, behaviour: ChatBehaviour) -> None:
    chat.script.extend([behaviour] * 2)
    assert connect().judge([request_of("a", "b")])[0].note is None
    assert len(chat.requests) == 3


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (refuse(401, f"bad key {KEY}"), AuthenticationError),
        (refuse(402), QuotaExhaustedError),
        (refuse(400, "unknown model"), RerankError),
        (refuse(307, headers={"Location": "http://elsewhere.example"}), RerankError),
    ],
)
def test_what_cannot_pass_is_an_error_of_the_reranker_without_the_key(
    chat: ChatServer, connect: Connect, behaviour: ChatBehaviour, error: type[Exception]
) -> None:
    chat.script.append(behaviour)
    with pytest.raises(error) as caught:
        connect().judge([request_of("a", "b")])
    assert KEY not in str(caught.value)
    assert "writers" not in str(caught.value)
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"provider": "openai"}, "needs model"),
        (
            {"provider": "openai", "model": "m", "base_url": "http://192.0.2.1/v1"},
            "chats, documents and key would",
        ),
        ({"provider": "gemini", "base_url": "https://u:p@host"}, "without user, password"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RerankSettings.model_validate(settings)
