"""The ledger: what is pending, and what survives."""

from pathlib import Path

from backstory.storage.tables.ledger import Entry, Ledger


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
