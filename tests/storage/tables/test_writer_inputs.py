"""The view ``writer_inputs``: one row per window with all that a writer job reads, through every backend."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from functools import partial
from importlib.resources import files
from pathlib import Path

import duckdb
import ibis
import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import WorkspaceError
from backstory.pipeline.chats.people import People, show_messages
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.view_expressions import (
    INPUT_COLUMNS,
    VIEWS,
    WRITER_INPUTS,
    compile_view,
    define_citations,
    define_document_catalog,
    define_writer_inputs,
    describe_table,
)
from backstory.storage.tables.views import VIEWS_FILE, connect, read_writer_inputs
from tests.errors import raises
from tests.injections import INJECTIONS
from tests.postgres import PostgresServer
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
    windows = made.tables.read("windows").sort("started_at", "window_id")
    summaries = {row["window_id"]: row for row in made.tables.read("window_contexts").to_dicts()}
    contexts = made.tables.read("contexts").sort("window_id", "rank")
    assert rows.columns == list(INPUT_COLUMNS)
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
    tables = Path(shutil.copytree(made.tables_dir, tmp_path / "tables"))
    for file in (tables / "window_contexts").rglob("*.parquet"):
        pl.read_parquet(file).drop("messages").write_parquet(file)
    with raises(WorkspaceError, "other_format", tables):
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
    assert workspace.tables.read("messages")["author"].drop_nulls().str.starts_with("member-").all()


def test_a_run_makes_the_rows_of_an_earlier_version_again(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    run_pipeline(workspace)
    expected = read_writer_inputs(workspace.tables)
    for key, entry in workspace.catalog.read("window_contexts").items():
        rows = workspace.tables.read("window_contexts", [key])
        earlier = rows.drop("messages", "said_count", "local_started_at", "local_ended_at")
        replace_recorded(
            workspace, "window_contexts", key, earlier.with_columns(people=pl.lit(["member-0 Alder"]))
        )
        made = workspace.catalog.read("window_contexts")[key]
        workspace.catalog.record("window_contexts", {key: replace(made, inputs=f"{entry.inputs} of before")})
    reports = {report.table: report for report in run_pipeline(open_workspace(workspace.root))}
    assert reports["window_contexts"].computed == 3
    assert read_writer_inputs(workspace.tables).equals(expected)


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


def test_the_query_of_each_view_is_compiled_from_its_expression() -> None:
    for view in VIEWS:
        stored = files("backstory.storage.tables") / f"{view}.sql"
        assert stored.read_text(encoding="utf-8") == compile_view(view), "run `python docs/generate.py`"


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "trino", "snowflake", "bigquery"])
def test_each_view_compiles_for_the_engines_of_a_team(dialect: str) -> None:
    for define in VIEWS.values():
        assert ibis.to_sql(define(describe_table), dialect=dialect)


def test_all_but_the_list_of_citations_compiles_for_spark() -> None:
    for define in (partial(define_writer_inputs, citations=False), define_citations, define_document_catalog):
        assert ibis.to_sql(define(describe_table), dialect="pyspark")


@pytest.fixture
def polars_backend() -> ibis.BaseBackend:
    return ibis.polars.connect()


@pytest.fixture
def postgres_backend(postgres_server: PostgresServer) -> Iterator[ibis.BaseBackend]:
    schema = postgres_server.make_address().rpartition("%3D")[2]
    server = ibis.postgres.connect(
        user="backstory",
        host=str(postgres_server.folder),
        port=postgres_server.port,
        database="postgres",
        options=f"-csearch_path={schema}",
    )
    yield server
    server.disconnect()


@pytest.mark.parametrize("backend", ["polars_backend", "postgres_backend"])
def test_another_backend_gives_the_rows_that_duckdb_gives(
    made: Workspace, backend: str, request: pytest.FixtureRequest
) -> None:
    other = request.getfixturevalue(backend)
    for table in ("windows", "window_contexts", "contexts", "documents", "document_chunks"):
        other.create_table(table, made.tables.read(table).to_arrow())
    here = connect(made.tables)
    for view, define in VIEWS.items():
        given = here.to_polars(here.table(view))
        if (view, backend) == (WRITER_INPUTS, "postgres_backend"):
            given, define = given.drop("citations"), partial(define_writer_inputs, citations=False)
        found = other.to_polars(define(other.table))
        assert given.height
        assert found.columns == given.columns
        assert found.rows() == given.rows()
    listed = here.to_polars(here.table(WRITER_INPUTS)).select("window_id", "citations").explode("citations")
    rows = listed.drop_nulls("citations").unnest("citations").sort("window_id", maintain_order=True)
    cited = other.to_polars(define_citations(other.table))
    assert rows.height
    assert cited.columns == rows.columns
    assert cited.rows() == rows.rows()


def test_the_zone_of_a_session_of_duckdb_changes_no_time(made: Workspace) -> None:
    expected = read_writer_inputs(made.tables)
    with closing(duckdb.connect(made.tables_dir / VIEWS_FILE, read_only=True)) as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        shown = connection.execute(
            "SELECT started_at, citations[1].published_at FROM writer_inputs"
        ).fetchall()
    cited = [row[0]["published_at"] for row in expected["citations"].to_list()]
    assert [time.replace(tzinfo=UTC) for time, _ in shown] == expected["started_at"].to_list()
    assert [time.replace(tzinfo=UTC) for _, time in shown] == cited


def test_duckdb_alone_returns_its_rows(made: Workspace) -> None:
    for view in ("writer_inputs", "document_catalog"):
        script = (
            "import sys, duckdb; sys.modules['pytz'] = None; "
            f"print(len(duckdb.connect(sys.argv[1], read_only=True).execute('FROM {view}').fetchall()))"
        )
        shown = subprocess.run(
            [sys.executable, "-c", script, str(made.tables_dir / VIEWS_FILE)],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        assert int(shown.stdout) > 0


def test_a_window_without_use_says_why(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    run_pipeline(workspace)
    [key] = {key for key in workspace.catalog.read("messages") if key == "2025-03-15"}
    summary = workspace.tables.read("window_contexts", [key])
    silent = summary.with_columns(messages=pl.lit(""), said_count=pl.lit(0, dtype=pl.Int64))
    replace_recorded(workspace, "window_contexts", key, silent)
    summary = workspace.tables.read("window_contexts", ["2025-03-13"])
    none = summary.with_columns(status=pl.lit("no_hits"), kept_count=pl.lit(0, dtype=pl.Int64))
    replace_recorded(workspace, "window_contexts", "2025-03-13", none)
    rows = read_writer_inputs(workspace.tables)
    assert rows.select("use", "reason").rows() == [
        ("no_hits", "no document serves the window"),
        ("no_hits", "no document serves the window"),
        ("no_messages", "no message of the window has a text"),
    ]
    replace_recorded(workspace, "window_contexts", key, summary.clear())
    [row] = read_writer_inputs(workspace.tables).filter(use="not_made").to_dicts()
    assert (row["partition"], row["messages"], row["message_count"], row["citations"][0]["number"]) == (
        key,
        "",
        0,
        1,
    )


def test_no_message_breaks_out_of_its_line(made: Workspace) -> None:
    one = made.tables.read("messages").filter(kind="message").head(1)
    texts = ["Words.", *INJECTIONS]
    ids = [f"m{place}" for place in range(len(texts))]
    said = pl.concat([one] * len(texts)).with_columns(message_id=pl.Series(ids), text=pl.Series(texts))
    window = pl.DataFrame({"window_id": ["w"], "message_ids": [ids]})
    [shown] = show_messages(window, said, People({}, {}, {}))["messages"]
    lines = shown.splitlines()
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
    with closing(duckdb.connect(made.tables_dir / VIEWS_FILE, read_only=True)) as connection:
        assert len(connection.sql(query).fetchall()) == 3
    [code] = read_blocks("python")
    names: dict[str, object] = {}
    exec(compile(code, "writers-guide.md", "exec"), names)
    assert len(names["prompts"]) == 3  # type: ignore[arg-type]
