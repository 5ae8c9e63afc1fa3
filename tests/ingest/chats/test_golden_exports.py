"""Exports of every format against the rows that they give.

``tests/data/chats/FORMAT/CASE/`` holds a folder of exports, ``input``, and ``messages.json``: the settings to read it
with, the messages that it gives, the lines that cannot be read, the sources, and the names that texts may hold.

``python -m tests.ingest.chats.test_golden_exports FORMAT/CASE`` writes the ``messages.json`` of a case anew, or for the
first time; without a case, it writes those of all. The difference that it leaves is what the readers changed: read it.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from backstory.ingest.chats.exports import ExportRead, read_exports
from backstory.ingest.chats.merging import assign_message_ids
from backstory.ingest.privacy.pseudonyms import find_real_names, pseudonymize_messages
from backstory.pipeline.chats.exports_reading import put_local_times
from backstory.settings.inputs import ConversationSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Messages
from tests.ingest.chats.chat_samples import CHATS

EXPECTED: Final = "messages.json"
CASES: Final = sorted(path.parent.relative_to(CHATS).as_posix() for path in CHATS.glob("*/*/input"))
OPTIONAL: Final = ("reply_to", "reactions", "edited")
"""What most messages leave empty; the files leave it out there."""


def is_given(value: object) -> bool:
    """Say whether an optional value states anything; an answer to the message at position 0 does."""
    return value is not None and value is not False and value != []


def read_settings(case: Path) -> dict[str, Any]:
    expected = case / EXPECTED
    settings: dict[str, Any] = json.loads(expected.read_bytes())["settings"] if expected.exists() else {}
    return settings


def read_case(case: Path) -> ExportRead:
    return read_exports(case / "input", ConversationSettings.model_validate(read_settings(case)))


def describe(case: Path) -> dict[str, Any]:
    """Give what a case reads as, in the shape of its file; an answer states the position of what it answers."""
    found = read_case(case)
    rows = assign_message_ids(found.messages)
    validate(put_local_times(rows, {}, "UTC"), Messages)
    places = {key: place for place, key in enumerate(rows["message_id"])}
    messages = rows.drop("message_id").with_columns(
        pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f"),
        pl.col("reply_to").replace_strict(places, return_dtype=pl.Int64),
    )
    return {
        "settings": read_settings(case),
        "messages": [
            {name: value for name, value in row.items() if name not in OPTIONAL or is_given(value)}
            for row in messages.iter_rows(named=True)
        ],
        "quarantine": found.quarantine.select("source", "line").to_dicts(),
        "sources": found.sources.select("source", "status", "format", "rows").to_dicts(),
        "aliases": found.aliases,
        "other_names": sorted(found.unread_authors),
    }


def write_value(value: Any) -> str:
    """Write a value as JSON, escaped where an editor would not show a letter."""
    plain = json.dumps(value, ensure_ascii=False)
    return plain if plain.isprintable() else json.dumps(value)


def write_lines(described: dict[str, Any]) -> str:
    """Write a description with a line per row, so that a difference shows the rows that changed."""
    parts = []
    for name, value in described.items():
        if isinstance(value, list) and value:
            rows = ",\n".join(f"  {write_value(row)}" for row in value)
            parts.append(f' "{name}": [\n{rows}\n ]')
        else:
            parts.append(f' "{name}": {write_value(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


@pytest.mark.parametrize("case", CASES)
def test_an_export_gives_exactly_the_expected_rows(case: str) -> None:
    expected = json.loads((CHATS / case / EXPECTED).read_text(encoding="utf-8"))

    assert describe(CHATS / case) == expected


@pytest.mark.parametrize("case", CASES)
def test_no_name_of_a_member_is_left(case: str) -> None:
    found = read_case(CHATS / case)

    hidden = pseudonymize_messages(
        found.messages, bytes(32), aliases=found.aliases, other_names=found.unread_authors
    )

    assert find_real_names(hidden, found.names).is_empty()


ARCHIVED: Final = {
    "discord/sample": "Bakers - bread [77].json",
    "meta/rich": "your_instagram_activity/messages/inbox/bakers_77/message_1.json",
    "telegram/rich": "DataExport_2024-05-01/result.json",
    "chatgpt/sample": "conversations.json",
    "claude/sample": "conversations.json",
    "mail/mailbox": "Takeout/Mail/inbox.mbox",
}
"""Cases of one file, with its name in an archive."""


@pytest.mark.parametrize(("case", "name"), ARCHIVED.items())
def test_an_export_in_an_archive_is_read_as_its_file(case: str, name: str, tmp_path: Path) -> None:
    [path] = (CHATS / case / "input").iterdir()
    alone, packed = tmp_path / "alone", tmp_path / "packed"
    for folder in (alone, packed):
        folder.mkdir()
    (alone / f"chat{path.suffix}").write_bytes(path.read_bytes())
    with zipfile.ZipFile(packed / "chat.zip", "w") as archive:
        archive.writestr(name, path.read_bytes())
        archive.writestr("user.json", json.dumps({"email": "ann@a.example"}))

    expected, found = (read_exports(folder, ConversationSettings()) for folder in (alone, packed))

    assert found.messages.drop("source").equals(expected.messages.drop("source"))
    assert found.sources["status"].to_list() == ["read"]


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        (CHATS / case / EXPECTED).write_text(write_lines(describe(CHATS / case)), encoding="utf-8")
