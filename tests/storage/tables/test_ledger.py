"""The ledger: what is pending, and what survives."""

from pathlib import Path

from backstory.base.errors import LedgerError
from backstory.storage.tables.ledger import Entry, Ledger
from tests.errors import raises


def test_a_table_that_was_never_made_is_pending(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "data" / "ledger.sqlite")
    assert ledger.read("windows") == {}
    assert ledger.pending("windows", {"2025-01-01": "a"}, {}) == ["2025-01-01"]


def test_changed_inputs_and_lost_files_are_pending_and_nothing_else(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.record("windows", {key: Entry("same", "rows", 2) for key in ("kept", "changed", "lost")})
    ledger.record("windows", {"empty": Entry("same", "", 0)})
    wanted = {"changed": "other", "empty": "same", "kept": "same", "lost": "same", "unknown": "same"}
    assert ledger.pending("windows", wanted, {"kept": "rows", "changed": "rows"}) == [
        "changed",
        "lost",
        "unknown",
    ]


def test_a_file_where_there_should_be_none_is_pending(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.record("windows", {"empty": Entry("same", "", 0)})
    assert ledger.pending("windows", {"empty": "same"}, {"empty": "rows"}) == ["empty"]


def test_tables_are_apart_and_the_last_entry_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.record("windows", {"day": Entry("1", "x", 1)})
    ledger.record("windows", {"day": Entry("2", "y", 5)})
    assert Ledger(tmp_path / "ledger.sqlite").read("windows") == {"day": Entry("2", "y", 5)}
    assert ledger.read("hits") == {}


def test_a_kept_connection_sees_every_change_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    elsewhere = Ledger(path)
    elsewhere.record("windows", {"day": Entry("1", "x", 1)})
    ledger = Ledger(path)
    with ledger.connected():
        ledger.read("windows").clear()
        assert ledger.read("windows") == {"day": Entry("1", "x", 1)}
        elsewhere.record("windows", {"day": Entry("2", "y", 2)})
        assert ledger.read("windows") == {"day": Entry("2", "y", 2)}
        Ledger(path).record("windows", {"later": Entry("3", "z", 3)})
        assert ledger.read("windows").keys() == {"day", "later"}
        ledger.forget("windows", ["day"])
        assert Ledger(path).read("windows").keys() == {"later"}
        path.rename(tmp_path / "moved.sqlite")
        assert ledger.read("windows") == {}


def test_a_damaged_ledger_that_is_only_read_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"no database " * 999)
    ledger = Ledger(path)
    with raises(LedgerError, "damaged_file", path=path), ledger.kept_open():
        ledger.read("windows")
    assert path.read_bytes() == b"no database " * 999
