"""``eval``."""

import json
from pathlib import Path

import polars as pl
import pytest

from backstory.base.errors import InputError
from backstory.operations.evaluation import read_labelled_set
from tests.errors import raises
from tests.interfaces.cli.invocation import exit_code, run
from tests.models.rerankers.tiny_cross_encoder import write_cross_encoder


def labelled_set(folder: Path) -> Path:
    folder.mkdir()
    moment = pl.Series(["2025-03-13T09:00:00Z"]).str.to_datetime(time_unit="us", time_zone="UTC")[0]
    pl.DataFrame(
        {
            "doc_id": ["a", "b", "c"], "title": ["Irrigation", "Disk", "Moths"],
            "text": ["the drip irrigation line", "a clicking backup disk", "moths at a lamp"],
            "date": [None, moment, None], "tags": [[], [], []],
        },
        schema_overrides={"date": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String)},
    ).write_parquet(folder / "docs.parquet")  # fmt: skip
    pl.DataFrame(
        {
            "window_id": ["set-n2-001"] * 2, "msg_no": [0, 1], "timestamp": [moment] * 2, "author": ["x", "y"],
            "message": ["our drip irrigation line broke", "my backup disk is clicking"],
        }
    ).write_parquet(folder / "windows.parquet")  # fmt: skip
    pl.DataFrame(
        {"window_id": ["set-n2-001"] * 2, "doc_id": ["a", "b"], "rel": [2, 1], "topic": ["t1", "t2"]}
    ).write_parquet(folder / "qrels.parquet")
    return folder


def test_eval_scores_the_librarys_own_path_and_writes_its_runs(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    runs = tmp_path / "runs.parquet"
    html = tmp_path / "methods.html"
    folder = labelled_set(tmp_path / "set")
    result = run("eval", str(folder), "-w", str(root), "--runs", str(runs), "--html", str(html), "--json")
    assert result.exit_code == 0, result.output
    scores = {(row["method"], row["metric"]): row for row in json.loads(result.stdout)["scores"]}
    assert scores["backstory", "ncov@5"]["mean"] == 1.0
    assert scores["backstory", "ncov@5"]["group"] == "set-n2"
    assert {method for method, _ in scores} == {
        "backstory",
        "whole window, one vector",
        "whole window, keywords",
    }
    assert "whole window, keywords" in html.read_text(encoding="utf-8")
    written = pl.read_parquet(runs)
    assert written.columns == ["window_id", "rank", "doc_id", "score", "method"]
    shown = run("eval", str(folder), "-w", str(root)).stdout
    assert "gain in ncov@5" in shown


def test_the_whole_window_is_asked_by_all_its_words(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    folder = labelled_set(tmp_path / "set")
    documents = pl.read_parquet(folder / "docs.parquet")
    rare = " ".join(f"rare{number}" for number in range(40))
    text = pl.Series("text", ["drip drip", f"clicking {rare}", "lamp drip"])
    documents.with_columns(text).write_parquet(folder / "docs.parquet")
    windows = pl.read_parquet(folder / "windows.parquet")
    message = pl.Series("message", [f"drip {rare}", "drip"])
    windows.with_columns(message).write_parquet(folder / "windows.parquet")
    runs = tmp_path / "runs.parquet"
    result = run("eval", str(folder), "-w", str(root), "--runs", str(runs), "--json")
    assert result.exit_code == 0, result.output
    found = pl.read_parquet(runs).filter(method="whole window, keywords").sort("rank")
    # All 40 rare words are in the second document; 32 of them alone would leave the others unfound.
    assert found["doc_id"].to_list() == ["b", "a", "c"]


@pytest.mark.parametrize(("word", "first"), [("clicking", "b"), ("irrigation", "a")])
def test_eval_and_doctor_use_the_reranker_of_the_workspace(
    tmp_path: Path, root: Path, word: str, first: str
) -> None:
    write_cross_encoder(root / "model", {word: 5.0})
    settings = "embedding: {provider: hashing}\nrag: {min_similarity: -1}\n"
    reranker = "rerank: {provider: cross_encoder, model_dir: model}\n"
    (root / "backstory.yaml").write_text(settings + reranker, encoding="utf-8")
    runs = tmp_path / "runs.parquet"
    result = run("eval", str(labelled_set(tmp_path / "set")), "-w", str(root), "--runs", str(runs), "--json")
    assert json.loads(result.stdout)["figures"]["rerank"] == "cross_encoder"
    ranked = pl.read_parquet(runs).filter(method="backstory").sort("rank")["doc_id"].to_list()
    assert ranked[0] == first
    assert {"a", "b"} <= set(ranked)
    assert "cross_encoder:model" in run("doctor", "-v", "-w", str(root)).stdout


@pytest.mark.parametrize(
    "changes",
    [
        {"doc_id": ["a", "z"]},
        {"window_id": ["set-n2-002"] * 2},
        {"window_id": ["set-n2-001", "elsewhere"]},
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, list[str]]) -> None:
    labels = labelled_set(tmp_path / "set") / "qrels.parquet"
    columns = {name: pl.Series(values) for name, values in changes.items()}
    pl.read_parquet(labels).with_columns(**columns).write_parquet(labels)
    with raises(InputError, "unknown_ids", labels):
        read_labelled_set(tmp_path / "set")


def test_eval_measures_what_a_workspace_answers(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "questions.jsonl"
    asked = [
        {
            "question": "which backup disk clicks?",
            "kind": "lookup",
            "group": "told",
            "documents": ["disk.md"],
        },
        {"question": "thanks!", "kind": "casual"},
    ]
    file.write_text("".join(json.dumps(each) + "\n" for each in asked), encoding="utf-8")
    result = run("eval", str(file), "--answers", "-w", str(made), "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    figures = {(row["group"], row["measure"]): (row["questions"], row["mean"]) for row in record["answers"]}
    assert figures["all", "class"] == (2, 1.0)
    assert figures["told", "recall@5"] == (1, 1.0)
    assert ("all", "answerable refused") not in figures
    assert record["tokens"] == 0
    assert record["embedded_tokens"] > 0
    shown = run("eval", str(file), "--answers", "-w", str(made)).stdout
    assert "told" in shown
    assert "recall@5" in shown
    assert exit_code(monkeypatch, "eval", str(file), "--answers", "--runs", "r.parquet") == 2
    file.write_text('{"question": 1}\n', encoding="utf-8")
    assert exit_code(monkeypatch, "eval", str(file), "--answers", "-w", str(made)) == 2
