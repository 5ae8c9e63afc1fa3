"""People who opted out, and contact data, through a whole workspace."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from backstory.base.errors import SettingsError
from backstory.operations.inspection.preview import preview_run
from backstory.pipeline.chats.leaks import find_leaks
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.workspaces import SETTINGS, build_table, write_workspace

OFF = "15/03/2025, 19:00 - Ada Lind: #backstory off\n"
ON = "15/03/2025, 19:01 - Ada Lind: #Backstory ON\n"


@pytest.fixture
def made(tmp_path: Path) -> Workspace:
    workspace = write_workspace(tmp_path / "workspace")
    read(workspace)
    return workspace


def read(workspace: Workspace, partitions: Sequence[str] = ()) -> pl.DataFrame:
    """Run the stage, and give the messages."""
    report = build_table(workspace, "messages", partitions or find_partitions(workspace))
    assert report.counts.get("opted_out") != 0
    return workspace.tables.read("messages")


def configure(workspace: Workspace, privacy: str) -> Workspace:
    (workspace.root / "backstory.yaml").write_text(f"{SETTINGS}privacy: {privacy}\n", encoding="utf-8")
    return open_workspace(workspace.root)


def write(workspace: Workspace, text: str) -> None:
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as export:
        export.write(text)


def author_of(workspace: Workspace, word: str) -> str:
    stored = workspace.tables.read("messages")
    return str(stored.filter(pl.col("text").str.contains(word))["author"][0])


@pytest.mark.parametrize("name", ["Ada Lind", "ADA  LIND", "Ada", "pseudonym"])
def test_messages_of_an_excluded_person_are_in_no_table(made: Workspace, name: str) -> None:
    ada = author_of(made, "irrigation")
    workspace = configure(made, f"{{exclude: ['{ada if name == 'pseudonym' else name}']}}")
    before = made.tables.read("messages")

    left = read(workspace)

    assert left.equals(
        before.filter((pl.col("author") != ada) | pl.col("author").is_null()).with_columns(left["seq"])
    )
    assert "4 of its messages are left out" in workspace.tables.read("sources")["reason"][0]
    assert find_leaks(workspace, "messages").is_empty()


def test_excluding_after_a_run_equals_excluding_before_it(made: Workspace, tmp_path: Path) -> None:
    later = configure(made, "{exclude: [Ada Lind], pseudonyms: false}")
    first = configure(write_workspace(tmp_path / "first"), "{exclude: [Ada Lind], pseudonyms: false}")

    assert read(later).equals(read(first))


def test_a_command_in_the_chat_leaves_its_author_out_until_taken_back(made: Workspace) -> None:
    before, ada = made.tables.read("messages"), author_of(made, "irrigation")

    write(made, OFF)
    without = read(made)
    assert ada not in set(without["author"])
    assert len(without) == len(before) - 4

    write(made, ON)
    again = read(made)
    assert again["message_id"].to_list() == before["message_id"].to_list()
    assert "2 of its messages" in made.tables.read("sources")["reason"][0]


def test_a_command_counts_in_its_own_conversation(made: Workspace) -> None:
    (made.chats_dir / "other.txt").write_text(
        "16/03/2025, 09:00 - Ada Lind: seeds\n" + OFF.replace("15/", "16/")
    )

    left = read(made)

    assert dict(
        left.filter(author=author_of(made, "irrigation"))["conversation_id"].value_counts().rows()
    ) == {"garden": 4}


def test_mentions_of_an_excluded_person_stay_pseudonyms(made: Workspace) -> None:
    write(made, "15/03/2025, 19:00 - Ben Okri: ask @Ada Lind\n")

    texts = read(configure(made, "{exclude: [Ada Lind]}"))["text"]

    assert texts.str.contains("ask @member-").any()
    assert not texts.str.contains("Ada").any()


def test_the_archive_of_a_kept_conversation_loses_the_messages(made: Workspace) -> None:
    path = made.root / "backstory.yaml"
    kept = SETTINGS.replace("folder: chats", "folder: chats, removals: keep")
    path.write_text(kept, encoding="utf-8")
    workspace = open_workspace(made.root)
    read(workspace)
    lines = (made.chats_dir / "garden.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (made.chats_dir / "garden.txt").write_text("".join(lines[:1] + lines[4:]), encoding="utf-8")
    assert read(workspace)["text"].str.contains("irrigation").any()

    path.write_text(f"{kept}privacy: {{exclude: [Ada Lind]}}\n", encoding="utf-8")
    workspace = open_workspace(made.root)
    left = read(workspace)

    assert not left["text"].str.contains("irrigation").any()
    assert left["text"].str.contains("frost").any()
    assert find_leaks(workspace, "messages").is_empty()


def test_a_name_under_which_nobody_wrote_is_warned_about(
    made: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    read(configure(made, "{exclude: [Ben Okri, Nobody Known]}"))

    assert "privacy.exclude: nobody wrote under the name of entry 2" in caplog.text
    assert "Nobody Known" not in caplog.text


def test_contact_data_becomes_markers_and_ids_stay(made: Workspace) -> None:
    write(made, "15/03/2025, 19:00 - Ben Okri: ask ann@example.org or 030 901820\n")
    before = read(made)
    workspace = configure(made, "{scrub: [email, phone], phone_region: de}")
    assert set(find_leaks(workspace, "messages")["column"]) == {"text"}

    after = read(workspace)

    assert after["text"][-1] == "ask [email] or [phone]"
    assert after.drop("text").equals(before.drop("text"))
    assert find_leaks(workspace, "messages").is_empty()


def test_the_check_finds_messages_of_days_that_were_not_made_again(made: Workspace) -> None:
    write(made, OFF)
    days = find_partitions(made)

    read(made, days[-1:])

    assert set(find_leaks(made, "messages")["column"]) == {"author"}
    read(made)
    assert find_leaks(made, "messages").is_empty()


def test_a_preview_tells_what_would_be_left_out(made: Workspace) -> None:
    preview = preview_run(workspace=configure(made, "{exclude: [Ada Lind]}").root)

    assert preview.messages == 8
    assert "4 of its messages are left out" in str(preview.files)


def test_an_unknown_region_is_an_error(made: Workspace) -> None:
    with raises(SettingsError, "invalid_setting", "privacy.phone_region"):
        configure(made, "{phone_region: XX}")
