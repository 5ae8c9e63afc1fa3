"""The view ``writer_inputs``: one row per window with all that a writer job reads, through DuckDB, Polars and Ibis."""

import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import WorkspaceError
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.parquet import read_table
from backstory.storage.tables.views import VIEWS_FILE, connect, read_writer_inputs
from backstory.storage.tables.writer_inputs import COLUMNS, select_writer_inputs_from
from tests.errors import raises
from tests.injections import INJECTIONS
from tests.text.prompts.test_prompt_injections import glance, outline, unseen_in
from tests.workspaces import SETTINGS, replace_recorded, write_workspace

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = write_workspace(tmp_path_factory.mktemp("writer inputs") / "workspace")
    run_pipeline(workspace)
    return workspace


def test_each_window_is_one_row_with_its_messages_context_and_citations(made: Workspace) -> None:
    rows = read_writer_inputs(made.tables)
    windows = read_table(made.tables, "windows").sort("started_at", "window_id")
    summaries = {row["window_id"]: row for row in read_table(made.tables, "window_contexts").to_dicts()}
    contexts = read_table(made.tables, "contexts").sort("window_id", "rank")
    assert rows.columns == list(COLUMNS)
    assert rows["window_id"].to_list() == windows["window_id"].to_list()
    assert rows["started_at"].to_list() == windows["started_at"].to_list()
    for row in rows.to_dicts():
        assert row["context"] == summaries[row["window_id"]]["cited_text"]
        kept = contexts.filter(window_id=row["window_id"])
        assert [cited["passage"] for cited in row["citations"]] == kept["passage"].to_list()
        assert [cited["number"] for cited in row["citations"]] == kept["citation"].to_list()
        assert (row["use"], row["reason"], row["max_tokens"]) == ("write", None, 4000)
    lines = rows["messages"][0].splitlines()
    assert re.fullmatch(r"- \(1\) 2025-03-13 09:01 \*\*[A-Z]\w+\*\*: The drip irrigation line .*", lines[0])
    assert rows["message_count"][0] == len(lines)


def test_tables_of_an_earlier_version_are_said_to_be_that(made: Workspace, tmp_path: Path) -> None:
    tables = Path(shutil.copytree(made.tables, tmp_path / "tables"))
    for file in (tables / "window_contexts").rglob("*.parquet"):
        pl.read_parquet(file).drop("people").write_parquet(file)
    with raises(WorkspaceError, "other_format", path=tables):
        connect(tables)


def test_messages_and_context_name_people_in_one_way(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    post = workspace.root / "posts" / "drip-irrigation.md"
    post.write_text(f"{post.read_text(encoding='utf-8')}\nBen Okri cut it, and Ada Lind laid it.\n", "utf-8")
    run_pipeline(workspace)
    row = read_writer_inputs(workspace.tables).row(0, named=True)
    names = re.findall(r"\*\*([^*]+)\*\*: ", row["messages"])
    ada, ben = names[0], names[1]
    assert f"@{ben} do you have a spare?" in row["messages"]
    assert f"{ben} cut it, and {ada} laid it." in row["context"]
    assert "member-" not in row["messages"] + row["context"]
    assert read_table(workspace.tables, "messages")["author"].drop_nulls().str.starts_with("member-").all()
    people = (
        read_table(workspace.tables, "window_contexts").filter(window_id=row["window_id"])["people"].item()
    )
    assert sorted(one.split(" ", 1)[1] for one in people) == sorted(set(names))


def test_the_times_of_a_window_are_also_those_of_its_clock(tmp_path: Path) -> None:
    zone = (
        "conversations: {folder: chats, timezone: Europe/Lisbon, overrides: {garden: {timezone: Asia/Tokyo}}}"
    )
    settings = SETTINGS.replace("conversations: {folder: chats}", zone)
    workspace = write_workspace(tmp_path / "workspace", settings)
    run_pipeline(workspace)
    row = read_writer_inputs(workspace.tables).row(0, named=True)
    assert (row["started_at"].hour, row["local_started_at"].hour) == (0, 9)
    assert f"{row['local_started_at']:%Y-%m-%d}" in row["messages"].splitlines()[0]


def test_files_and_ibis_give_the_same_rows(made: Workspace) -> None:
    rows = read_writer_inputs(made.tables)
    from_files = duckdb.sql(select_writer_inputs_from(f"{made.tables}/")).pl()
    through_ibis = connect(made.tables).table("writer_inputs").to_polars()
    times = pl.col("started_at", "ended_at").dt.replace_time_zone("UTC")
    for found in (from_files, through_ibis):
        assert found.drop("citations").with_columns(times).equals(rows.drop("citations"))


def test_duckdb_alone_returns_its_rows(made: Workspace) -> None:
    for view in ("writer_inputs", "document_catalog"):
        script = (
            "import sys, duckdb; sys.modules['pytz'] = None; "
            f"print(len(duckdb.connect(sys.argv[1], read_only=True).execute('FROM {view}').fetchall()))"
        )
        shown = subprocess.run(
            [sys.executable, "-c", script, str(made.tables / VIEWS_FILE)],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        assert int(shown.stdout) > 0


def test_a_window_without_use_says_why(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    run_pipeline(workspace)
    [key] = {key for key in workspace.ledger.read("messages") if key == "2025-03-15"}
    frame = read_table(workspace.tables, "messages", [key])
    replace_recorded(workspace, "messages", key, frame.with_columns(text=pl.lit(None, dtype=pl.String)))
    summary = read_table(workspace.tables, "window_contexts", ["2025-03-13"])
    none = summary.with_columns(status=pl.lit("no_hits"), kept_count=pl.lit(0, dtype=pl.Int64))
    replace_recorded(workspace, "window_contexts", "2025-03-13", none)
    rows = read_writer_inputs(workspace.tables)
    assert rows.select("use", "reason").rows() == [
        ("no_hits", "no document serves the window"),
        ("no_hits", "no document serves the window"),
        ("no_messages", "no message of the window has a text"),
    ]


def test_no_message_breaks_out_of_its_line(made: Workspace, tmp_path: Path) -> None:
    windows, messages = (read_table(made.tables, name) for name in ("windows", "messages"))
    one = messages.filter(kind="message").head(1)
    texts = ["Words.", *INJECTIONS]
    said = pl.concat(
        [one.with_columns(message_id=pl.lit(f"m{i}"), text=pl.lit(t)) for i, t in enumerate(texts)]
    )
    window = windows.head(1).with_columns(message_ids=pl.lit([f"m{i}" for i in range(len(texts))]))
    for name, frame in (("windows", window), ("messages", said)):
        (tmp_path / name).mkdir()
        frame.write_parquet(tmp_path / name / "a.parquet")
    for name in ("contexts", "window_contexts"):
        (tmp_path / name).mkdir()
        read_table(made.tables, name).clear().write_parquet(tmp_path / name / "a.parquet")
    [(shown, use)] = duckdb.sql(
        f"SELECT messages, use FROM ({select_writer_inputs_from(str(tmp_path))})"
    ).fetchall()
    lines = shown.splitlines()
    assert use == "not_made"
    assert len(lines) == len([text for text in texts if text.strip()])
    for line in lines:
        assert outline(line) == [], line
        assert not glance(line), line
        assert not unseen_in(line), line


def read_blocks(language: str) -> list[str]:
    page = (DOCS / "writers-guide.md").read_text(encoding="utf-8")
    section = page.partition("\n## Read what a writer needs\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_run(
    made: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page names the workspace as the README does.
    (tmp_path / "mychat").symlink_to(made.root)
    monkeypatch.chdir(tmp_path)
    [query] = read_blocks("sql")
    with closing(duckdb.connect(made.tables / VIEWS_FILE, read_only=True)) as connection:
        assert len(connection.sql(query).fetchall()) == 3
    [code] = read_blocks("python")
    names: dict[str, object] = {}
    exec(compile(code, "writers-guide.md", "exec"), names)
    assert len(names["prompts"]) == 3  # type: ignore[arg-type]
