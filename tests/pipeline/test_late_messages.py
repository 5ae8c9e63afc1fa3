"""One message that arrives late: only its own partition of messages changes, and what is made of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import Grain, partition_key
from tests.long_tests import LONG_TESTS
from tests.workspaces import POSTS

DAYS = 365 if LONG_TESTS else 9
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
LATE = FIRST + timedelta(days=2, hours=9, minutes=1)
TABLES = ("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "window_contexts")
READ_MESSAGES = ("windows", "window_chunks", "window_contexts")
SETTINGS = """\
conversations: {{folder: chats, date_order: dmy}}
partitions: {{grain: {grain}}}
windows: {{unit: messages, size: 4, overlap: 2}}
embedding: {{provider: hashing}}
rag: {{top_k: 3}}
"""


def write_chat(workspace: Workspace, *, late: bool) -> None:
    """Write eight messages of each day, two of them in the same minute, and one more if it is late."""
    lines = [
        (FIRST + timedelta(days=day, hours=9, minutes=message // 2), f"Number {message} of day {day} on the frost")
        for day in range(DAYS)
        for message in range(8)
    ]  # fmt: skip
    if late:
        lines.append((LATE, "A late message about the sourdough starter"))
    text = "".join(f"{when:%d/%m/%Y, %H:%M} - Ada Lind: {said}\n" for when, said in sorted(lines))
    (workspace.chats_dir / "garden.txt").write_text(text, encoding="utf-8")


def stamp_files(workspace: Workspace) -> dict[tuple[str, str], object]:
    """Give name and stamp of the file of each partition, which change when it is written again."""
    tables = workspace.tables
    return {
        (table, key): (name, tables.store.stamp(name))
        for table, names in tables.list_files().items()
        if table in TABLES
        for key, name in names.items()
    }


@pytest.fixture
def workspace(tmp_path: Path, grain: Grain) -> Workspace:
    for folder in ("chats", "posts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "backstory.yaml").write_text(SETTINGS.format(grain=grain), encoding="utf-8")
    for name, (title, date, text) in POSTS.items():
        (tmp_path / "posts" / name).write_text(f"---\ntitle: {title}\ndate: {date}\n---\n\n{text}\n")
    return open_workspace(tmp_path)


@pytest.mark.parametrize("grain", ["day", *(["hour", "week", "month"] if LONG_TESTS else ["week"])])
def test_a_late_message_writes_its_partition_again_and_no_other(workspace: Workspace, grain: Grain) -> None:
    write_chat(workspace, late=False)
    run_pipeline(workspace)
    before, files = workspace.tables.read("messages"), stamp_files(workspace)
    write_chat(workspace, late=True)
    late = partition_key(LATE, grain)
    made = sorted({partition_key(when, grain) for when in before["timestamp"]})

    opened = open_workspace(workspace.root)
    reports = {report.table: report for report in run_pipeline(opened)}
    now = stamp_files(workspace)
    changed = {place for place in now if now[place] != files.get(place)}
    assert {key for _, key in changed} == {late}
    assert ("messages", late) in changed
    # The next partition begins with messages of this one, whether it has some of its own or, as an hour, none; they are
    # the same, so that nothing follows from it.
    is_followed = any(key > late for key in made)
    computed = {table: reports[table].computed for table in TABLES[1:]}
    assert computed == {table: 1 + (is_followed and table in READ_MESSAGES) for table in TABLES[1:]}
    assert set(before["message_id"]) < set(workspace.tables.read("messages")["message_id"])
