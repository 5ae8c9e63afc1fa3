"""``backstory check``: what a person reads, and what a script gets."""

from pathlib import Path

import pytest

from tests.interfaces.cli.invocation import run


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if not line.startswith("  note: ")]


def test_a_workspace_that_would_be_read_whole(root: Path) -> None:
    result = run("check", str(root))
    assert result.exit_code == 0
    shown = lines(result.stdout)
    assert str(root / "backstory.yaml") in shown[0]
    assert shown.index("chats/garden.txt") < shown.index("2025-03-13 09:01 to 09:02 UTC")
    assert "dates read as day-month-year; clock read in UTC; utf-8; English" in shown
    [disk] = [line.split() for line in shown if "posts/disk.md" in line]
    assert disk == ["no", "date", "markdown", "1", "English", "utf-8", "posts/disk.md"]


def test_what_would_not_be_read_is_named_once_with_the_reason(root: Path) -> None:
    (root / "posts" / "a.mp3").write_bytes(b"ID3")
    (root / "posts" / "b.md").write_text("", encoding="utf-8")
    (root / "posts" / "latin.md").write_bytes("Das Rohr für die Bewässerung".encode("cp1252"))
    for number in range(12):
        (root / "posts" / f".hidden{number:02}").write_text("x", encoding="utf-8")
    (root / "chats" / "garden.txt").write_text(
        "01/02/2024, 10:00 - Ann: a\n02/03/2024, 10:00 - Bo: b\n", encoding="utf-8"
    )
    result = run("check", str(root))
    assert result.exit_code == 3
    shown = lines(result.stdout)
    [chat, sound, empty, latin] = [
        [line for line in shown if name in line]
        for name in ("chats/garden.txt", "posts/a.mp3", "posts/b.md", "posts/latin.md")
    ]
    assert [len(said) for said in (chat, sound, empty, latin)] == [1, 1, 1, 1]
    assert chat[0].startswith("chats/garden.txt: a chat waiting for your answer: ")
    assert "cp1252" in latin[0]
    [hidden] = [line for line in shown if ".hidden" in line]
    assert "posts/.hidden09 and 2 more: " in hidden


def test_long_lists_of_documents_begin_with_what_lacks_something(root: Path) -> None:
    for number in range(25):
        (root / "posts" / f"a{number:02}.md").write_text("---\ndate: 2024-05-01\n---\nText", encoding="utf-8")
    shown = lines(run("check", str(root)).stdout)
    listed = [line for line in shown if "posts/" in line]
    assert listed[0].endswith("posts/disk.md")
    assert len(listed) == 20


def test_it_needs_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chat.txt").write_text(
        "13/03/2025, 09:01 - Ada Lind: The drip irrigation line broke\n", encoding="utf-8"
    )
    result = run("check", "chat.txt")
    assert "chat.txt" in lines(result.stdout)
    assert "Ada" not in result.stdout
    assert result.exit_code == 0
