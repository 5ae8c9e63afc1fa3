"""A chat server, and writers that ask it without waiting in real time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backstory.models.chat.openai import OpenAIModel
from backstory.models.services.connection import WRITERS, ServiceAccess
from backstory.settings.writers import WriterSettings
from backstory.writing.draft_answer import make_post_form
from backstory.writing.model_writer import ModelWriter
from backstory.writing.prompt import load_prompt
from tests.models.services.chat_server import ChatServer
from tests.models.services.instant_time import InstantTime

KEY = "sk-test-key-that-must-never-be-seen"


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
        checked = WriterSettings.model_validate(given)
        form = make_post_form(checked.max_output_tokens)
        return ModelWriter(
            OpenAIModel(checked, WRITERS, access), form, load_prompt(None), max_characters=5000
        )

    return make
