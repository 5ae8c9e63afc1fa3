"""The benchmark of files: the same vectors for all, and a table of medians."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.files import write_files, write_table
from benchmarks.peers import environments, file_search
from benchmarks.peers.backstory_files import Backstory

PEERS = ("llamaindex", "chroma", "haystack")


def test_a_text_has_the_same_unit_vector_everywhere() -> None:
    first, other = np.array(file_search.embed(["a text", "another"]))
    assert file_search.embed(["a text"])[0] == pytest.approx(first)
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-5)
    assert abs(float(first @ other)) < 0.5


def test_backstory_indexes_the_files_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "files", 4)
    (tmp_path / "questions.json").write_text('["w1 w2", "w3 w4", "w5"]', encoding="utf-8")
    out = tmp_path / "out.json"
    given = [tmp_path / "files", tmp_path / "questions.json", tmp_path / "store", out]
    monkeypatch.setattr(sys, "argv", ["backstory_files", *map(str, given)])
    file_search.run(Backstory, ["numpy"])
    written = out.read_text(encoding="utf-8")
    assert re.search(r'"files": 4, "chunks": [1-9]', written)
    assert re.search(r'"a look at the files, every two seconds at most": [0-9.]+', written)


def test_the_table_has_the_medians_of_the_turns() -> None:
    turns = [
        {
            "files": 100,
            "chunks": 1200,
            "index": {"wall": wall, "cpu": 1.0},
            "search_ms": [1.0, 2.0, 3.0],
            "search_cpu_ms": 1.5,
            "parts_ms": {"a part": wall},
            "peak_memory": 200_000_000,
            "versions": {"numpy": "2", "some": "1.0"},
        }
        for wall in (1.0, 2.0, 10.0)
    ]
    head, rule, row, _, parts = write_table({"Some": turns}).splitlines()
    assert row == "| Some (some 1.0) | 1,200 | 50 | 10.00 | 2.00 | 2.98 | 1.5 | 200 |"
    assert parts == "- Some: a part 2.00 ms"
    assert head.count("|") == rule.count("|") == row.count("|")


@pytest.mark.parametrize("peer", PEERS)
def test_an_environment_is_exact_and_without_torch(peer: str) -> None:
    lines = (environments.REQUIREMENTS / peer / "requirements.txt").read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert packages
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line) for line in packages)
    assert not [line for line in packages if line.lower().startswith(("torch", "nvidia", "triton"))]
