"""A document whose text a service refuses is a failed file, and no other document waits for it."""

from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.pipeline.workspace import open_workspace
from tests.models.services.chat_server import ChatServer, run_chat_server
from tests.models.services.embedding_answers import embed, refuse_word
from tests.world import describe

TEXTS = {"pump": "The pump failed.", "letter": "A poisoned letter.", "frost": "Frost in May."}


def write_inputs(root: Path, server: ChatServer, model: str = "tiny") -> None:
    for name in ("posts", "chats"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "chats" / "garden.txt").write_text(
        "13/02/2024, 10:00 - Anna Weber: The pump failed\n", encoding="utf-8"
    )
    for name, text in TEXTS.items():
        (root / "posts" / f"{name}.md").write_text(text, encoding="utf-8")
    (root / "backstory.yaml").write_text(
        f"services: {{openai: {{base_url: '{server.url}'}}}}\n"
        f"embedding: {{provider: openai, model: {model}, dimension: 16}}\n"
        "privacy: {pseudonyms: false}\n",
        encoding="utf-8",
    )


def failed_files(root: Path) -> dict[str, str]:
    sources = open_workspace(root).tables.read("sources").filter(pl.col("status") == "failed")
    return dict(sources.select("source", "reason").iter_rows())


def served(root: Path) -> set[str]:
    documents = open_workspace(root).tables.read("documents").filter(pl.col("status") == "ok")
    return set(documents["uri"])


def test_a_document_that_the_service_refuses_is_a_failed_file_until_it_or_the_model_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    root, fresh = tmp_path / "workspace", tmp_path / "fresh"
    with run_chat_server() as server:
        server.always = refuse_word("poison")
        write_inputs(root, server)
        run_pipeline(open_workspace(root))
        assert set(failed_files(root)) == {"posts/letter.md"}
        assert "letter.md" in failed_files(root)["posts/letter.md"]
        assert served(root) == {"pump.md", "frost.md"}

        asked = len(server.requests)
        assert all(not report.computed for report in run_pipeline(open_workspace(root)))
        assert len(server.requests) == asked
        write_inputs(fresh, server)
        run_pipeline(open_workspace(fresh))
        assert describe(root) == describe(fresh)

        (root / "posts" / "letter.md").write_text("A kind letter.", encoding="utf-8")
        run_pipeline(open_workspace(root))
        assert failed_files(root) == {}
        assert served(root) == {"pump.md", "frost.md", "letter.md"}

        write_inputs(root, server)
        run_pipeline(open_workspace(root))
        assert set(failed_files(root)) == {"posts/letter.md"}
        server.always = embed
        write_inputs(root, server, model="other")
        run_pipeline(open_workspace(root))
        assert served(root) == {"pump.md", "frost.md", "letter.md"}
