"""``init``, ``status`` and ``doctor``."""

import json
from pathlib import Path

import polars as pl
import pytest

from backstory.pipeline.workspace import open_workspace
from tests.interfaces.cli.invocation import exit_code, run
from tests.workspaces import replace_recorded


def test_init_makes_a_workspace_and_never_overwrites_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(monkeypatch, "init", str(tmp_path / "new")) == 0
    settings = tmp_path / "new" / "backstory.yaml"
    settings.write_text("rag: {top_k: 7}\n", encoding="utf-8")
    assert exit_code(monkeypatch, "init", str(tmp_path / "new")) == 2
    assert settings.read_text(encoding="utf-8") == "rag: {top_k: 7}\n"


def test_init_says_that_a_file_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert exit_code(monkeypatch, "init", str(tmp_path / "file")) == 2
    assert exit_code(monkeypatch, "init", str(tmp_path / "file" / "below")) == 2


def test_status_counts_the_tables(made: Path) -> None:
    status = json.loads(run("status", "-w", str(made), "--json").stdout)
    assert status["tables"]["messages"]["rows"] == 2
    assert status["index_version"]
    assert "window_contexts" in run("status", "-w", str(made)).stdout


def test_status_counts_the_tables_beside_a_damaged_index(made: Path) -> None:
    [manifest] = (made / "index").glob("*/manifest.json")
    manifest.unlink()
    shown = json.loads(run("status", "-w", str(made), "--json").stdout)
    assert "manifest.json" in shown["index_error"]
    assert shown["tables"]["messages"]["rows"] > 0
    assert "manifest.json" in " ".join(run("status", "-w", str(made)).stdout.split())


def test_doctor_finds_nothing_wrong_then_what_is_wrong(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(monkeypatch, "doctor", "-w", str(made)) == 0
    (made / ".backstory" / "secret.key").chmod(0o644)
    assert exit_code(monkeypatch, "doctor", "-w", str(made)) == 1
    assert "chmod 600" in run("doctor", "-w", str(made)).stdout


def test_doctor_counts_the_checks_of_machinery_that_passed_and_lists_them_if_asked(made: Path) -> None:
    def list_names(*words: str) -> list[str]:
        lines = run("doctor", *words, "-w", str(made)).stdout.splitlines()
        return [line[5:].partition(":")[0] for line in lines if line.startswith(("ok ", "FAIL"))]

    every = [row["name"] for row in json.loads(run("doctor", "--json", "-w", str(made)).stdout)]
    assert list_names("-v") == every
    short = list_names()
    assert {"documents", "search index", "real names"} < set(short) < set(every)
    assert "table messages" not in short
    next((made / "data" / "messages").glob("*.parquet")).write_bytes(b"")
    assert "table messages" in list_names()


def test_doctor_finds_rows_that_refer_to_nothing(made: Path) -> None:
    table = next((made / "data" / "window_chunks").glob("*.parquet"))
    rows = pl.read_parquet(table).with_columns(window_id=pl.lit("gone"))
    replace_recorded(open_workspace(made), "window_chunks", table.name.split(".")[0], rows)
    result = run("doctor", "--files", "-w", str(made))
    assert result.exit_code == 1
    assert "window_chunks, unknown_windows" in result.stdout
    assert "window_id gone" in result.stdout
