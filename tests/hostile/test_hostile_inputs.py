"""Whatever lies in the folders of a workspace, a reader ends with a status for it, and reads what lies beside it."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pytest

from backstory.documents import read_documents
from backstory.messages import read_exports
from backstory.settings import ConversationSettings, DocumentSettings
from tests.hostile.inputs import HOSTILE, LINES, Hostile

CHATS = ConversationSettings(read_seconds=1, read_megabytes=64)
POSTS = DocumentSettings(read_seconds=1, read_megabytes=64)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reading.md"
CHAT_INPUTS = [hostile for hostile in HOSTILE if hostile.folder == "chats"]
POST_INPUTS = [hostile for hostile in HOSTILE if hostile.folder == "posts"]


def name_of(hostile: Hostile) -> str:
    return f"{hostile.folder}/{hostile.name}"


def find_row(sources: pl.DataFrame, name: str) -> tuple[str, str]:
    row = sources.row(by_predicate=pl.col("source") == name, named=True)
    return row["status"], row["reason"] or ""


@pytest.mark.parametrize("hostile", CHAT_INPUTS, ids=name_of)
def test_a_hostile_export_has_a_status_and_costs_only_itself(hostile: Hostile, tmp_path: Path) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    (folder / "good.txt").write_text(LINES, encoding="utf-8")
    hostile.make(folder / hostile.name)

    read = read_exports(folder, CHATS)

    status, reason = find_row(read.sources, name_of(hostile))
    assert status == hostile.status, reason
    assert hostile.reason in reason
    assert read.messages.filter(pl.col("source") == "good.txt").height == 60
    refused = read.quarantine.filter(pl.col("source") == hostile.name)
    is_whole = status in ("read", "ignored") and "could not be read" not in reason
    assert refused.is_empty() == is_whole


@pytest.mark.parametrize("hostile", POST_INPUTS, ids=name_of)
def test_a_hostile_document_has_a_status_and_costs_only_itself(hostile: Hostile, tmp_path: Path) -> None:
    folder = tmp_path / "posts"
    folder.mkdir()
    (folder / "good.md").write_text("Text", encoding="utf-8")
    hostile.make(folder / hostile.name)

    read = read_documents(folder, POSTS)

    status, reason = find_row(read.sources, name_of(hostile))
    assert status == hostile.status, reason
    assert hostile.reason in reason
    assert "good.md" in read.documents.filter(status="ok")["uri"].to_list()


def test_the_page_on_reading_lists_what_is_tried_here() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| Lies in |")[2]
    rows = re.findall(r"^\| `(chats|posts)/` \| (.+) \| `(\w+)` \|$", table, re.MULTILINE)
    assert rows == [(hostile.folder, hostile.what, hostile.status) for hostile in HOSTILE]


def test_folders_and_files_without_permission_are_named(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    for name in ("chats/team/a.txt", "chats/b.txt", "posts/team/a.md", "posts/b.md"):
        path = open_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINES, encoding="utf-8")

    with shut(open_folder / "chats" / "team", 0):
        read = read_exports(open_folder / "chats", CHATS)
    assert find_row(read.sources, "chats/team/")[0] == "failed"
    assert read.messages["source"].unique().to_list() == ["b.txt"]
    with shut(open_folder / "chats" / "b.txt", 0):
        read = read_exports(open_folder / "chats", CHATS)
    assert find_row(read.sources, "chats/b.txt")[0] == "failed"
    with shut(open_folder / "posts" / "team", 0):
        documents = read_documents(open_folder / "posts", POSTS)
    assert find_row(documents.sources, "posts/team/")[0] == "failed"
    with shut(open_folder / "posts" / "b.md", 0):
        documents = read_documents(open_folder / "posts", POSTS)
    assert find_row(documents.sources, "posts/b.md")[0] == "failed"


def test_a_name_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "caf\udce9.txt").write_text(LINES, encoding="utf-8")

    read = read_exports(tmp_path / "chats", CHATS)

    assert find_row(read.sources, "chats/caf\\xe9.txt") == (
        "failed",
        "the file name is not UTF-8; rename the file",
    )


def test_one_null_byte_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "null.txt").write_text(LINES.replace("hello 7", "hello \0 7"), encoding="utf-8")
    read = read_exports(tmp_path, CHATS)
    assert len(read.messages) == 60
    assert read.messages["text"][7] == "hello \0 7"


def test_a_file_reads_the_same_in_both_processes(tmp_path: Path) -> None:
    text = "".join(
        f"[13.02.24, 10:{n % 60:02}:00] {'Ann' if n % 3 else 'Ben'}: hello {n}\n" for n in range(30_000)
    )
    small, large = tmp_path / "small", tmp_path / "large"
    for folder in (small, large):
        folder.mkdir()
    (small / "chat.txt").write_text(text[:900_000].rpartition("\n")[0] + "\n", encoding="utf-8")
    (large / "chat.txt").write_text(text, encoding="utf-8")

    here = read_exports(small, ConversationSettings()).messages
    there = read_exports(large, ConversationSettings()).messages

    assert there.head(len(here)).equals(here)
    assert (large / "chat.txt").stat().st_size > 1 << 20
