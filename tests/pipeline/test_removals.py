"""What a run does where the exports no longer hold what an earlier run read."""

import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import RemovalError, WorkspaceError
from backstory.index.snapshot import current_version
from backstory.ingest.chats.merging import read_archive
from backstory.pipeline.chats.stored_messages import PARTITIONED, find_missing
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from tests.builders.messages import make_messages
from tests.errors import raises
from tests.privileges import NOBODY
from tests.workspaces import CHAT, SETTINGS, build_table

TRAIN = "15/03/2025, 18:00 - Ben Okri: The night train to Lisbon needs a seat reservation\n"
KEEP = f"{SETTINGS}".replace("{folder: chats}", "{folder: chats, removals: keep}")


def write_chat(workspace: Workspace, text: str, name: str = "garden.txt") -> None:
    path = workspace.chats_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rerun(workspace: Workspace, *, accept_removals: bool = False, days: Sequence[str] | None = None) -> None:
    """Read the exports again, as a run does first."""
    reopened = open_workspace(workspace.root, accept_removals=accept_removals)
    build_table(reopened, "messages", find_partitions(reopened) if days is None else days)


def rerun_all(workspace: Workspace, *, accept_removals: bool = False) -> None:
    run_pipeline(open_workspace(workspace.root, accept_removals=accept_removals))


def messages_of(workspace: Workspace) -> pl.DataFrame:
    return workspace.tables.read("messages")


def read_all(workspace: Workspace) -> dict[str, pl.DataFrame]:
    return {table: workspace.tables.read(table) for table in TABLES}


def equals_a_fresh_workspace(workspace: Workspace, folder: Path) -> bool:
    """Compare the tables with those that the same inputs, secret and archive give in a new folder."""
    for part in ("chats", "posts", ".backstory"):
        if (workspace.root / part).is_dir():
            shutil.copytree(workspace.root / part, folder / part)
    shutil.copy(workspace.root / "backstory.yaml", folder)
    fresh = open_workspace(folder)
    (rerun_all if workspace.tables.keys("documents") else rerun)(fresh)
    now, then = read_all(workspace), read_all(fresh)
    return all(now[table].equals(then[table]) for table in TABLES)


def test_the_tables_that_are_emptied_are_those_with_calendar_partitions() -> None:
    assert [stage.table for stage in STAGES if stage.partitioned] == list(PARTITIONED)


def test_a_shorter_export_stops_the_run_before_it_writes_and_names_what_would_go(
    workspace: Workspace,
) -> None:
    rerun_all(workspace)
    before = read_all(workspace)
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :])
    with pytest.raises(RemovalError) as caught:
        rerun_all(workspace)
    told = str(caught.value)
    assert "would remove 9 messages" in told
    assert "- garden: 9 messages of 1 day (2025-03-13); chats/garden.txt no longer holds 9 of them" in told
    assert "--accept-removals" in told
    assert all(read_all(workspace)[table].equals(before[table]) for table in TABLES)
    with pytest.raises(RemovalError):
        rerun_all(workspace)


def test_a_folder_that_lacks_messages_is_not_told_as_gone(workspace: Workspace) -> None:
    said = [{"type": "message", "user": "U1", "text": f"Moth {n}", "ts": f"174190320{n}.0"} for n in range(3)]
    write_chat(workspace, json.dumps([{"id": "U1", "name": "Ada Lind"}]), "team/users.json")
    write_chat(workspace, json.dumps([{"id": "C1", "name": "general"}]), "team/channels.json")
    write_chat(workspace, json.dumps(said), "team/general/2025-03-13.json")
    rerun(workspace)
    write_chat(workspace, json.dumps(said[1:]), "team/general/2025-03-13.json")
    with pytest.raises(RemovalError) as caught:
        rerun(workspace)
    assert "chats/team no longer holds 1 of them" in str(caught.value)


def test_what_was_accepted_leaves_no_row_in_any_table(workspace: Workspace, tmp_path: Path) -> None:
    rerun_all(workspace)
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :])
    rerun_all(workspace, accept_removals=True)
    for table in PARTITIONED:
        assert set(workspace.tables.keys(table)) <= {"2025-03-15"}, table
    assert equals_a_fresh_workspace(workspace, tmp_path / "fresh")
    rerun_all(workspace)


def test_a_deleted_conversation_is_asked_about_and_goes_from_every_table_and_so_does_the_last_one(
    workspace: Workspace, tmp_path: Path
) -> None:
    write_chat(workspace, "20/01/2025, 09:00 - Dora Quill: Only the moths were awake\n", "moths.txt")
    rerun_all(workspace)
    (workspace.chats_dir / "moths.txt").unlink()
    with raises(RemovalError, "removed_messages"):
        rerun_all(workspace)
    rerun_all(workspace, accept_removals=True)
    assert equals_a_fresh_workspace(workspace, tmp_path / "fresh")
    assert set(messages_of(workspace)["conversation_id"]) == {"garden"}
    (workspace.chats_dir / "garden.txt").unlink()
    with raises(RemovalError, "removed_messages"):
        rerun_all(workspace)
    rerun_all(workspace, accept_removals=True)
    assert all(workspace.tables.keys(table) == [] for table in PARTITIONED)
    with raises(WorkspaceError, "no_messages", workspace.chats_dir):
        rerun_all(workspace)


CHANGES: dict[str, Callable[[Workspace], object]] = {
    "the export is renamed": lambda w: (w.chats_dir / "garden.txt").rename(w.chats_dir / "allotment.txt"),
    "a message is edited": lambda w: write_chat(w, CHAT.replace("sluggish", "lively")),
    "a message is added": lambda w: write_chat(w, CHAT + TRAIN.replace("18:00", "19:00")),
    "a setting reads another zone": lambda w: (w.root / "backstory.yaml").write_text(
        SETTINGS.replace("folder: chats", "folder: chats, timezone: Asia/Tokyo"), encoding="utf-8"
    ),
    "a setting shows the names": lambda w: (w.root / "backstory.yaml").write_text(
        f"{SETTINGS}privacy: {{pseudonyms: false}}\n", encoding="utf-8"
    ),
    "another copy of the export goes": lambda w: (w.chats_dir / "garden (1).txt").unlink(),
    "the first of two copies goes": lambda w: (w.chats_dir / "garden.txt").unlink(),
}


QUICK_CHANGES = (
    "the export is renamed", "a message is edited", "a setting reads another zone", "the first of two copies goes",
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=() if name in QUICK_CHANGES else pytest.mark.long)
        for name, change in CHANGES.items()
    ],
)
def test_what_removes_no_message_is_not_asked_about(
    workspace: Workspace, tmp_path: Path, change: Callable[[Workspace], object]
) -> None:
    if "cop" in next(name for name, one in CHANGES.items() if one is change):
        shutil.copy(workspace.chats_dir / "garden.txt", workspace.chats_dir / "garden (1).txt")
    rerun(workspace)
    change(workspace)
    rerun(workspace)
    assert equals_a_fresh_workspace(workspace, tmp_path / "fresh")


def test_one_of_two_exports_that_held_more_is_asked_about(workspace: Workspace) -> None:
    write_chat(workspace, CHAT, "garden/first.txt")
    write_chat(workspace, CHAT + TRAIN.replace("18:00", "19:00"), "garden/second.txt")
    (workspace.chats_dir / "garden.txt").unlink()
    rerun(workspace)
    (workspace.chats_dir / "garden" / "second.txt").unlink()
    with raises(RemovalError, "removed_messages"):
        rerun(workspace)


def test_a_message_that_left_its_minute_is_asked_about_though_others_of_the_author_stay(
    workspace: Workspace,
) -> None:
    twice = CHAT + TRAIN.replace("The night train", "By the way, the night train")
    write_chat(workspace, twice)
    rerun(workspace)
    write_chat(workspace, CHAT)
    with raises(RemovalError, "removed_messages"):
        rerun(workspace)


def test_an_unreadable_folder_of_chats_removes_nothing(
    workspace: Workspace, open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    root = open_folder / "workspace"
    write_chat(workspace, "14/03/2025, 09:00 - Dora Quill: Only the moths were awake\n", "moths/all.txt")
    shutil.copytree(workspace.root, root)
    rerun(open_workspace(root))
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    with shut(root / "chats" / "moths", 0), pytest.raises(RemovalError) as caught:
        rerun(open_workspace(root))
    told = "- moths: 1 message of 1 day (2025-03-14); chats/moths/all.txt cannot be used (failed): Backstory cannot"
    assert told in str(caught.value)
    rerun(open_workspace(root))


def test_a_setting_mirrors_one_conversation_without_asking(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(
        SETTINGS.replace("{folder: chats}", "{folder: chats, overrides: {garden: {removals: mirror}}}")
    )
    write_chat(workspace, CHAT.replace("the", "a"), "other.txt")
    rerun(workspace)
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :])
    rerun(workspace)
    assert len(messages_of(workspace).filter(conversation_id="garden")) == 3
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :], "other.txt")
    with raises(RemovalError, "removed_messages"):
        rerun(workspace)


def test_a_part_of_the_days_asks_about_these_only_and_the_rest_is_asked_about_later(
    workspace: Workspace,
) -> None:
    rerun(workspace)
    kept = [line for line in CHAT.splitlines(keepends=True) if "sourdough" in line]
    write_chat(workspace, "".join(kept))
    rerun(workspace, accept_removals=True, days=["2025-03-15"])
    assert len(messages_of(workspace)) == 9 + 1
    with raises(RemovalError, "removed_messages"):
        rerun(workspace)


def test_keeping_an_export_that_was_replaced_by_its_end_keeps_the_older_days(
    make_workspace: Callable[..., Workspace], tmp_path: Path
) -> None:
    workspace = make_workspace(KEEP)
    rerun_all(workspace)
    before = messages_of(workspace)
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :].replace("came out flat", "rose well") + TRAIN)
    rerun_all(workspace)
    after = messages_of(workspace)
    gone = before.join(after, on="message_id", how="anti")
    assert gone["text"].to_list() == ["And the sourdough bread came out flat"]
    assert len(after) == len(before) + 1
    assert equals_a_fresh_workspace(workspace, tmp_path / "fresh")
    assert find_partitions(open_workspace(workspace.root))[0] == "2025-03-13"


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_run_that_was_stopped_goes_on_once_the_setting_says_to_keep(
    workspace: Workspace, *, is_gone: bool
) -> None:
    write_chat(workspace, "16/03/2025, 09:00 - Dora Quill: Only the moths were awake\n", "moths.txt")
    rerun(workspace)
    before = messages_of(workspace)
    if is_gone:
        (workspace.chats_dir / "moths.txt").unlink()
    else:
        write_chat(workspace, CHAT[CHAT.index("15/03/2025") :])
    with pytest.raises(RemovalError):
        rerun(workspace)
    (workspace.root / "backstory.yaml").write_text(KEEP, encoding="utf-8")
    rerun(workspace)
    columns = [name for name in before.columns if name != "seq"]
    assert messages_of(workspace).select(columns).equals(before.select(columns))
    if not is_gone:
        (workspace.root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
        with raises(RemovalError, "removed_messages"):
            rerun(workspace)


def test_what_was_accepted_does_not_come_back_from_the_archive(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(KEEP)
    write_chat(workspace, "16/03/2025, 09:00 - Dora Quill: Only the moths were awake\n", "moths.txt")
    rerun(workspace)
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :])
    (workspace.root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    rerun(workspace, accept_removals=True)
    (workspace.chats_dir / "garden.txt").unlink()
    rerun(workspace, accept_removals=True)
    assert set(messages_of(workspace)["conversation_id"]) == {"moths"}
    assert read_archive(workspace.archive).is_empty()


def test_the_archive_holds_no_name_and_refuses_to_bring_one_back(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(f"{KEEP}privacy: {{pseudonyms: false}}\n")
    rerun(workspace)
    write_chat(workspace, CHAT[CHAT.index("15/03/2025") :])
    rerun(workspace)
    (workspace.root / "backstory.yaml").write_text(KEEP, encoding="utf-8")
    with raises(WorkspaceError, "real_names", workspace.archive):
        rerun(workspace)
    write_chat(workspace, CHAT)
    workspace.archive.unlink()  # as the error says; the tables still hold real names
    rerun(workspace)
    archived = read_archive(workspace.archive)
    assert len(archived) == 12
    assert archived["author"].drop_nulls().str.starts_with("member-").all()


def test_somebody_whose_name_becomes_known_later_loses_it_in_the_archive_too(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(KEEP)
    write_chat(workspace, CHAT.replace("early", "early, says Dora Quill"))
    rerun(workspace)
    assert "Dora Quill" in "".join(read_archive(workspace.archive)["text"].drop_nulls())
    write_chat(workspace, "16/03/2025, 09:00 - Dora Quill: Here I am\n")
    rerun(workspace)
    assert len(messages_of(workspace)) == 13
    assert "Dora Quill" not in "".join(messages_of(workspace)["text"].drop_nulls())
    assert "Dora Quill" not in "".join(read_archive(workspace.archive)["text"].drop_nulls())


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_a_later_export_tells_as_deleted_is_in_no_table_and_no_archive(
    make_workspace: Callable[..., Workspace], *, is_gone: bool
) -> None:
    workspace = make_workspace(KEEP)

    def write_room(name: str, *events: dict[str, object]) -> None:
        place = {"room_id": "!bread:a.example", "sender": "@ann:a.example"}
        head = {"room_name": "Bread", "room_creator": "@ann:a.example", "exported_by": "@ann:a.example"}
        room = {**head, "messages": [{**place, **event} for event in events]}
        (workspace.chats_dir / name).write_text(json.dumps(room), encoding="utf-8")

    def say(key: str, text: str, second: int) -> dict[str, object]:
        content = {"msgtype": "m.text", "body": text}
        sent = 1741856400000 + 1000 * second
        return {"type": "m.room.message", "event_id": key, "origin_server_ts": sent, "content": content}

    write_room("first.json", say("$a", "Only the moths were awake", 0), say("$b", "A lamp", 1))
    rerun(workspace)
    redaction: dict[str, object] = {
        "type": "m.room.redaction",
        "event_id": "$r",
        "redacts": "$a",
        "content": {},
    }
    write_room("second.json", redaction, say("$c", "A quiet evening", 2))
    if is_gone:
        (workspace.chats_dir / "first.json").unlink()
    rerun(workspace)
    for messages in (messages_of(workspace), read_archive(workspace.archive)):
        told = messages.filter(pl.col("conversation_id").str.contains("bread"))["text"].drop_nulls()
        assert sorted(told) == ["A lamp", "A quiet evening"]


def test_another_date_order_reads_what_is_archived_again(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(KEEP.replace("keep}", "keep, date_order: mdy}"))
    write_chat(
        workspace, "02/03/2025, 09:00 - Ada Lind: The elbow\n03/03/2025, 09:00 - Ben Okri: The frost\n"
    )
    rerun(workspace)
    (workspace.root / "backstory.yaml").write_text(
        KEEP.replace("keep}", "keep, date_order: dmy}"), encoding="utf-8"
    )
    rerun(workspace)
    assert messages_of(workspace)["timestamp"].dt.date().cast(str).to_list() == ["2025-03-02", "2025-03-03"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_any_sequence_of_edits_to_a_kept_chat_equals_a_fresh_start_with_the_same_archive(
    make_workspace: Callable[..., Workspace], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    workspace = make_workspace(KEEP)
    lines = CHAT.splitlines(keepends=True)
    seen: set[str] = set()
    for step in range(6):
        shown = list(lines)
        match chance.choice(["tail", "head", "drop", "all", "add"]):
            case "tail":
                shown = lines[chance.randrange(len(lines)) :]
            case "head":
                shown = lines[: chance.randrange(1, len(lines))]
            case "drop":
                shown = [line for line in lines if chance.random() < 0.6] or lines
            case "add":
                lines.append(f"{16 + step}/03/2025, 08:00 - Ada Lind: Note {step} on the frost\n")
                shown = list(lines)
            case _:
                pass
        write_chat(workspace, "".join(shown))
        rerun(workspace)
        seen |= set(shown)
        assert len(messages_of(workspace)) == len(seen)
    assert equals_a_fresh_workspace(workspace, tmp_path / "fresh")


def message(place: int, text: str, author: str = "member-1", conversation: str = "a") -> dict[str, object]:
    return {
        "message_id": f"{conversation}{place}{author}{text}",
        "conversation_id": conversation,
        "timestamp": datetime(2025, 3, 1, tzinfo=UTC) + timedelta(hours=place),
        "seq": place,
        "author": author,
        "text": text,
        "source": f"{conversation}.txt",
    }


@pytest.mark.parametrize(
    ("before", "now", "missing"),
    [
        ([message(0, "x")], [message(0, "x")], []),
        ([message(0, "x")], [message(0, "y")], []),
        ([message(0, "x"), message(0, "y")], [message(0, "z")], ["y"]),
        ([message(0, "x")], [message(0, "x", conversation="b")], []),
        ([message(0, "x")], [message(9, "x", author="member-2")], []),
        ([message(0, "x")], [message(27, "x")], ["x"]),
        ([message(0, "x"), message(1, "x")], [message(2, "x")], ["x"]),
        ([message(0, "x")], [message(0, "y", author="member-2")], ["x"]),
        ([message(0, "")], [message(9, "")], [""]),
    ],
)
def test_a_message_is_missing_where_nothing_stands_for_it(
    before: list[dict[str, object]], now: list[dict[str, object]], missing: list[str]
) -> None:
    assert find_missing(make_messages(before), make_messages(now))["text"].to_list() == missing


def test_posts_that_vanish_all_at_once_are_asked_about(workspace: Workspace) -> None:
    rerun_all(workspace)
    before = workspace.tables.read("documents")
    version = current_version(workspace.index)
    workspace.documents_dir.rename(workspace.root / "unmounted")
    with raises(RemovalError, "removed_documents"):
        rerun_all(workspace)
    assert workspace.tables.read("documents").equals(before)
    assert current_version(workspace.index) == version
    rerun_all(workspace, accept_removals=True)
    assert set(workspace.tables.read("documents")["status"]) == {"deleted"}


def test_a_deleted_post_leaves_its_text_in_no_table_and_no_snapshot(workspace: Workspace) -> None:
    rerun_all(workspace)
    (workspace.documents_dir / "sourdough.md").write_text(
        "# Sourdough starter\n\nAnother starter.\n", encoding="utf-8"
    )
    rerun_all(workspace)
    (workspace.documents_dir / "sourdough.md").unlink()
    rerun_all(workspace)
    gone = workspace.tables.read("documents").filter(uri="sourdough.md")
    assert sorted(gone["status"]) == ["deleted", "superseded"]
    assert set(gone["text"]) == {""}
    assert [path.name for path in workspace.index.iterdir() if path.is_dir()] == [
        current_version(workspace.index)
    ]
    assert "sourdough" not in set(workspace.tables.read("contexts")["slug"])
