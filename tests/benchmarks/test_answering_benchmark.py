"""The answering benchmark's two sides do the same."""

from pathlib import Path

from benchmarks.answering import Task, measure


def test_library_and_reference_find_the_same_chunks(tmp_path: Path) -> None:
    figures = measure(Task(600, 10, 3, 32, tmp_path, "similarity"), repeats=1)
    assert figures["windows_alike"] == 1.0
    assert figures["ratio"] > 0
