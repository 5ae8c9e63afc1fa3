import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backstory.errors import DraftFileError
from backstory.writing.draft import Draft
from backstory.writing.draft_cache import DraftCache

FIRST, SECOND = Draft("A", "a text", ("x",), "tiny", 1, 2), Draft("", "", withheld="refused: no")


@pytest.fixture
def cache(tmp_path: Path) -> DraftCache:
    made = DraftCache(tmp_path / "data" / "drafts.sqlite")
    made.path.parent.mkdir()
    return made


def test_drafts_are_given_in_their_order(cache: DraftCache) -> None:
    assert (cache.get("r"), cache.count(), cache.find_damage(), cache.keep_only([])) == ([], 0, None, 0)
    cache.put("r", "c", FIRST)
    cache.put("s", "d", SECOND)
    cache.put("r", "c", SECOND)
    assert (cache.get("r"), cache.get("s"), cache.count()) == ([FIRST, SECOND], [SECOND], 3)
    assert cache.find_damage() is None


def test_drafts_of_other_contexts_leave_nothing_on_the_disk(cache: DraftCache) -> None:
    cache.put("r", "c", FIRST)
    cache.put("s", "d", SECOND)
    assert cache.keep_only({"d"}) == 1
    assert (cache.get("r"), cache.get("s")) == ([], [SECOND])
    assert not any(b"a text" in path.read_bytes() for path in cache.path.parent.iterdir())


def test_a_draft_that_differs_from_its_checksum_is_not_used(
    cache: DraftCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put("r", "c", FIRST)
    cache.put("r", "c", SECOND)
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        connection.execute("UPDATE drafts SET draft = replace(draft, 'a text', 'b text')")
    assert "1 drafts differ" in (cache.find_damage() or "")
    assert cache.get("r") == [SECOND]
    assert "differ from their checksums" in caplog.text
    assert cache.find_damage() is None


def test_a_damaged_file_is_set_aside_and_forgotten(
    cache: DraftCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.path.write_bytes(b"a text that was never a database" * 200)
    assert "is damaged" in (cache.find_damage() or "")
    assert cache.get("r") == []
    assert "was moved to drafts.sqlite.damaged" in caplog.text
    cache.put("r", "c", FIRST)
    assert cache.get("r") == [FIRST]
    cache.keep_only({"c"})
    assert [path.name for path in cache.path.parent.iterdir() if "damaged" in path.name] == []


def test_the_file_of_a_later_release_is_left_alone(cache: DraftCache) -> None:
    cache.put("r", "c", FIRST)
    with closing(sqlite3.connect(cache.path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(DraftFileError, match="format 99"):
        cache.get("r")
