"""The views over the tables: one row per window with all that a writer job reads, and one per document."""

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
from backstory.pipeline.chats.people import People, show_messages
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.views import VIEWS, VIEWS_FILE, connect, query_views, read_writer_inputs
from tests.errors import raises
from tests.injections import INJECTIONS
from tests.text.prompts.test_prompt_injections import glance, outline, unseen_in
from tests.workspaces import replace_recorded, write_workspace

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = write_workspace(tmp_path_factory.mktemp("writer inputs") / "workspace")
    post = workspace.root / "posts" / "drip-irrigation.md"
    post.write_text(f"{post.read_text(encoding='utf-8')}\nBen Okri cut it, and Ada Lind laid it.\n", "utf-8")
    run_pipeline(workspace)
    return workspace


def test_each_window_is_one_row_with_its_messages_context_and_citations(made: Workspace) -> None:
    rows = read_writer_inputs(made.tables)
    windows = made.tables.read("windows").sort("started_at", "window_id")
    summaries = {row["window_id"]: row for row in made.tables.read("window_contexts").to_dicts()}
    contexts = made.tables.read("contexts").sort("window_id", "rank")
    assert rows["window_id"].to_list() == windows["window_id"].to_list()
    assert rows["started_at"].to_list() == windows["started_at"].to_list()
    for row in rows.to_dicts():
        assert row["context"] == summaries[row["window_id"]]["cited_text"]
        kept = contexts.filter(window_id=row["window_id"])
        cited = pl.DataFrame(row["citations"]).drop("number")
        assert cited.equals(kept.select(cited.columns))
        assert [each["number"] for each in row["citations"]] == kept["citation"].to_list()
        assert (row["use"], row["reason"], row["max_tokens"]) == ("write", None, 4000)
    lines = rows["messages"][0].splitlines()
    assert re.fullmatch(r"- \(1\) 2025-03-13 09:01 \*\*[A-Z]\w+\*\*: The drip irrigation line .*", lines[0])
    assert rows["message_count"][0] == len(lines)


def test_messages_and_context_name_people_in_one_way(made: Workspace) -> None:
    row = read_writer_inputs(made.tables).row(0, named=True)
    ada, ben = re.findall(r"\*\*([^*]+)\*\*: ", row["messages"])[:2]
    assert f"@{ben} do you have a spare?" in row["messages"]
    assert f"{ben} cut it, and {ada} laid it." in row["context"]
    assert "member-" not in row["messages"] + row["context"]


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_names_the_columns_of_each_view(made: Workspace, view: str) -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {view}\n")[2].partition("\n## ")[0]
    assert query_views(made.tables, f"FROM {view}").columns == re.findall(
        r"^\| `(\w+)` \|", section, re.MULTILINE
    )


def test_each_document_is_one_row_without_the_revisions_before(made: Workspace) -> None:
    documents = made.tables.read("documents").filter(pl.col("status") != "superseded").sort("uri", "status")
    counts = made.tables.read("document_chunks").group_by("document_id", "revision").len("chunks")
    expected = documents.join(counts, ["document_id", "revision"], "left", maintain_order="left")
    rows = query_views(made.tables, "FROM document_catalog")
    same = [name for name in rows.columns if name not in ("pages", "published_at")]
    assert rows.select(same).equals(expected.with_columns(pl.col("chunks").cast(pl.Int64)).select(same))
    assert rows["published_at"].dt.replace_time_zone("UTC").equals(documents["published_at"])


def test_tables_of_an_earlier_version_are_said_to_be_that(made: Workspace, tmp_path: Path) -> None:
    tables = Path(shutil.copytree(made.tables_dir, tmp_path / "tables"))
    for file in (tables / "window_contexts").rglob("*.parquet"):
        pl.read_parquet(file).drop("messages").write_parquet(file)
    with raises(WorkspaceError, "other_format"):
        connect(tables)


def test_duckdb_and_polars_alone_return_the_rows_whatever_the_zone_of_the_session(made: Workspace) -> None:
    script = (
        "import sys, duckdb; sys.modules['pytz'] = None\n"
        "views = duckdb.connect(sys.argv[1], read_only=True); views.execute(\"SET TimeZone = 'America/New_York'\")\n"
        "assert all(views.execute(f'FROM {view}').fetchall() for view in sys.argv[2:])\n"
        "print(*views.execute('SELECT started_at, citations[1].published_at FROM writer_inputs').fetchall())\n"
        "from pathlib import Path; from backstory.storage.tables.views import query_views\n"
        "assert query_views(Path(sys.argv[1]).parent, 'FROM writer_inputs').height\n"
        "assert not {'pyarrow.lib', 'pandas', 'ibis'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", script, str(made.tables_dir / VIEWS_FILE), *VIEWS]
    shown = subprocess.run(command, timeout=600, check=True, capture_output=True, text=True).stdout
    expected = [
        (row["started_at"].replace(tzinfo=None), row["citations"][0]["published_at"].replace(tzinfo=None))
        for row in read_writer_inputs(made.tables).iter_rows(named=True)
    ]
    assert shown == " ".join(map(str, expected)) + "\n"


def test_a_window_without_use_says_why(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    run_pipeline(workspace)
    key = "2025-03-15"
    summary = workspace.tables.read("window_contexts", [key])
    silent = summary.with_columns(messages=pl.lit(""), said_count=pl.lit(0, dtype=pl.Int64))
    replace_recorded(workspace, "window_contexts", key, silent)
    summary = workspace.tables.read("window_contexts", ["2025-03-13"])
    none = summary.with_columns(status=pl.lit("no_hits"), kept_count=pl.lit(0, dtype=pl.Int64))
    replace_recorded(workspace, "window_contexts", "2025-03-13", none)
    uses = read_writer_inputs(workspace.tables)["use"]
    assert uses.to_list() == ["no_hits", "no_hits", "no_messages"]
    replace_recorded(workspace, "window_contexts", key, summary.clear())
    [row] = read_writer_inputs(workspace.tables).filter(use="not_made").to_dicts()
    assert (row["partition"], row["messages"], row["message_count"]) == (key, "", 0)
    assert row["citations"][0]["number"] == 1


def test_no_message_breaks_out_of_its_line(made: Workspace) -> None:
    one = made.tables.read("messages").filter(kind="message").head(1)
    texts = ["Words.", *INJECTIONS]
    ids = [f"m{place}" for place in range(len(texts))]
    said = pl.concat([one] * len(texts)).with_columns(message_id=pl.Series(ids), text=pl.Series(texts))
    window = pl.DataFrame({"window_id": ["w"], "message_ids": [ids]})
    [shown] = show_messages(window, said, People({}, {}, {}, {}))["messages"]
    lines = shown.splitlines()
    assert len(lines) == len([text for text in texts if text.strip()])
    for line in lines:
        assert outline(line) == [], line
        assert not glance(line), line
        assert not unseen_in(line), line


def read_block(language: str) -> str:
    page = (DOCS / "writers-guide.md").read_text(encoding="utf-8")
    section = page.partition("\n## Read what a writer needs\n")[2].partition("\n## ")[0]
    [block] = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return str(block)


def test_the_examples_of_the_page_run(
    made: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page names the workspace as the README does.
    (tmp_path / "mychat").symlink_to(made.root)
    monkeypatch.chdir(tmp_path)
    with closing(duckdb.connect(made.tables_dir / VIEWS_FILE, read_only=True)) as connection:
        assert len(connection.sql(read_block("sql")).fetchall()) == 3
    names: dict[str, object] = {}
    exec(compile(read_block("python"), "writers-guide.md", "exec"), names)
    assert len(names["prompts"]) == 3  # type: ignore[arg-type]
