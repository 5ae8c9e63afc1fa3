"""The backfill benchmark runs as documented, over a workspace that is the same everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from backstory.ingest.chats.exports import read_exports
from backstory.settings.inputs import ConversationSettings
from benchmarks.synthetic_workspace import Size, write_workspace

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("export", ["whatsapp", "parquet"])
def test_the_benchmark_times_every_stage(export: str) -> None:
    command = [sys.executable, "-m", "benchmarks.backfill", "--windows", "3", "--messages", "40"]
    finished = subprocess.run(
        [*command, "--documents", "5", "--export", export, "--json"],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_CORETYPE": "Haswell"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    (line,) = finished.stdout.splitlines()
    figures = json.loads(line)
    rows = {step["name"]: step["rows"] for step in figures["steps"]}
    assert (rows["messages"], rows["windows"], rows["documents"]) == (120, 3, 5)
    assert rows["contexts"] > 0
    assert all(step["peak_mb"] > 0 for step in figures["steps"])
    assert [step["name"] for step in figures["second_run"]] == [
        "second run: nothing to do",
        "second run: every stage",
    ]
    assert "OPENBLAS_CORETYPE" in figures["dropped_environment"]


def test_the_workspace_is_the_same_every_time_and_in_both_formats(tmp_path: Path) -> None:
    size = Size(windows=4, messages=30, documents=3)
    for name, export in (("a", "whatsapp"), ("b", "whatsapp"), ("c", "parquet")):
        write_workspace(tmp_path / name, size, embedder="hashing", export=export)  # type: ignore[arg-type]
    files = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")
         if path.is_file()}
        for name in ("a", "b")
    ]  # fmt: skip
    assert files[0] == files[1]
    read = [
        read_exports(tmp_path / name / "chats", ConversationSettings(date_order="dmy")).messages.select(
            "timestamp", "author", "text"
        )
        for name in ("a", "c")
    ]
    assert read[0].equals(read[1])
    assert read[0]["timestamp"].dt.date().n_unique() == size.windows
    assert read[0].select(pl.col("text").str.split(" ").list.len().max()).item() > 10
