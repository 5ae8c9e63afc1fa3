"""Written posts as documents: many days, each given the posts before it and never one from itself or its future."""

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.build import IndexBuild, publish_content
from backstory.index.snapshot import current_version, read_manifest
from backstory.interfaces.cli.run import Execute, execute_changed
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.incremental.visible_documents import find_outdated
from backstory.pipeline.run.plan import STAGES, find_wanted
from backstory.pipeline.run.run import Run, ignore_progress
from backstory.pipeline.run.runner import execute_run
from backstory.pipeline.stages import corpus
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.materialization import materialize
from tests.long_tests import LONG_TESTS
from tests.pipeline.feedback_workspaces import (
    SETTINGS,
    list_lines,
    read_all,
    read_files,
    write_chat,
    write_workspace,
)
from tests.workspaces import run_workspace

MANY_DAYS = 60 if LONG_TESTS else 8
CHECKS = "backstory.pipeline.checks.checks"

DAYS = 3
"""Days of the small workspace, each with two windows of which the second begins after the first has ended."""


@pytest.fixture(scope="module")
def many_days(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = write_workspace(tmp_path_factory.mktemp("feedback") / "workspace")
    write_chat(workspace.chats_dir, MANY_DAYS, windows=1)
    run_pipeline(workspace)
    return workspace


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace whose days hold two windows, of which the second begins after the first has ended."""
    workspace = write_workspace(tmp_path_factory.mktemp("chains") / "workspace")
    write_chat(workspace.chats_dir, DAYS, windows=2)
    run_pipeline(workspace)
    return workspace


def list_given(workspace: Workspace) -> pl.DataFrame:
    """List which written post each window is given, with the times and days of both."""
    windows = workspace.tables.read("windows").select("window_id", "partition", "started_at")
    posts = workspace.tables.read("posts").select("slug", post_of="window_id", ended="published_at")
    return (
        workspace.tables.read("contexts")
        .filter(pl.col("uri").str.starts_with(WRITTEN_PREFIX))
        .join(windows, on="window_id")
        .join(posts, on="slug")
        .join(windows.select(post_of="window_id", post_day="partition"), on="post_of")
    )


def test_windows_are_given_posts_of_earlier_ones_and_never_one_from_themselves_or_their_future(
    many_days: Workspace, chains: Workspace
) -> None:
    posts = many_days.tables.read("posts")
    assert (posts["status"].unique().to_list(), posts.height) == (["written"], MANY_DAYS)
    assert list_given(many_days)["window_id"].n_unique() > MANY_DAYS / 2
    for workspace in (many_days, chains):
        given = list_given(workspace)
        assert given.filter(
            (pl.col("post_of") == pl.col("window_id")) | (pl.col("ended") >= pl.col("started_at"))
        ).is_empty()
    # The second window of a day is given the post of the first.
    assert given.filter(pl.col("partition") == pl.col("post_day")).height


def test_a_second_run_changes_nothing(many_days: Workspace, chains: Workspace) -> None:
    for workspace in (many_days, chains):
        tables, files = read_all(workspace), read_files(workspace)
        assert sum(report.computed for report in run_pipeline(workspace)) == 0
        assert all(frame.equals(tables[name]) for name, frame in read_all(workspace).items())
        assert read_files(workspace) == files


def copy(workspace: Workspace, root: Path) -> Workspace:
    return open_workspace(Path(shutil.copytree(workspace.root, root)))


def run(workspace: Workspace, execute: Execute = execute_changed) -> dict[str, StageResult]:
    """Do what `backstory run` does, or `backstory dagster materialize`, and give the reports by table."""
    opened = open_workspace(workspace.root)
    outcome = execute(opened, Run(find_wanted(opened, None, None)), ignore_progress)
    assert outcome.success, outcome.failures
    reports = {report.table: report for report in outcome.made.values()}
    assert len(reports) == len(outcome.made.values())
    return reports


def list_pending(workspace: Workspace) -> set[str]:
    opened = open_workspace(workspace.root)
    assert find_outdated(opened) == []
    keys = find_partitions(opened)
    return {key for stage in STAGES if stage.partitioned for key in stage.find_stale(opened, keys)}


def test_what_is_said_of_the_documents_holds_at_the_end_of_a_run(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    shutil.rmtree(workspace.documents_dir)
    write_chat(workspace.chats_dir, 2, windows=2)
    counts = run(workspace)["documents"].counts
    assert (counts["status_ok"], counts.get("notice")) == (4, None)


def edit_first_post(workspace: Workspace) -> Path:
    """Do what a person does with the post of the first window."""
    path = min(workspace.posts_dir.glob("*.md"))
    path.write_text(path.read_text(encoding="utf-8") + "\nSaid by a person: moth trap.\n", encoding="utf-8")
    return path


def test_an_old_edit_reaches_later_windows_as_in_a_fresh_workspace(chains: Workspace, tmp_path: Path) -> None:
    workspace = copy(chains, tmp_path / "edited")
    before = read_files(workspace)
    write_chat(workspace.chats_dir, DAYS, windows=2, edited="The moth trap and the sourdough starter")
    reports = run(workspace, materialize)
    assert (reports["posts"].rows, len(reports["posts"].keys)) == (DAYS * 2, DAYS)
    assert 0 < reports["posts"].computed <= DAYS
    assert reports["documents"].counts["status_ok"] == DAYS * 2 + 3
    wanted = write_workspace(tmp_path / "fresh")
    wanted.secret.parent.mkdir()
    shutil.copyfile(chains.secret, wanted.secret)
    write_chat(wanted.chats_dir, DAYS, windows=2, edited="The moth trap and the sourdough starter")
    run_pipeline(wanted)
    tables = read_all(wanted)
    assert {name for name, frame in read_all(workspace).items() if not frame.equals(tables[name])} == set()
    assert read_files(workspace) == read_files(wanted) != before
    assert list_pending(workspace) == set()


def test_windows_are_given_the_same_with_an_hnsw_index_which_is_built_once(
    chains: Workspace, tmp_path: Path
) -> None:
    workspace = copy(chains, tmp_path / "graph")
    settings = workspace.root / "backstory.yaml"
    settings.write_text(f"{SETTINGS}\nindex:\n  ann_min_rows: 0\n", encoding="utf-8")
    reports = run(workspace)
    assert reports["hits"].computed == DAYS
    assert reports["hits"].counts["engine"] == "exact"
    snapshots = [read_manifest(path) for path in workspace.index.iterdir() if path.is_dir()]
    with_graph = [manifest.version for manifest in snapshots if manifest.recall_at_5 is not None]
    assert with_graph == [current_version(workspace.index)]
    tables = read_all(chains)
    assert {name for name, frame in read_all(workspace).items() if not frame.equals(tables[name])} == set()
    assert list_pending(workspace) == set()


@pytest.mark.parametrize("in_memory", [True, False])
def test_posts_in_memory_change_no_row_and_a_run_publishes_once_before_and_once_after_them(
    chains: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    workspace.secret.parent.mkdir()
    shutil.copyfile(chains.secret, workspace.secret)
    write_chat(workspace.chats_dir, DAYS, windows=2)
    builds: list[IndexBuild] = []

    def note(*arguments: Any) -> IndexBuild:
        builds.append(publish_content(*arguments))
        return builds[-1]

    monkeypatch.setattr(corpus, "publish_content", note)
    days = find_wanted(workspace, None, None)
    for wanted in [days] if in_memory else [[day] for day in days]:
        run_workspace(open_workspace(workspace.root), wanted)
    assert len(builds) == 2 if in_memory else len(builds) > DAYS
    tables, expected = read_all(workspace), read_all(chains)
    assert {name for name, frame in tables.items() if not frame.equals(expected[name])} == set()
    assert current_version(workspace.index) == current_version(chains.index)


def test_a_person_edits_adds_and_removes_files(chains: Workspace, tmp_path: Path) -> None:
    workspace = copy(chains, tmp_path / "edited")
    first, second, *_ = sorted(workspace.posts_dir.glob("*.md"))
    edit_first_post(workspace)
    edited = first.read_bytes()
    removed = second.read_bytes()
    second.unlink()
    own = workspace.posts_dir / "of-a-person.md"
    own.write_text("---\ntitle: The moth trap\ndate: 2025-01-02\n---\n\nMy moth trap.\n", encoding="utf-8")
    assert list_pending(workspace) == {"2025-01-01"}
    run(workspace)
    assert first.read_bytes() == edited
    assert second.is_file()
    assert b"My moth trap" in own.read_bytes()
    assert removed
    sources = workspace.tables.read("sources").filter(pl.col("source").str.starts_with("written/"))
    assert {first.name, own.name} <= {Path(name).name for name in sources.filter(status="read")["source"]}
    shown = workspace.tables.read("contexts").filter(pl.col("uri").str.ends_with(own.name))
    assert shown.height
    assert list_pending(workspace) == set()
    assert sum(report.computed for report in run_pipeline(open_workspace(workspace.root))) == 0


def test_days_that_keep_their_contexts_are_searched_again_where_their_own_posts_change(
    chains: Workspace, tmp_path: Path
) -> None:
    workspace = copy(chains, tmp_path / "kept")
    policy = "partitions: {after_posts: none}\nwriters: {provider: digest, min_characters: 19000,"
    set_setting(workspace, "writers: {provider: digest,", policy)
    document = workspace.documents_dir / "tomato-blight.md"
    document.write_text(document.read_text(encoding="utf-8") + "And more.\n", encoding="utf-8")
    for is_fresh in (False, True):
        opened = open_workspace(workspace.root)
        wanted = Run(find_wanted(opened, None, None), keeps_contexts=True)
        outcome = execute_run(opened, wanted, skips_unchanged=True)
        assert (outcome.fresh, outcome.kept) == (is_fresh, frozenset())
    assert set(workspace.tables.read("posts")["status"]) == {"rejected"}


def test_posts_that_are_written_no_more_are_named(chains: Workspace, tmp_path: Path) -> None:
    workspace = copy(chains, tmp_path / "stopped")
    files = read_files(workspace)
    settings = workspace.root / "backstory.yaml"
    settings.write_text(SETTINGS.replace("provider: digest", "provider: none"), encoding="utf-8")
    notice = str(run(workspace)["posts"].counts["notice"])
    assert f"{len(files)} posts in written/ were written before writers.provider was none" in notice
    assert read_files(workspace) == files
    assert workspace.tables.read("posts").is_empty()
    settings.write_text(SETTINGS.replace('feedback: "on"', "folder: digests"), encoding="utf-8")
    run(workspace)
    assert read_files(workspace) == files
    assert len(read_files(open_workspace(workspace.root))) == len(files)


def test_one_day_is_made_without_the_posts_that_are_not_there_yet_and_made_again(
    chains: Workspace, tmp_path: Path
) -> None:
    workspace = write_workspace(tmp_path / "late")
    workspace.secret.parent.mkdir()
    shutil.copyfile(chains.secret, workspace.secret)
    write_chat(workspace.chats_dir, DAYS, windows=2)
    opened = open_workspace(workspace.root)
    days = find_wanted(opened, None, None)
    run_workspace(opened, days[:1])
    outcome = run_workspace(open_workspace(workspace.root), days[2:3])
    assert days[1] in str(outcome.made["posts"].counts["notice"])
    assert workspace.tables.read("posts", days[2:3]).height == 2
    run_pipeline(open_workspace(workspace.root))
    tables = read_all(chains)
    assert {name for name, frame in read_all(workspace).items() if not frame.equals(tables[name])} == set()


def leave_out_day(workspace: Workspace, day: int) -> None:
    lines = list_lines(DAYS, windows=2)
    kept = [*lines[: day * 4], *lines[day * 4 + 4 :]]
    (workspace.chats_dir / "garden.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")


def leave_out_chat(workspace: Workspace) -> None:
    (workspace.chats_dir / "moths.txt").unlink()


def set_setting(workspace: Workspace, before: str, after: str) -> None:
    settings = workspace.root / "backstory.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")


def leave_out_day_and_short_posts(workspace: Workspace) -> None:
    leave_out_day(workspace, 1)
    set_setting(workspace, "digest,", "digest, min_characters: 400,")


LONG_REMOVALS: Mapping[str, Callable[[Workspace], None]] = {
    "a day in the middle": lambda workspace: leave_out_day(workspace, 1),
    "short posts": lambda workspace: set_setting(workspace, "digest,", "digest, min_characters: 400,"),
    "the first day": lambda workspace: leave_out_day(workspace, 0),
    "the last day": lambda workspace: leave_out_day(workspace, 2),
    "a chat": leave_out_chat,
    "another time zone": lambda workspace: set_setting(workspace, "chats,", "chats, timezone: Asia/Tokyo,"),
    "a person": lambda workspace: set_setting(workspace, "rag:", "privacy: {exclude: [Ben Okri]}\nrag:"),
}


@pytest.fixture(scope="module")
def two_chats(chains: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The workspace of chains with a second chat, whose windows come first."""
    workspace = copy(chains, tmp_path_factory.mktemp("two") / "workspace")
    (workspace.chats_dir / "moths.txt").write_text(
        "01/01/2025, 00:10 - Cleo Marsh: Is the moth trap by the sourdough starter?\n"
        "02/01/2025, 00:10 - Cleo Marsh: The moth trap fell on the tomato blight\n",
        encoding="utf-8",
    )
    run(workspace)
    return workspace


@pytest.mark.parametrize(
    "remove",
    [
        pytest.param(leave_out_day_and_short_posts, id="a day in the middle and short posts"),
        *(pytest.param(remove, id=name, marks=pytest.mark.long) for name, remove in LONG_REMOVALS.items()),
    ],
)
def test_posts_of_windows_that_are_gone_leave_in_the_same_run(
    two_chats: Workspace, tmp_path: Path, remove: Callable[[Workspace], None]
) -> None:
    workspace = copy(two_chats, tmp_path / "removed")
    remove(workspace)
    run(workspace)
    assert run(workspace) == {}
    wanted = tmp_path / "fresh"
    for part in ("chats", "posts", ".backstory"):
        shutil.copytree(workspace.root / part, wanted / part)
    shutil.copy(workspace.root / "backstory.yaml", wanted)
    fresh = open_workspace(wanted)
    run(fresh)
    tables = read_all(fresh)
    assert {name for name, frame in read_all(workspace).items() if not frame.equals(tables[name])} == set()
    assert read_files(workspace) == read_files(fresh) != read_files(two_chats)
    assert current_version(workspace.index) == current_version(fresh.index)


def test_an_edited_post_stays_a_document_of_its_editor_when_its_window_goes(
    chains: Workspace, tmp_path: Path
) -> None:
    workspace = copy(chains, tmp_path / "edited")
    edited = edit_first_post(workspace)
    run(workspace)
    text = edited.read_bytes()
    leave_out_day(workspace, 0)
    notice = str(run(workspace)["windows"].counts["notice"])
    assert f"{edited.name} in written/ stays after its window is gone" in notice
    assert edited.read_bytes() == text
    served = workspace.tables.read("documents").filter(status="ok")["uri"]
    assert [uri for uri in served if "2025-01-01" in uri] == [f"{WRITTEN_PREFIX}written/{edited.name}"]
    assert run(workspace) == {}


def test_citations_are_not_compared_with_documents_after_each_day(
    many_days: Workspace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workspace = copy(many_days, tmp_path / "again")
    shutil.rmtree(workspace.tables_dir)
    with caplog.at_level(logging.INFO, logger=CHECKS):
        run(workspace)
    fields = [vars(record)["fields"] for record in caplog.records if record.name == CHECKS]
    made = Counter((each["table"], each["check"]) for each in fields)
    assert made["posts", "unknown_citations"] == 1
    assert made["posts", "real_names"] == MANY_DAYS + 1
