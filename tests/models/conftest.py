"""Both services behind loopback servers, for the tests of what holds for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.models.known_services import GeminiService, OpenAIService, Service
from tests.models.service_uses import CHAT_USES, USES, ChatUse, Use
from tests.models.services.chat_server import run_chat_server
from tests.models.services.gemini_server import GeminiServer

OPENAI_KEY = "sk-test-key-that-must-never-be-seen"


@pytest.fixture
def openai_service(
    monkeypatch: pytest.MonkeyPatch, open_service: Callable[..., Any]
) -> Iterator[OpenAIService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        yield OpenAIService(running, open_service, OPENAI_KEY)


@pytest.fixture
def gemini_service(server: GeminiServer, open_service: Callable[..., Any], api_key: str) -> GeminiService:
    return GeminiService(server, open_service, api_key)


@pytest.fixture(params=["gemini", "openai"])
def service(request: pytest.FixtureRequest) -> Service:
    """Give each service in turn."""
    found: Service = request.getfixturevalue(f"{request.param}_service")
    return found


@pytest.fixture(params=CHAT_USES)
def chat_use(request: pytest.FixtureRequest, service: Service) -> ChatUse:
    """Give each use of a chat model in turn. After its script, the server gives good answers."""
    use = CHAT_USES[request.param]
    service.play(always=use.answer(service))
    return use


@pytest.fixture(params=["answer", "embed"])
def use(request: pytest.FixtureRequest, service: Service) -> Use:
    """Give a use of a chat model and one of an embedder: all uses of each kind call a service in one way.

    After its script, the server gives good answers.
    """
    found = USES[request.param]
    service.play(always=found.answer(service))
    return found
