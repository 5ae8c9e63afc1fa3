"""IRC: what irssi, WeeChat and ZNC log."""

from pathlib import Path

import polars as pl
import pytest

from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.formats.logs import name_conversation
from backstory.ingest.chats.merging import assign_message_ids
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.chat_samples import IRSSI, WEECHAT, ZNC

SETTINGS = ConversationSettings()
LOGS = {
    "libera/#bread.log": IRSSI,
    "irc.libera.#bread.weechatlog": WEECHAT,
    "libera/#bread/2024-05-01.log": ZNC,
}


def read(folder: Path, **logs: str) -> pl.DataFrame:
    for name, log in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log, encoding="utf-8")
    return read_exports(folder, SETTINGS).messages


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("libera/#bread/2024-05-01.log", "libera/#bread"),
        ("libera/#bread_20240501.log", "libera/#bread"),
        ("libera/#bread.log", "libera/#bread"),
        ("#bread.log", "#bread"),
        ("irc.libera.#bread.weechatlog", "libera/#bread"),
        ("logs/irc.libera.#bread.weechatlog", "libera/#bread"),
        ("bakers/from-ann.log", "bakers"),
        ("bread-2024-05-01.log", "bread"),
        ("2024-05-01.log", "2024-05-01"),
    ],
)
def test_a_log_is_of_the_channel_that_its_path_names(source: str, name: str) -> None:
    assert name_conversation(source) == name


@pytest.mark.parametrize(
    "line",
    [
        "10:01 -!- cleo changed the topic of #bread to: rye",
        "10:01 -!- mode/#bread [+o ann] by cleo",
        '2024-05-01 10:01:00\t--\tcleo has changed topic for #bread from "x" to "y"',
        "2024-05-01 10:01:00\t--\tMode #bread [+o ann] by cleo",
        "[10:01:00] *** cleo changes topic to 'rye'",
        "[10:01:00] *** cleo sets mode: +o ann",
    ],
)
def test_who_changes_a_topic_or_a_mode_is_known_by_name(line: str, tmp_path: Path) -> None:
    (tmp_path / "2024-05-01.log").write_text(f"10:00 <ann> cleo left us\n{line}\n", encoding="utf-8")
    assert read_exports(tmp_path, SETTINGS).unread_authors == {"ann", "cleo"}


@pytest.mark.parametrize(
    "line",
    [
        "-!- ann changed the topic of #bread to: ben has joined us",
        "-!- ann [~a@a.example] has quit [Quit: ben has joined us]",
        "-!- Topic for #bread: everyone has left",
        "-!- + is now known as ben",
    ],
)
def test_a_line_of_the_program_tells_nothing_of_its_words(line: str, tmp_path: Path) -> None:
    (tmp_path / "2024-05-01.log").write_text(f"10:00 <ann> hello\n10:01 {line}\n", encoding="utf-8")
    found = read_exports(tmp_path, SETTINGS)
    assert found.messages.select("kind", "text").rows()[1] == ("system", "a note of the program")
    assert found.unread_authors <= {"ann", "ben"}


@pytest.mark.parametrize("head", ["2024-05-01 10:00:00 ", "10:00:00\t"])
def test_other_lines_with_a_time_and_a_tab_are_no_log(head: str, tmp_path: Path) -> None:
    lines = f"{head}ERROR\tthe oven is cold\n" * 9
    (tmp_path / "oven.log").write_text(lines, encoding="utf-8")
    assert read_exports(tmp_path, SETTINGS).sources["status"].to_list() == ["unsupported"]


def test_days_of_a_channel_are_one_conversation_and_a_grown_log_keeps_its_ids(tmp_path: Path) -> None:
    before = assign_message_ids(read(tmp_path, **{"libera/#bread/2024-05-01.log": ZNC}))
    more = {
        "libera/#bread/2024-05-01.log": ZNC + "[23:00:00] <dora> and I?\n",
        "libera/#bread/2024-05-02.log": "[00:00:01] <dora> good morning\n",
    }
    after = assign_message_ids(read(tmp_path, **more))
    assert set(after["conversation_id"]) == {"libera/#bread"}
    assert set(before["message_id"]) < set(after["message_id"])
    assert len(after) == len(before) + 2


def test_logs_of_two_members_in_two_programs_and_zones_merge_without_duplicates(tmp_path: Path) -> None:
    lines = [(minute, "ann" if minute % 2 else "ben", f"loaf number {minute} is in") for minute in range(20)]
    first = "--- Log opened Wed May 01 09:00:00 2024\n" + "".join(
        f"10:{minute:02} <{nick}> {text}\n" for minute, nick, text in lines
    )
    second = "".join(
        f"2024-05-01 15:{minute:02}:07\t{nick}\t{text}\n"
        for minute, nick, text in [*lines, (30, "ben", "and one more")]
    )
    rows = assign_message_ids(
        read(tmp_path, **{"libera/#bread.log": first, "irc.libera.#bread.weechatlog": second})
    )
    assert len(rows) == 21
    assert rows["conversation_id"].n_unique() == 1
    assert rows["timestamp"].dt.hour().unique().to_list() == [10]


def test_a_log_without_a_day_waits_for_its_name(tmp_path: Path) -> None:
    (tmp_path / "bread.log").write_text(ZNC, encoding="utf-8")
    found = read_exports(tmp_path, SETTINGS)
    assert found.sources["status"].to_list() == ["set_aside"]
    assert "2024-05-01.log" in found.sources["reason"][0]
    assert {"ann", "ann_away", "ben", "cleo"} <= found.unread_authors

    (tmp_path / "bread.log").rename(tmp_path / "bread-2024-05-01.log")
    assert read_exports(tmp_path, SETTINGS).sources["rows"].to_list() == [11]


def test_a_long_line_costs_only_itself(tmp_path: Path) -> None:
    log = b"[10:00:00] <ann> one\n[10:02:00] <ben> " + b"x" * (2 << 20) + b"\n[10:03:00] <ann> end\n"
    (tmp_path / "2024-05-01.log").write_bytes(log)
    found = read_exports(tmp_path, SETTINGS)
    assert found.messages["text"].to_list() == ["one", "end"]
    assert found.quarantine["line"].to_list() == [2]
