from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backstory.base.errors import (
    ModelError,
    ModelSetupError,
)
from backstory.models.embeddings.service_embedder import ServiceEmbedder
from tests.errors import raises
from tests.models.services.chat_server import ChatBehaviour, ChatServer
from tests.models.services.embedding_answers import (
    OWN_WIDTH,
    change,
    refuse_many,
    refuse_word,
    reply,
    vectors_of,
)
from tests.models.services.gemini_server import vector_of

Connect = Callable[..., ServiceEmbedder]

TEXTS = ["a train to Lisbon", "soup", "borrow checker"]


def expected(texts: list[str], width: int = 16) -> Any:
    rows = np.array([vector_of(text, width) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def inputs(vectors: ChatServer) -> list[list[str]]:
    return [request.body["input"] for request in vectors.requests]


def test_asks_for_the_set_width_and_orders_the_answer_by_index(
    vectors: ChatServer, connect_openai: Connect
) -> None:
    found = connect_openai(dimension=16).embed(TEXTS, task="document")

    np.testing.assert_allclose(found, expected(TEXTS), atol=1e-6)
    (request,) = vectors.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "tiny", "input": TEXTS, "dimensions": 16}
    assert "authorization" not in request.headers


def test_without_a_set_width_the_service_is_asked_once(vectors: ChatServer, connect_openai: Connect) -> None:
    embedder = connect_openai(dimension=None)
    found = [embedder.embed(TEXTS, task="document") for _ in range(2)]

    np.testing.assert_allclose(found[0], expected(TEXTS, OWN_WIDTH), atol=1e-6)
    assert embedder.dimension == OWN_WIDTH
    assert inputs(vectors) == [["ok"], TEXTS, TEXTS]
    assert not any("dimensions" in request.body for request in vectors.requests)


def test_naming_the_space_calls_nobody(vectors: ChatServer, connect_openai: Connect) -> None:
    host = vectors.url.removeprefix("http://")

    assert connect_openai(dimension=None).id == f"openai:{host}:tiny:plain:own"
    assert connect_openai(dimension=32).id == f"openai:{host}:tiny:plain:32"
    assert vectors.requests == []


def test_the_id_holds_whatever_changes_vectors(connect_openai: Connect) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"model": "other"},
        {"dimension": 32},
        {"base_url": "http://127.0.0.1:9/v1"},
        {"base_url": "http://127.0.0.1:9/v2"},
        {"query_prefix": "query: "},
        {"document_prefix": "query: "},
        {"query_prefix": "query: ", "document_prefix": "passage: "},
    ]

    assert len({connect_openai(**variant).id for variant in variants}) == len(variants)
    for same in ({"threads": 1}, {"timeout_seconds": 3}, {"max_input_tokens": 100}):
        assert connect_openai(**same).id == connect_openai().id


def test_prefixes_are_sent_and_counted(vectors: ChatServer, connect_openai: Connect) -> None:
    embedder = connect_openai(query_prefix="query: ", document_prefix="passage: ")

    embedder.embed(["soup"], task="query")
    embedder.embed(["soup"], task="document")

    assert inputs(vectors) == [["query: soup"], ["passage: soup"]]
    assert embedder.count_tokens(["soup"])[0] > connect_openai().count_tokens(["soup"])[0]


@pytest.mark.parametrize(
    ("settings", "limit"),
    [({}, 512), ({"base_url": None}, 8191), ({"max_input_tokens": 2000}, 2000)],
)
def test_the_input_limit_is_that_of_most_models_unless_it_is_known(
    connect_openai: Connect, settings: dict[str, Any], limit: int
) -> None:
    assert connect_openai(**settings).max_input_tokens == limit


def test_the_key_is_sent_where_it_is_set_for(
    vectors: ChatServer, connect_openai: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    connect_openai().embed(["soup"], task="query")
    monkeypatch.setenv("BACKSTORY_EMBEDDING_KEY", "sk-mine")
    connect_openai().embed(["soup"], task="query")

    assert [request.headers.get("authorization") for request in vectors.requests] == [None, "Bearer sk-mine"]


@pytest.mark.parametrize("key", ["sk-abc\ndef", "sk-abc def", "sk-abc\x7fdef", "sk-äbc-def"])
def test_what_no_header_can_hold_is_refused_as_a_key_and_not_shown(
    vectors: ChatServer,
    connect_openai: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    key: str,
) -> None:
    monkeypatch.setenv("BACKSTORY_EMBEDDING_KEY", key)
    with raises(ModelSetupError, "unusable_key", "BACKSTORY_EMBEDDING_KEY") as caught:
        connect_openai().embed(["soup"], task="query")
    assert "bc" not in f"{caught.value}{caplog.text}"
    assert not vectors.requests


def _set(row: int, values: Any) -> ChatBehaviour:
    return change(lambda rows: [*rows[:row], values, *rows[row + 1 :]])


@pytest.mark.parametrize(
    ("behaviour", "code", "named"),
    [
        (change(lambda rows: rows[1:]), "unusable_vectors", [2, 16]),
        (_set(1, None), "unusable_vectors", []),
        (_set(1, "AAAA"), "unusable_vectors", []),
        (_set(1, [1.0] * 15), "unusable_vectors", [3, 15, 16]),
        (_set(1, [float("nan")] * 16), "unusable_vectors", [1]),
        (_set(1, [0.0] * 16), "unusable_vectors", [1]),
        (lambda request: reply(vectors_of(request), [0, 1, 1]), "unusable_vectors", []),
        (lambda request: reply(vectors_of(request), [1, 2, 3]), "unusable_vectors", []),
        (lambda request: reply(vectors_of(request), [None, None, None]), "unusable_vectors", []),
    ],
    ids=["short", "null", "base64", "narrow", "nan", "zero", "twice", "from 1", "no index"],
)
def test_unusable_vectors_are_an_error(
    vectors: ChatServer,
    connect_openai: Connect,
    behaviour: ChatBehaviour,
    code: str,
    named: list[object],
) -> None:
    vectors.script.append(behaviour)

    with raises(ModelError, code, *named):
        connect_openai().embed(TEXTS, task="document")

    assert len(vectors.requests) == 1


@pytest.mark.parametrize("status", [400, 422])
def test_the_refused_text_is_found(vectors: ChatServer, connect_openai: Connect, status: int) -> None:
    vectors.always = refuse_word("poison", status)
    texts = [f"message {number}" for number in range(20)]
    texts[13] = "a poisoned letter"

    with raises(ModelError, "refused_text", 17, status) as raised:
        connect_openai().embed(texts, task="document")

    assert raised.value.text == "a poisoned letter"
    assert len(vectors.requests) < 12


def test_a_service_that_takes_fewer_texts_at_once_gets_fewer(
    vectors: ChatServer, connect_openai: Connect
) -> None:
    vectors.always = refuse_many(8)
    texts = [f"message {number}" for number in range(30)]

    found = connect_openai().embed(texts, task="document")

    np.testing.assert_allclose(found, expected(texts), atol=1e-6)
