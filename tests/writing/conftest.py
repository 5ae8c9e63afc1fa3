"""A chat server, and writers that ask it without waiting in real time."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from backstory.models.chat_model import ChatModel
from backstory.settings.writers import WriterSettings
from backstory.writing.draft_answer import make_post_form
from backstory.writing.model_writer import ModelWriter
from backstory.writing.prompt import load_prompt
from tests.models.services.chat_server import ChatServer

KEY = "sk-test-key-that-must-never-be-seen"


@pytest.fixture
def ask_chat(chat: ChatServer, open_service: Callable[..., Any]) -> Callable[..., ModelWriter]:
    def make(**settings: Any) -> ModelWriter:
        given = {
            "provider": "openai",
            "model": "tiny",
            "base_url": chat.url,
            "requests_per_minute": 10_000,
        } | settings
        checked = WriterSettings.model_validate(given)
        form = make_post_form(checked.max_output_tokens)
        return ModelWriter(
            ChatModel(checked, open_service(checked, key=SecretStr(KEY))),
            form,
            load_prompt(None),
            max_characters=5000,
        )

    return make
