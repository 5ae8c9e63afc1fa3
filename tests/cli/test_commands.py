"""The command line, in process: every command, its output, its exit code."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from backstory import run_pipeline
from backstory.cli import app as cli
from backstory.workspace import open_workspace

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
    assert names == {"init", "status", "windows", "context", "query", "doctor", "eval"}
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
    folder = labelled_set(tmp_path / "set")
    result = run("eval", str(folder), "-w", str(root), "--runs", str(runs), "--json")
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
    written = pl.read_parquet(runs)
    assert written.columns == ["window_id", "rank", "doc_id", "score", "method"]
    assert "gain in ncov@5" in run("eval", str(folder), "-w", str(root)).stdout


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
        (("eval", "/nowhere"), 2),
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
    assert "python -m pipelines materialize" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def _models_elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
