"""A document whose text a service refuses is named, so that a person can leave it out."""

from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.errors import EmbeddingInputError
from backstory.workspace import open_workspace
from tests.providers.chat_server import run_chat_server
from tests.providers.embedding_answers import refuse_word


def test_the_document_of_a_refused_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "posts").mkdir()
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "garden.txt").write_text(
        "13/02/2024, 10:00 - Anna Weber: The pump failed\n", encoding="utf-8"
    )
    for name, text in {
        "pump": "The pump failed.",
        "letter": "A poisoned letter.",
        "frost": "Frost in May.",
    }.items():
        (tmp_path / "posts" / f"{name}.md").write_text(text, encoding="utf-8")
    with run_chat_server() as server:
        server.always = refuse_word("poison")
        (tmp_path / "backstory.yaml").write_text(
            f"embedding: {{provider: openai, model: tiny, base_url: '{server.url}', dimension: 16}}\n",
            encoding="utf-8",
        )
        with pytest.raises(EmbeddingInputError, match=r"letter\.md: .*refuses the text"):
            run_pipeline(open_workspace(tmp_path))
