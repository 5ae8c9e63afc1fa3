from pathlib import Path

import pytest

from backstory.writing.draft import Draft
from backstory.writing.draft_cache import DraftCache

pytestmark = pytest.mark.usefixtures("either_storage")
FIRST, SECOND = Draft("A", "a text", ("x",), "tiny", 1, 2), Draft("", "", withheld="refused: no")


@pytest.fixture
def cache(tmp_path: Path) -> DraftCache:
    made = DraftCache(tmp_path / "data" / "drafts.sqlite")
    made.path.parent.mkdir()
    return made


def test_the_last_draft_of_a_request_is_given(cache: DraftCache) -> None:
    assert (cache.get("r"), cache.count(), cache.find_damage(), cache.keep_only([])) == (None, 0, None, 0)
    cache.put("r", "c", FIRST)
    cache.put("s", "d", SECOND)
    cache.put("r", "c", SECOND)
    assert (cache.get("r"), cache.get("s"), cache.count()) == (SECOND, SECOND, 3)
    assert cache.find_damage() is None


def test_drafts_of_other_contexts_leave_nothing_on_the_disk(cache: DraftCache) -> None:
    cache.put("r", "c", FIRST)
    cache.put("s", "d", SECOND)
    assert cache.keep_only({"d"}) == 1
    assert (cache.get("r"), cache.get("s")) == (None, SECOND)
    assert not any(b"a text" in path.read_bytes() for path in cache.path.parent.iterdir())
