"""What holds of the readers of all chat platforms."""

import contextlib
import copy
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from backstory.ingest.chats import export
from backstory.ingest.chats.export import ChatMessage, Deleted, Export, Item, collect_items
from backstory.ingest.chats.export_files import open_parts
from backstory.ingest.chats.exports import CHAT_FORMATS, find_format
from backstory.ingest.chats.json_stream import BrokenJsonError
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.chat_samples import SAMPLES, TEXT_SAMPLES, write_sample
from tests.long_tests import each_of

ODD: tuple[Any, ...] = (None, True, 7, -1e300, "", "\0", "9" * 40, [], {}, [[], {}], {"a": []})
"""Values of every type, one of which is wrong wherever it stands."""


def read(content: bytes, name: str = "export.json") -> tuple[str | None, list[Item]]:
    """Give the format of an export and what is read of it before it breaks off."""
    items: list[Item] = []
    with open_parts(io.BytesIO(content), name, ConversationSettings()) as opened:
        found = find_format(opened, CHAT_FORMATS)
        if found is None:
            return None, items
        with contextlib.suppress(BrokenJsonError):
            read = found[0].read(opened, found[1])
            assert not isinstance(read, Export)
            items.extend(read)
    return found[0].name, items


def vary(value: Any) -> Iterator[Any]:
    """Give a value with each value in it, in turn, left out or replaced by an odd one."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list | tuple)
        else ()
    )
    for key in keys:
        for odd in (*ODD, *vary(value[key])):
            changed = list(value) if isinstance(value, tuple) else copy.copy(value)
            changed[key] = odd
            yield tuple(changed) if isinstance(value, tuple) else changed
        if isinstance(value, dict):
            yield {other: part for other, part in value.items() if other != key}


def test_all_formats_look_at_lines_that_are_decoded_once() -> None:
    with open_parts(io.BytesIO("Grüße\n".encode("cp1252")), "a.txt", ConversationSettings()) as opened:
        assert opened.head_lines() is opened.head_lines()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_read_whole_and_as_its_format(name: str) -> None:
    found, items = read(write_sample(SAMPLES[name]))
    parsed = collect_items(items, "UTC")
    assert found == name
    assert not parsed.unread
    assert len(parsed.rows) > 0


@pytest.mark.parametrize("name", TEXT_SAMPLES)
def test_a_text_is_read_whole_and_as_its_format(name: str) -> None:
    expected, content = TEXT_SAMPLES[name]
    found, items = read(content.encode(), name)
    parsed = collect_items(items, "UTC")
    assert found == expected
    assert not parsed.unread
    assert len(parsed.rows) > 0


def test_the_last_record_of_a_message_counts_in_a_large_export_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_ROWS_AT_ONCE", 2)
    sent = datetime(2024, 5, 1, tzinfo=UTC)
    keys = ["a", "b", None, "a", None, "c", "b", "a"]
    said = [ChatMessage(sent, "Ann", str(place), chat="x", key=key) for place, key in enumerate(keys)]
    said.append(ChatMessage(sent, "Ann", "8", chat="y", key="a"))

    rows = collect_items([*said, Deleted("x", "b")], "UTC").rows

    assert rows["text"].to_list() == ["2", "4", "5", None, "7", "8"]
    assert rows["seq"].to_list() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", SAMPLES)
def test_no_value_of_any_type_breaks_a_reader(name: str) -> None:
    items = []
    for sample in each_of([*vary(SAMPLES[name])], 5):
        items += read(write_sample(sample))[1]
    parsed = collect_items(items, "UTC")
    assert sum(isinstance(item, ChatMessage) for item in items) > 50
    assert parsed.rows["timestamp"].null_count() == 0
