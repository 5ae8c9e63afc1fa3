"""What was forgotten stays out under another name of its file, and nothing else does."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import WorkspaceError
from backstory.ingest.privacy.erasure_list import KEY_SUFFIX, Forgotten, read_forgotten, write_forgotten
from backstory.ingest.privacy.fingerprints import find_known_messages, sign_messages, unpack
from backstory.operations.forgetting import forget
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.interfaces.cli.invocation import run as run_command
from tests.workspaces import CHAT, SETTINGS, copy_made

KEY = b"k" * 32
ROW = tuple[str, str | None, datetime, str]
NOON = datetime(2025, 3, 13, 12, 4, tzinfo=UTC)
LONG_TEXT = "The drip irrigation line broke again"


def rows_of(rows: Sequence[ROW]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["conversation_id", "author", "timestamp", "text"], orient="row")
    kind = pl.when(pl.col("author").is_null()).then(pl.lit("system")).otherwise(pl.lit("message"))
    return frame.with_columns(pl.col("author").cast(pl.String), kind=kind)


def recognised(forgotten: Sequence[ROW], read: Sequence[ROW]) -> list[bool]:
    known = sign_messages(rows_of(forgotten), KEY)
    return find_known_messages(rows_of(read), known, KEY).to_list()


@pytest.mark.parametrize(
    ("author", "moment", "text"),
    [
        ("Ada Lind", NOON, LONG_TEXT),
        ("+44 7700 900123", NOON, LONG_TEXT),
        ("Ada Lind", NOON + timedelta(seconds=40), LONG_TEXT),
        ("Ada Lind", NOON + timedelta(hours=13, minutes=45), LONG_TEXT),
        ("Ada Lind", NOON - timedelta(hours=12), LONG_TEXT),
        ("Ada Lind", NOON, f"*{LONG_TEXT.upper()}*\u200e!"),
    ],
)
def test_a_long_message_is_recognised_in_another_export(author: str, moment: datetime, text: str) -> None:
    assert recognised([("a", "Ada Lind", NOON, LONG_TEXT)], [("b", author, moment, text)]) == [True]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOON + timedelta(days=7), LONG_TEXT),
        (NOON + timedelta(minutes=1), LONG_TEXT),
        (NOON, f"{LONG_TEXT}, near the tomatoes"),
    ],
)
def test_another_message_is_not_taken_for_it(moment: datetime, text: str) -> None:
    assert recognised([("a", "Ada Lind", NOON, LONG_TEXT)], [("b", "Ada Lind", moment, text)]) == [False]


def test_short_messages_go_with_a_long_one_or_with_all() -> None:
    forgotten: list[ROW] = [
        ("a", "Ada Lind", NOON, "ok"),
        ("a", "Ada Lind", NOON, LONG_TEXT),
        ("a", None, NOON, "Ada added Ben"),
    ]
    others: list[ROW] = [("b", "Ada Lind", NOON, "ok"), ("b", "Ben Okri", NOON, "What do you mean by that?")]
    assert recognised(forgotten, others) == [False, False]
    assert recognised(forgotten, [*others, ("b", "Ada Lind", NOON, LONG_TEXT)]) == [True, False, True]
    assert (
        recognised(forgotten, [("b", "Ada Lind", NOON, "ok"), ("b", None, NOON, "Ada added Ben")])
        == [True] * 2
    )
    assert recognised(forgotten, [("b", "Ben Okri", NOON, "ok")]) == [False]
    assert recognised(forgotten, [("b", None, NOON, "Ada added Ben")]) == [False]


def test_what_others_hold_is_not_recognised_in_them() -> None:
    gone = rows_of([("a", "Ada Lind", NOON, LONG_TEXT), ("a", "Ada Lind", NOON, f"{LONG_TEXT} today")])
    others = rows_of([("b", "Ben Okri", NOON + timedelta(hours=1), LONG_TEXT)])
    known = Forgotten().add_messages(gone, others)
    left = pl.concat([gone, others])
    assert find_known_messages(left, unpack(known.messages), known.key).to_list() == [False, True, False]


@pytest.fixture(scope="module")
def garden_forgotten_once(made_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of which a conversation was forgotten, and which no test changes."""
    workspace = copy_made(made_once, tmp_path_factory.mktemp("garden-forgotten") / "workspace")
    (workspace.chats_dir / "moths.txt").write_text(
        "14/03/2025, 09:00 - Dora Quill: Only the moths were awake that night\n", encoding="utf-8"
    )
    run_pipeline(workspace)
    forget(open_workspace(workspace.root), "conversation", "garden")
    (workspace.chats_dir / "garden.txt").unlink()
    return workspace.root


@pytest.fixture
def garden_forgotten(garden_forgotten_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(garden_forgotten_once, tmp_path / "workspace")


def sources_of(workspace: Workspace, source: str) -> dict[str, object]:
    return workspace.tables.read("sources").filter(source=source).row(0, named=True)


NEW = "16/03/2025, 10:00 - Ben Okri: A message that nobody has forgotten so far\n"


def test_a_chat_that_returns_under_another_name_stays_out_and_says_so(garden_forgotten: Workspace) -> None:
    root = garden_forgotten.root
    (garden_forgotten.chats_dir / "allotment.txt").write_text(CHAT, encoding="utf-8")
    told = run_command("check", "-w", str(root)).output
    assert "allotment.txt" in told
    assert "`backstory forget` removed" in told
    result = run_command("run", "-w", str(root))
    assert result.exit_code == 0, result.output
    assert "under another name" in result.output
    assert set(garden_forgotten.tables.read("messages")["conversation_id"]) == {"moths"}
    row = sources_of(garden_forgotten, "chats/allotment.txt")
    assert (row["status"], row["rows"]) == ("ignored", 0)
    # A later forgetting does not take what is left out for what others hold.
    forget(open_workspace(root), "document", "posts/later.md")
    run_pipeline(open_workspace(root))
    assert set(garden_forgotten.tables.read("messages")["conversation_id"]) == {"moths"}


def test_new_messages_of_such_a_chat_are_read_and_the_others_counted(garden_forgotten: Workspace) -> None:
    (garden_forgotten.chats_dir / "allotment.txt").write_text(CHAT + NEW, encoding="utf-8")
    result = run_command("run", "-w", str(garden_forgotten.root))
    assert re.search(r"allotment.txt: read: 1\d of its messages are left out", result.output), result.output
    messages = garden_forgotten.tables.read("messages").filter(conversation_id="allotment")
    assert messages["text"].to_list() == ["A message that nobody has forgotten so far"]
    assert "would be left out" in run_command("check", "-w", str(garden_forgotten.root)).output


def test_another_format_and_another_clock_make_no_difference(garden_forgotten: Workspace) -> None:
    lines = [line for line in CHAT.splitlines() if ": " in line and "omitted" not in line]
    rows = [re.fullmatch(r"(\d\d)/(\d\d)/(\d{4}), (\d\d):(\d\d) - ([^:]+): (.*)", line) for line in lines]
    stamped = [
        (
            datetime(int(row[3]), int(row[2]), int(row[1]), int(row[4]), int(row[5]), tzinfo=UTC),
            row[6],
            row[7],
        )
        for row in rows
        if row is not None
    ]
    table = pl.DataFrame(
        [(moment + timedelta(hours=2), author, text) for moment, author, text in stamped],
        schema=["timestamp", "author", "message"],
        orient="row",
    )
    table.write_csv(garden_forgotten.chats_dir / "allotment.csv")
    run_pipeline(garden_forgotten)
    assert set(garden_forgotten.tables.read("messages")["conversation_id"]) == {"moths"}
    assert sources_of(garden_forgotten, "chats/allotment.csv")["status"] == "ignored"


def test_a_document_that_returns_under_another_name_stays_out(made_workspace: Workspace) -> None:
    forget(open_workspace(made_workspace.root), "document", "posts/backup-disk.md")
    file = made_workspace.documents_dir / "backup-disk.md"
    body = file.read_text(encoding="utf-8").split("---\n")[-1]
    file.unlink()
    (made_workspace.documents_dir / "disks.md").write_text(
        f"---\ntitle: Disks\n---\n{body}", encoding="utf-8"
    )
    run_pipeline(open_workspace(made_workspace.root))
    assert "disks" not in " ".join(made_workspace.tables.read("documents")["uri"])
    row = sources_of(made_workspace, "posts/disks.md")
    assert row["status"] == "ignored"
    assert "under another name" in str(row["reason"])


def test_a_copy_that_was_there_before_stays(made_workspace: Workspace) -> None:
    text = (made_workspace.documents_dir / "backup-disk.md").read_bytes()
    (made_workspace.documents_dir / "copy.md").write_bytes(text)
    run_pipeline(open_workspace(made_workspace.root))
    forget(open_workspace(made_workspace.root), "document", "posts/backup-disk.md")
    documents = made_workspace.tables.read("documents")
    assert documents.filter(uri="copy.md")["status"].to_list() == ["ok"]


def test_the_list_tells_nothing_without_its_key(garden_forgotten: Workspace) -> None:
    list_file = garden_forgotten.forgotten
    key_file = list_file.with_suffix(KEY_SUFFIX)
    assert key_file.stat().st_mode & 0o077 == 0
    assert read_forgotten(list_file).key.hex() not in list_file.read_text(encoding="ascii")
    key_file.unlink()
    with raises(WorkspaceError, "damaged_record", key_file):
        read_forgotten(list_file)


def test_the_list_of_many_messages_stays_small(tmp_path: Path) -> None:
    many: list[ROW] = [
        ("a", "Ada Lind", NOON + timedelta(minutes=number), f"Message {number} about the garden")
        for number in range(10_000)
    ]
    known = Forgotten().add("conversation", ["a"]).add_messages(rows_of(many), rows_of(many[:0]))
    write_forgotten(tmp_path / "forgotten.json", known)
    assert (tmp_path / "forgotten.json").stat().st_size < 11 * len(many)
    assert read_forgotten(tmp_path / "forgotten.json") == known


def test_a_member_who_returns_under_a_number_stays_out(made_workspace: Workspace) -> None:
    forget(open_workspace(made_workspace.root), "member", "Ben Okri")
    (made_workspace.chats_dir / "garden.txt").write_text(
        CHAT.replace("- Ben Okri:", "- +44 7700 900123:"), encoding="utf-8"
    )
    (made_workspace.root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    run_pipeline(open_workspace(made_workspace.root, accept_removals=True))
    assert not made_workspace.tables.read("messages")["text"].str.contains("Lisbon").any()
