"""Real exports in every style that is at hand, against the rows that they must give."""

import json
from pathlib import Path

import polars as pl
import pytest

from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.single_exports import read_export

STYLES = (
    "android_de_24h",
    "android_in_ampm_lower",
    "android_iso_24h",
    "android_ptbr_24h",
    "android_us_ampm_nnbsp",
    "ios_de_24h",
    "ios_en_24h",
    "ios_us_ampm_nnbsp",
)
SAMPLES = (
    "test_[mmddyy]_24hrs.txt",
    "test_ddmmyy_24hrs.txt",
    "test_mmddyy_24hrs.txt",
    "test_mmddyyyy_12hrs.txt",
    "test_yyyymmdd_24hrs.txt",
)


@pytest.mark.parametrize("style", STYLES)
def test_every_style_gives_exactly_the_expected_rows(shared_data: Path, style: str) -> None:
    folder = shared_data / "exports" / "rendered" / style
    expected = pl.read_parquet(folder / "expected.parquet")

    messages, quarantine = read_export(folder / "chat.txt", ConversationSettings())

    written = messages.filter(kind="message")
    assert written["timestamp"].to_list() == expected["timestamp"].to_list()
    assert written["author"].to_list() == expected["author"].to_list()
    assert written["text"].to_list() == expected["message"].to_list()
    assert messages.filter(pl.col("kind") != "message")["kind"].to_list() == ["system"]
    assert quarantine.is_empty()


@pytest.mark.parametrize("sample", SAMPLES)
def test_chat_miner_samples_agree_with_their_target(shared_data: Path, sample: str) -> None:
    folder = shared_data / "exports" / "samples" / "chat-miner" / "whatsapp"
    target = json.loads((folder / "target.json").read_text(encoding="utf-8"))

    messages, quarantine = read_export(folder / sample, ConversationSettings())

    written = messages.filter(kind="message").reverse()
    rows = zip(
        written["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S"),
        written["author"],
        written["text"].str.replace_all("\n", " "),  # the target joins the lines of a message with spaces
        strict=True,
    )
    assert list(rows) == [(row["timestamp"], row["author"], row["message"]) for row in target]
    assert messages.filter(kind="system")["author"].null_count() == 3
    assert quarantine.is_empty()
