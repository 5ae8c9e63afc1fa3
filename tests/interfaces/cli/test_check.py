"""``backstory check``: what a person reads, and what a script gets."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli.invocation import exit_code, run

SETTLED = """\
Settings: {settings}

Taken for chats
  chats/garden.txt
    WhatsApp text: 2 messages by 2 people
    2025-03-13 09:01 to 2025-03-13 09:02 UTC
    dates read as day-month-year; clock read in UTC; utf-8; English

Taken for documents
  date     format    pages  chunks  language  encoding  file
  no date  markdown              1  English   utf-8     posts/disk.md
  no date  markdown              1  English   utf-8     posts/irrigation.md

In all
  1 chat export: 2 messages by 2 people.
  2 documents: 0 with a date; 2 without a date; 2 chunks.
"""


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_a_workspace_that_would_be_read_whole(root: Path) -> None:
    result = run("check", str(root))
    assert result.exit_code == 0
    shown = lines(result.stdout)
    expected = lines(SETTLED.format(settings=root / "backstory.yaml"))
    assert shown[: len(expected)] == expected
    assert shown[-1] == "  Nothing was written."


def test_what_would_not_be_read_is_said_with_the_reason(root: Path) -> None:
    (root / "posts" / "a.mp3").write_bytes(b"ID3")
    (root / "posts" / "b.md").write_text("", encoding="utf-8")
    for number in range(5):
        (root / "posts" / f".hidden{number}").write_text("x", encoding="utf-8")
    (root / "chats" / "garden.txt").write_text(
        "01/02/2024, 10:00 - Ann: a\n02/03/2024, 10:00 - Bo: b\n", encoding="utf-8"
    )
    result = run("check", str(root))
    assert result.exit_code == 3
    shown = "\n".join(lines(result.stdout))
    assert "  chats/garden.txt\n    taken for a chat, waiting for your answer: its dates can be read" in shown
    assert "  posts/a.mp3\n    of a kind that is not read: this is a sound file" in shown
    assert "  posts/b.md\n    taken for a document, without text: there is no text" in shown
    assert "  posts/.hidden0, posts/.hidden1, posts/.hidden2 and 2 more\n    hidden file" in shown
    assert "  3 files would not be read." in shown
    assert "  problem: a run would find no message" in shown


def test_long_lists_of_documents_begin_with_what_lacks_something(root: Path) -> None:
    for number in range(25):
        (root / "posts" / f"a{number:02}.md").write_text("---\ndate: 2024-05-01\n---\nText", encoding="utf-8")
    shown = lines(run("check", str(root)).stdout)
    begin = shown.index("Taken for documents") + 2
    assert shown[begin].endswith("posts/disk.md")
    assert shown[begin + 20] == "  and 7 more, which --json lists"


def test_what_is_not_certain_of_a_document_is_said(root: Path) -> None:
    (root / "posts" / "latin.md").write_bytes("Das Rohr für die Bewässerung".encode("cp1252"))
    shown = "\n".join(lines(run("check", str(root)).stdout))
    doubt = "posts/latin.md\n    it is not UTF-8 and was read as cp1252; save it as UTF-8 if names or texts look wrong"
    assert f"Read only in part, or with doubts\n  {doubt}\n\nIn all" in shown


def test_scripts_get_every_file(root: Path) -> None:
    (root / "posts" / "a.mp3").write_bytes(b"ID3")
    result = run("check", str(root), "--json")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert (told["complete"], told["messages"], told["people"]) == (False, 2, 2)
    assert {file["source"]: file["status"] for file in told["files"]} == {
        "chats/garden.txt": "read", "posts/a.mp3": "unsupported", "posts/disk.md": "read",
        "posts/irrigation.md": "read",
    }  # fmt: skip
    assert "Ada" not in result.stdout


def test_it_needs_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chat.txt").write_text(
        "13/03/2025, 09:01 - Ada Lind: The drip irrigation line broke\n", encoding="utf-8"
    )
    result = run("check", "chat.txt")
    assert lines(result.stdout)[:4] == [
        "Settings: the defaults, since there is no workspace", "", "Taken for chats", "  chat.txt",
    ]  # fmt: skip
    assert "Ada" not in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize("arguments", [["nowhere.txt"], [], ["--workspace", "."], ["--nothing"]])
def test_bad_usage_is_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, "check", *arguments) == 2
