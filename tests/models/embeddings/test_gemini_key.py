"""The key of the Gemini API: where it comes from, and where it does not go."""

import traceback
from collections.abc import Callable

import pytest

from backstory.base.errors import AuthenticationError, EmbeddingError
from backstory.models.embeddings.service_embedder import GeminiEmbedder
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import raises
from tests.models.services import gemini_server
from tests.models.services.gemini_server import GeminiServer

Connect = Callable[..., GeminiEmbedder]

TEXTS = ["a train to Lisbon", "soup", "borrow checker"]


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_the_key_comes_from_the_environment(
    server: GeminiServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "a-key")
    settings = EmbeddingSettings(provider="gemini", base_url=server.url, dimension=16)

    GeminiEmbedder(settings).embed(["soup"], task="query")

    assert server.requests[0].headers["x-goog-api-key"] == "a-key"


def test_the_key_named_first_is_the_one_that_is_sent(
    server: GeminiServer, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "another-key")
    settings = EmbeddingSettings(provider="gemini", base_url=server.url, dimension=16)

    GeminiEmbedder(settings).embed(["soup"], task="query")

    assert server.requests[0].headers["x-goog-api-key"] == api_key


def test_without_a_key_nothing_is_sent(server: GeminiServer) -> None:
    settings = EmbeddingSettings(provider="gemini", base_url=server.url)

    with raises(AuthenticationError, "missing_key", variables=("GEMINI_API_KEY", "GOOGLE_API_KEY")):
        GeminiEmbedder(settings).embed(["soup"], task="query")

    assert server.requests == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_key_does_not_follow_a_redirect(
    server: GeminiServer, connect: Connect, api_key: str, status: int
) -> None:
    with gemini_server.run_gemini_server() as other:
        target = f"{other.url}/v1beta?key={api_key}"
        server.script.append(gemini_server.fail(status, headers={"Location": target}))

        with raises(EmbeddingError, "redirected", target=other.url, setting="base_url") as caught:
            connect(max_attempts=3).embed(TEXTS, task="document")

        assert other.requests == []
    assert len(server.requests) == 1
    assert api_key not in "".join(traceback.format_exception(caught.value))
