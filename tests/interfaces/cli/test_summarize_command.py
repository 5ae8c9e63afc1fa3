"""``backstory summarize``: what it prints, and its exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from tests.interfaces.cli.invocation import exit_code
from tests.models.services.chat_server import ChatServer, complete, run_chat_server

TEXT = "\n\n".join(f"The pump of room {room} is old, and it leaks." for room in range(40))
SAID = complete(json.dumps({"summary": "The pumps leak."}))
BLOCKED = complete(None, finish="content_filter")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace of one document."""
    folder = tmp_path / "workspace"
    (folder / "posts").mkdir(parents=True)
    (folder / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    (folder / "posts" / "pumps.md").write_text(f"# Pumps\n\n{TEXT}\n", encoding="utf-8")
    with Library.open(folder) as library:
        assert library.index().success
    return folder


@pytest.fixture
def chat(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        running.always = SAID
        (root / "backstory.yaml").write_text(
            "embedding: {provider: hashing}\n"
            f"services: {{openai: {{base_url: '{running.url}'}}}}\n"
            "summaries: {provider: openai, model: tiny, threads: 1}\n",
            encoding="utf-8",
        )
        yield running


def test_a_part_that_failed_is_told_and_ends_with_3(
    root: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chat.script.extend([SAID, BLOCKED])
    asked = ("summarize", "pumps.md", "-w", str(root), "--max-words-per-section", "250")
    assert exit_code(monkeypatch, *asked) == 3
    shown = capsys.readouterr()
    assert "The pumps leak." in shown.out
    assert "Not summarized: section 2, Pumps: blocked (content" in shown.out
    assert "warning: section 2, Pumps: blocked (content_filter)" in shown.err


def test_no_summary_ends_with_1(
    root: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chat.always = BLOCKED
    assert exit_code(monkeypatch, "summarize", "pumps.md", "-w", str(root)) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "blocked (content_filter)" in shown.err


def test_a_used_up_budget_ends_with_4(root: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with (root / "backstory.yaml").open("a", encoding="utf-8") as file:
        file.write("costs: {day: {calls: 0}}\n")
    assert exit_code(monkeypatch, "summarize", "pumps.md", "-w", str(root)) == 4
    assert chat.requests == []
