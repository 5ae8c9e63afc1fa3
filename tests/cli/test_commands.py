"""The command line, in process: every command, its output, its exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from backstory import run_pipeline
from backstory.cli import app as cli
from backstory.workspace import open_workspace
from tests.rerankers.tiny_cross_encoder import write_cross_encoder

CHAT = """\
13/03/2025, 09:01 - Ada Lind: The drip irrigation line broke again
13/03/2025, 09:02 - Ben Okri: My backup disk makes a clicking noise
"""
POSTS = {"irrigation": "The drip irrigation line and its elbow.", "disk": "A clicking backup disk."}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    run("init", str(folder))
    (folder / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    (folder / "chats" / "garden.txt").write_text(CHAT, encoding="utf-8")
    for name, text in POSTS.items():
        (folder / "posts" / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")
    return folder


@pytest.fixture
def made(root: Path) -> Path:
    run_pipeline(open_workspace(root))
    return root


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, list(arguments))


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["backstory", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


def test_every_command_is_tested() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    names = {
        command.name or command.callback.__name__
        for command in cli.app.registered_commands
        if command.callback
    }
    assert names == {"init", "status", "windows", "context", "report", "query", "doctor", "eval"}
    assert all(f'"{name}"' in source for name in names)


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


def test_windows_lists_windows_before_and_after_their_contexts(root: Path) -> None:
    assert "No windows yet" in run("windows", "-w", str(root)).stdout
    run_pipeline(open_workspace(root))
    [window] = json.loads(run("windows", "-w", str(root), "--json").stdout)
    assert (window["status"], window["kept_count"]) == ("ok", 2)


def test_context_gives_the_text_and_the_reasons(made: Path) -> None:
    [window] = json.loads(run("windows", "-w", str(made), "--json").stdout)
    context = json.loads(run("context", window["window_id"], "-w", str(made), "--json").stdout)
    assert {row["slug"] for row in context["documents"]} == set(POSTS)
    assert any("irrigation" in text for row in context["documents"] for text in row["asked_by"])
    shown = run("context", window["window_id"][:6], "-w", str(made)).stdout
    assert "Related Previous Posts" in shown
    assert "asked for by" in shown
    assert f"Verdict: {context['verdict']}" in " ".join(shown.split())
    assert context["recommendation"] in " ".join(shown.split())


def test_report_writes_a_page_and_says_where(made: Path, tmp_path: Path) -> None:
    [window] = json.loads(run("windows", "-w", str(made), "--json").stdout)
    printed = Path(run("report", window["window_id"][:6], "-w", str(made)).stdout.strip())
    assert printed == made / "reports" / f"{window['window_id']}.html"
    page = printed.read_text(encoding="utf-8")
    assert 'href="../posts/irrigation.md"' in page
    elsewhere = tmp_path / "pages" / "one.html"
    assert run("report", window["window_id"], "-w", str(made), "--output", str(elsewhere)).exit_code == 0
    assert "irrigation.md" not in elsewhere.read_text(encoding="utf-8")  # the way there would name folders


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 1", 1)])
def test_report_opens_the_page_in_the_browser(made: Path, tmp_path: Path, ends: str, code: int) -> None:
    [window] = json.loads(run("windows", "-w", str(made), "--json").stdout)
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n{ends}\n', encoding="utf-8")
    browser.chmod(0o755)
    # A process of its own: the standard library reads BROWSER once.
    command = ["report", window["window_id"], "-w", str(made), "--open"]
    result = subprocess.run(
        [sys.executable, "-c", "from backstory.cli import main; main()", *command],
        env={**os.environ, "BROWSER": f"{browser} %s"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stderr
    assert opened.read_text(encoding="utf-8") == Path(result.stdout.strip()).as_uri()


def test_query_asks_the_index(made: Path) -> None:
    answer = json.loads(run("query", "a clicking disk", "-w", str(made), "--json").stdout)
    assert answer["documents"][0]["slug"] == "disk"
    assert answer["engine"] == "exact"
    assert "disk" in run("query", "a clicking disk", "-w", str(made)).stdout


def test_doctor_finds_nothing_wrong_then_what_is_wrong(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(monkeypatch, "doctor", "-w", str(made)) == 0
    (made / ".backstory" / "secret.key").chmod(0o644)
    assert exit_code(monkeypatch, "doctor", "-w", str(made)) == 1
    assert "chmod 600" in run("doctor", "-w", str(made)).stdout


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
        "whole window, mean vector",
        "whole window, keywords",
        "whole window, mean vector and keywords",
    }
    assert "whole window, mean vector" in html.read_text(encoding="utf-8")
    assert [row["metric"] for row in json.loads(result.stdout)["prediction"]] == ["ncov@5", "coverage@5"]
    written = pl.read_parquet(runs)
    assert written.columns == ["window_id", "rank", "doc_id", "score", "method"]
    shown = run("eval", str(folder), "-w", str(root)).stdout
    assert "gain in ncov@5" in shown
    # One window cannot vary.
    assert "The assessment predicts ncov@5: Spearman undefined, Pearson undefined (1 windows)" in shown


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
    assert "cross_encoder:model" in run("doctor", "-w", str(root)).stdout


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"doc_id": ["a", "z"]}, "1 labels name a document that docs.parquet does not hold"),
        ({"window_id": ["set-n2-002"] * 2}, "1 windows have no relevant document"),
        (
            {"window_id": ["set-n2-001", "elsewhere"]},
            "1 labels name a window that windows.parquet does not hold",
        ),
    ],
)
def test_eval_refuses_labels_that_do_not_fit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, list[str]],
    words: str,
) -> None:
    labels = labelled_set(tmp_path / "set") / "qrels.parquet"
    pl.read_parquet(labels).with_columns(**{name: pl.Series(v) for name, v in changes.items()}).write_parquet(
        labels
    )
    assert exit_code(monkeypatch, "eval", str(tmp_path / "set")) == 2
    assert words in capsys.readouterr().err


def test_names_that_look_like_markup_are_shown_as_they_are(root: Path) -> None:
    (root / "chats" / "garden.txt").rename(root / "chats" / "the [b] group.txt")
    post = root / "posts" / "disk.md"
    post.write_text(f"---\nslug: '[/b]disk'\n---\n{post.read_text(encoding='utf-8')}", encoding="utf-8")
    run_pipeline(open_workspace(root))
    windows = run("windows", "-w", str(root))
    assert "the [b] group" in windows.stdout, windows.output
    window = json.loads(run("windows", "-w", str(root), "--json").stdout)[0]["window_id"]
    for arguments in (("query", "a clicking disk"), ("context", window)):
        assert "[/b]disk" in run(*arguments, "-w", str(root)).stdout


def test_doctor_finds_rows_that_refer_to_nothing(made: Path) -> None:
    table = next((made / "data" / "window_chunks").glob("*.parquet"))
    pl.read_parquet(table).with_columns(window_id=pl.lit("gone")).write_parquet(table)
    result = run("doctor", "-w", str(made))
    assert result.exit_code == 1
    assert "window_chunks refer to a row of windows that is not there, such as gone" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status", "-w", "/nowhere"), 2),
        (("context", "nothing"), 2),
        (("report", "nothing"), 2),
        (("eval", "/nowhere"), 2),
        (("eval", "/nowhere", "--html", "/nowhere/methods.html"), 2),
        (("query", " "), 2),
        (("unknown",), 2),
    ],
)
def test_bad_usage_exits_with_2(
    made: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int
) -> None:
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(made))
    assert exit_code(monkeypatch, *arguments) == code


def test_a_job_that_fails_exits_with_1(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "query", "anything", "-w", str(root)) == 1
    assert "backstory run" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def _models_elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
