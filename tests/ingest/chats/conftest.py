"""Writing small exports."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.single_exports import read_export

ReadText = Callable[..., tuple[pl.DataFrame, pl.DataFrame]]


@pytest.fixture
def read_text(tmp_path: Path) -> ReadText:
    """Give a function that reads a text as an export, with any of the settings."""

    def read(
        content: str | bytes, name: str = "chat.txt", **settings: str
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_export(path, ConversationSettings.model_validate(settings))

    return read
