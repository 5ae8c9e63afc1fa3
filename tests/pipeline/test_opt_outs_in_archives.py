"""People who opted out of conversations with ``removals: keep``, after the exports have lost their messages."""

import json
from pathlib import Path

import polars as pl
import pytest

from backstory.ingest.chats.merging import read_archive
from backstory.ingest.privacy.exclusions import Forgotten
from backstory.pipeline.chats.leaks import find_leaks
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import CHAT, SETTINGS, build_table, write_workspace

KEEP = SETTINGS.replace("folder: chats", "folder: chats, removals: keep")
LINES = CHAT.splitlines(keepends=True)
OFF = "15/03/2025, 19:00 - Ada Lind: #backstory off\n"
ON = "15/03/2025, 19:00 - Ada Lind: #backstory on\n"
EARLIER_ON = "14/03/2025, 19:00 - Ada Lind: #backstory on\n"


def read(workspace: Workspace) -> pl.DataFrame:
    workspace = open_workspace(workspace.root)
    build_table(workspace, "messages", find_partitions(workspace))
    return workspace.tables.read("messages")


def configure(workspace: Workspace, privacy: str, settings: str = KEEP) -> None:
    (workspace.root / "backstory.yaml").write_text(f"{settings}privacy: {privacy}\n", encoding="utf-8")


def write(workspace: Workspace, lines: list[str], file: str = "garden.txt") -> None:
    (workspace.chats_dir / file).write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def kept(tmp_path: Path) -> Workspace:
    return write_workspace(tmp_path / "workspace", KEEP)


@pytest.mark.parametrize("pseudonyms", ["true", "false"])
def test_a_person_whose_messages_only_the_archive_holds_can_be_excluded(
    kept: Workspace, pseudonyms: str
) -> None:
    configure(kept, f"{{pseudonyms: {pseudonyms}}}")
    before = read(kept)
    ada = before.filter(pl.col("text").str.contains("irrigation"))["author"][0]
    write(kept, [line for line in LINES if "Ada" not in line])
    assert ada in set(read(kept)["author"])

    configure(kept, f"{{pseudonyms: {pseudonyms}, exclude: [ada lind]}}")

    assert ada not in set(read(kept)["author"])
    assert ada not in set(read_archive(kept.archive)["author"])


def test_an_archive_that_holds_only_an_excluded_person_is_emptied(kept: Workspace) -> None:
    write(kept, ["15/03/2025, 09:00 - Ada Lind: seeds\n"], "ada.txt")
    read(kept)
    (kept.chats_dir / "ada.txt").unlink()
    assert len(set(read(kept)["conversation_id"])) == 2

    configure(kept, "{exclude: [Ada Lind]}")

    assert len(set(read(kept)["conversation_id"])) == 1
    assert not read_archive(kept.archive)["text"].str.contains("seeds").any()


def test_the_name_of_a_forgotten_person_in_a_chat_does_not_hide_who_opted_out(kept: Workspace) -> None:
    write(kept, [*LINES, "15/03/2025, 18:30 - Dora Quill: hello\n"], "Chat with Dora Quill.txt")
    (kept.chats_dir / "garden.txt").unlink()
    Forgotten().add("member", ["Dora Quill"]).write(kept.forgotten)
    ada = read(kept).filter(pl.col("text").str.contains("irrigation"))["author"][0]

    cut = [line for line in LINES if "irrigation" not in line]
    write(kept, [*cut, "15/03/2025, 18:30 - Dora Quill: hello\n", OFF], "Chat with Dora Quill.txt")

    left = read(kept)
    assert left["conversation_id"].str.contains("forgotten-").all()
    assert ada not in set(left["author"])


def test_an_opt_out_outlasts_the_export_that_held_it(kept: Workspace) -> None:
    configure(kept, "{}", SETTINGS.replace("folder: chats", "folder: chats, removals: mirror"))
    before = read(kept)
    ada = before.filter(pl.col("text").str.contains("irrigation"))["author"][0]
    write(kept, [*LINES, OFF])
    without = read(kept)
    assert ada not in set(without["author"])
    assert "Ada" not in kept.opt_outs.read_text(encoding="utf-8")

    for lines in (LINES, [*LINES, EARLIER_ON]):
        write(kept, lines)
        assert read(kept).equals(without)
        assert find_leaks(open_workspace(kept.root), "messages").is_empty()

    write(kept, [*LINES, ON])
    assert read(kept)["message_id"].to_list() == before["message_id"].to_list()
    write(kept, LINES)
    assert read(kept).equals(before)


def test_a_renamed_chat_stays_one_conversation_with_its_archive(kept: Workspace) -> None:
    def export(name: str, numbers: range) -> None:
        messages = [
            {
                "id": number,
                "type": "message",
                "date": f"2025-03-13T09:{number:02}:00",
                "date_unixtime": str(1741856400 + 60 * number),
                "from": "Ada Lind",
                "from_id": "user1",
                "text": f"seed {number}",
            }
            for number in numbers
        ]
        chat = {"name": name, "type": "public_supergroup", "id": 4123, "messages": messages}
        write(kept, [json.dumps(chat)], "result.json")

    (kept.chats_dir / "garden.txt").unlink()
    export("bakers", range(1, 6))
    read(kept)

    export("millers", range(3, 7))
    left = read(kept)

    assert set(left["conversation_id"]) == {"millers-4123"}
    assert left["text"].to_list() == [f"seed {number}" for number in range(1, 7)]
    assert set(read_archive(kept.archive)["conversation_id"]) == {"millers-4123"}
