"""The search benchmark runs as documented and prints one JSON line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.search import measure

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("engine", ["exact", pytest.param("vss", marks=pytest.mark.long)])
def test_the_benchmark_prints_one_line_of_json(engine: str) -> None:
    command = [sys.executable, "-m", "benchmarks.search", "--n", "600", "--q", "20", "--dim", "16"]
    finished = subprocess.run(
        [*command, "--engine", engine, "--repeats", "1", "--json"],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_CORETYPE": "Haswell"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    (line,) = finished.stdout.splitlines()
    figures = json.loads(line)
    assert (figures["n"], figures["q"], figures["dim"], figures["engine"]) == (600, 20, 16, engine)
    assert figures["recall"] == 1.0 if engine == "exact" else figures["recall"] > 0.9
    assert figures["ratio"] > 0
    assert figures["extra_memory_mb"] < 80
    assert (figures["recall_when_built"] is None) is (engine == "exact")
    assert 0 < figures["open_seconds"] <= figures["first_search_seconds"]
    assert "OPENBLAS_CORETYPE" in figures["dropped_environment"]


@pytest.mark.parametrize("name", ["as_of", "tags"])
def test_a_filter_is_measured_beside_the_search_without_it(name: str) -> None:
    figures = measure(600, 20, 16, "exact", 5, 1, name)
    assert (figures["filter"], figures["recall"]) == (name, 1.0)
    assert figures["filter_ratio"] > 0


def test_one_query_is_compared_with_one_product_of_matrix_and_vector() -> None:
    figures = measure(600, 1, 16, "exact", 5, 1, "none")
    assert (figures["q"], figures["recall"]) == (1, 1.0)
