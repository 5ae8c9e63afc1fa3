"""Both services behind loopback servers, for the tests of what holds for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from backstory.models.services.connection import ServiceAccess
from backstory.models.services.gemini import GeminiAccess
from tests.models.known_services import GeminiService, OpenAIService, Service
from tests.models.service_uses import CHAT_USES, USES, ChatUse, Use
from tests.models.services.chat_server import run_chat_server
from tests.models.services.gemini_server import GeminiServer
from tests.models.services.instant_time import InstantTime

OPENAI_KEY = "sk-test-key-that-must-never-be-seen"


@pytest.fixture
def openai_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, instant_time: InstantTime
) -> Iterator[OpenAIService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    access = ServiceAccess(
        api_key=SecretStr(OPENAI_KEY),
        limits_file=tmp_path / "openai_limits.sqlite",
        clock=instant_time.clock,
        wait=instant_time.wait,
    )
    with run_chat_server() as running:
        yield OpenAIService(running, access)


@pytest.fixture
def gemini_service(server: GeminiServer, access: GeminiAccess) -> GeminiService:
    return GeminiService(server, access)


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


@pytest.fixture(params=USES)
def use(request: pytest.FixtureRequest, service: Service) -> Use:
    """Give each use of a service in turn. After its script, the server gives good answers."""
    found = USES[request.param]
    service.play(always=found.answer(service))
    return found
