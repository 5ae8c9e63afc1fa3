"""A chat server, and writers that ask it without waiting in real time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backstory.providers.connection import ServiceAccess
from backstory.settings import WriterSettings
from backstory.writing.model_writer import ModelWriter
from backstory.writing.openai_model import OpenAIModel
from backstory.writing.prompt import load_prompt
from tests.providers.chat_server import ChatServer, run_chat_server
from tests.providers.instant_time import InstantTime

KEY = "sk-test-key-that-must-never-be-seen"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        yield running


@pytest.fixture
def ask_chat(chat: ChatServer, tmp_path: Path, instant_time: InstantTime) -> Callable[..., ModelWriter]:
    def make(**settings: Any) -> ModelWriter:
        given = {
            "provider": "openai",
            "model": "tiny",
            "base_url": chat.url,
            "requests_per_minute": 10_000,
        } | settings
        access = ServiceAccess(
            api_key=SecretStr(KEY),
            limits_file=tmp_path / "limits.sqlite",
            clock=instant_time.clock,
            wait=instant_time.wait,
        )
        model = OpenAIModel(WriterSettings.model_validate(given), access)
        return ModelWriter(model, load_prompt(None), max_characters=5000)

    return make
