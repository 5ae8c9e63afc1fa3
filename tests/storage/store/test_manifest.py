"""The manifest: what two workers changed is joined, or refused, and large ones are compressed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import StoreError
from backstory.storage.store.manifest import (
    FILE,
    KEPT,
    Manifest,
    SettingsChange,
    SharedFile,
    decode_manifest,
    join_publications,
    merge,
)
from backstory.storage.tables.ledger import Entry

NOW = datetime(2026, 3, 4, 10, tzinfo=UTC)


def make(*days: str, content: str = "a", memory: str = "", settings: str = "s") -> Manifest:
    files = {f"data/windows/{day}.parquet": SharedFile(content * 64, 10) for day in days}
    entries = {day: Entry(f"inputs of {content}", content * 32, 3) for day in days}
    remembered = {"extent": {"exports": Entry(memory, "", 0)}} if memory else {}
    return Manifest(files, {"windows": entries, **remembered}, settings)


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = Manifest(
        {
            "chats/garden.txt": SharedFile("a" * 64, 7, 1_700_000_000_123_456_789),
            "index/CURRENT": SharedFile("b" * 64, 17),
        },
        {"windows": {"2025-03-04": Entry("inputs", "b" * 32, 2)}},
        "settings",
        {"run": 3},
        {"c" * 64: NOW.isoformat()},
        SettingsChange({"rag.top_k": "d"}, "machine:/folder", NOW.isoformat()),
    )
    assert decode_manifest(manifest.encode(), "store") == manifest
    assert (
        decode_manifest(manifest.encode(), "store").files["chats/garden.txt"].changed_at
        == 1_700_000_000_123_456_789
    )
    large = make(*(f"day-{number}" for number in range(2000)))
    assert large.encode() == large.encode()
    assert large.encode().startswith(b"\x1f\x8b")
    assert decode_manifest(large.encode(), "store") == large


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"format": 2}', b"\x1f\x8bshort", b'{"format": 1, "files": {"a": []}}']
)
def test_a_damaged_manifest_is_an_error(content: bytes) -> None:
    with pytest.raises(StoreError) as error:
        decode_manifest(content, "store")
    assert error.value.code == "damaged_manifest"


values = st.dictionaries(st.sampled_from([(FILE, name) for name in "abcd"]), st.integers(0, 2))


@given(values, values, values)
def test_each_key_is_as_who_changed_it_left_it(
    base: dict[tuple[str, str], int], ours: dict[tuple[str, str], int], theirs: dict[tuple[str, str], int]
) -> None:
    merged, conflicts = merge(base, ours, theirs)
    for key in {*base, *ours, *theirs}:
        before, mine, other = base.get(key), ours.get(key), theirs.get(key)
        changed = {value for value in (mine, other) if value != before}
        assert (key in conflicts) == (len(changed) == 2)
        assert merged.get(key) == (other if other != before else mine)


def test_other_days_are_joined() -> None:
    base, ours, theirs = make("1"), make("1", "2", memory="ours"), make("1", "3", memory="theirs")
    joined = join_publications(base, ours, theirs, "store")
    assert set(joined.ledger["windows"]) == {"1", "2", "3"}
    assert len(joined.files) == 3
    assert "extent" not in joined.ledger


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (make("1", "2"), make("1", "2", content="b")),
        (make(), make("1", content="b")),
        (make("1", settings="t"), make("1", settings="u")),
    ],
)
def test_the_same_day_or_the_settings_are_not_joined(ours: Manifest, theirs: Manifest) -> None:
    with pytest.raises(StoreError) as error:
        join_publications(make("1"), ours, theirs, "store")
    assert error.value.code == "conflicting_publication"


def test_a_dropped_object_is_known_for_a_day() -> None:
    first = make("1", "2", content="a")
    second = make("1", content="b").follow(first, NOW)
    assert second.dropped == {"a" * 64: NOW.isoformat()}
    assert make("1", content="c").follow(second, NOW + timedelta(hours=1)).dropped.keys() == {
        "a" * 64,
        "b" * 64,
    }
    assert make("1", content="a").follow(second, NOW).dropped.keys() == {"b" * 64}
    assert make("1", content="b").follow(second, NOW + KEPT).dropped == {}
