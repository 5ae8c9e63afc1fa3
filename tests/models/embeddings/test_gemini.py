import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google import genai
from google.genai.types import HttpOptions

from backstory.models.embeddings.service_embedder import GeminiEmbedder
from backstory.settings.embedding import EmbeddingSettings
from tests.models.services import gemini_server
from tests.models.services.gemini_server import GeminiServer, vector_of
from tests.models.services.instant_time import InstantTime

Connect = Callable[..., GeminiEmbedder]

TEXTS = ["a train to Lisbon", "soup", "borrow checker"]


def expected(texts: list[str], dimension: int = 16) -> Any:
    rows = np.array([vector_of(text, dimension) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_sends_one_content_per_text_and_gives_unit_rows_in_order(
    server: GeminiServer, connect: Connect, api_key: str
) -> None:
    vectors = connect().embed(TEXTS, task="document")

    np.testing.assert_allclose(vectors, expected(TEXTS), atol=1e-6)
    (request,) = server.requests
    assert request.path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    assert request.headers["x-goog-api-key"] == api_key
    assert [entry["content"]["parts"] for entry in request.entries] == [[{"text": text}] for text in TEXTS]
    assert {entry["taskType"] for entry in request.entries} == {"RETRIEVAL_DOCUMENT"}
    assert {entry["outputDimensionality"] for entry in request.entries} == {16}


def test_more_than_a_hundred_texts_are_split(server: GeminiServer, connect: Connect) -> None:
    texts = [f"message {number}" for number in range(250)]

    vectors = connect().embed(texts, task="document")

    assert [len(request.texts) for request in server.requests] == [100, 100, 50]
    np.testing.assert_allclose(vectors, expected(texts), atol=1e-6)


def test_a_quota_answer_holds_back_every_thread(
    server: GeminiServer, open_service: Callable[..., Any], api_key: str
) -> None:
    assert api_key
    woken = threading.Event()
    paused = threading.Event()

    class HeldTime(InstantTime):
        """Lets a thread that waits go on when the test says so."""

        def wait(self, seconds: float) -> None:
            super().wait(0.0)
            self.waits[-1] = seconds
            paused.set()
            woken.wait()
            super().wait(seconds)

    held = HeldTime()
    server.script.append(gemini_server.fail(429, headers={"Retry-After": "5"}))
    settings = EmbeddingSettings(provider="gemini", base_url=server.url, dimension=16)
    embedder = GeminiEmbedder(settings, open_service(settings, clock=held.clock, wait=held.wait))
    first = threading.Thread(target=embedder.embed, args=(["first"],), kwargs={"task": "query"})
    first.start()
    paused.wait()
    paused.clear()
    second = threading.Thread(target=embedder.embed, args=(["second"],), kwargs={"task": "query"})
    second.start()
    paused.wait()
    assert len(server.requests) == 1
    woken.set()
    first.join()
    second.join()
    assert sorted(request.texts[0] for request in server.requests) == ["first", "first", "second"]


def test_a_given_client_is_used_within_the_same_time_out(
    server: GeminiServer, open_service: Callable[..., Any]
) -> None:
    client = genai.Client(api_key="of-the-caller", http_options=HttpOptions(base_url=server.url))
    settings = EmbeddingSettings(provider="gemini", dimension=16, timeout_seconds=0.2, max_attempts=50)
    embedder = GeminiEmbedder(settings, open_service(settings, client=client))
    server.script.append(server.stay_silent)

    vectors = embedder.embed(["soup"], task="query")

    np.testing.assert_allclose(vectors, expected(["soup"]), atol=1e-6)
    assert len(server.requests) >= 2  # more where an answer of this machine takes as long
    assert {request.headers["x-goog-api-key"] for request in server.requests} == {"of-the-caller"}


def test_the_key_named_first_is_the_one_that_is_sent(
    server: GeminiServer, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "another-key")
    settings = EmbeddingSettings(provider="gemini", base_url=server.url, dimension=16)

    GeminiEmbedder(settings).embed(["soup"], task="query")

    assert server.requests[0].headers["x-goog-api-key"] == api_key
