"""Written posts as documents: sixty days, each given the posts before it and never one from itself or its future."""

import shutil
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.documents.written import WRITTEN_PREFIX
from backstory.tables import read_table
from backstory.workspace import Workspace, open_workspace

SETTINGS = """\
conversations: {folder: chats, removals: mirror, date_order: dmy}
windows: {unit: messages, size: 2}
embedding: {provider: hashing}
rag: {top_k: 3, min_similarity: 0.05}
writers: {provider: digest, feedback: "on"}
"""
TOPICS = (
    "tomato blight",
    "night train to Lisbon",
    "sourdough starter",
    "drip irrigation",
    "backup disk",
    "moth trap",
)
COMPARED = (
    "messages",
    "windows",
    "window_chunks",
    "hits",
    "decisions",
    "contexts",
    "window_contexts",
    "posts",
)


def write_chat(folder: Path, days: int, *, windows: int, edited: str | None = None) -> None:
    """Write two messages for each window of each day; each window begins after the one before it has ended."""
    lines = []
    for day in range(days):
        when = (date(2025, 1, 1) + timedelta(days=day)).strftime("%d/%m/%Y")
        for window in range(windows):
            topic, other = TOPICS[(day + window) % len(TOPICS)], TOPICS[(day * 5 + 1) % len(TOPICS)]
            lines += [
                f"{when}, {9 * window + 1:02}:00 - Ada Lind: How is the {topic} of day {day}?",
                f"{when}, {9 * window + 1:02}:05 - Ben Okri: Worse than the {other}, number {day * 7 + window}",
            ]
    if edited:
        lines[windows * 4] = f"{lines[windows * 4].partition(': ')[0]}: {edited}"
    folder.mkdir(exist_ok=True)
    (folder / "garden.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_workspace(root: Path) -> Workspace:
    (root / "posts").mkdir(parents=True)
    (root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    for topic in TOPICS[:3]:
        text = f"---\ntitle: About {topic}\ndate: 2024-05-01\n---\n\nAll that we know about {topic}.\n"
        (root / "posts" / f"{topic.replace(' ', '-')}.md").write_text(text, encoding="utf-8")
    return open_workspace(root)


def read_all(workspace: Workspace) -> dict[str, pl.DataFrame]:
    """Read what a writer's reader sees; the snapshot that was searched is a matter of history."""
    tables = {name: read_table(workspace.tables, name) for name in COMPARED}
    return {name: frame.drop("index_version", strict=False) for name, frame in tables.items()}


def read_files(workspace: Workspace) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(workspace.written.iterdir())}


@pytest.fixture(scope="module")
def sixty_days(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = write_workspace(tmp_path_factory.mktemp("feedback") / "workspace")
    write_chat(workspace.exports, 60, windows=1)
    run_pipeline(workspace)
    return workspace


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace whose days hold two windows, of which the second begins after the first has ended."""
    workspace = write_workspace(tmp_path_factory.mktemp("chains") / "workspace")
    write_chat(workspace.exports, 6, windows=2)
    run_pipeline(workspace)
    return workspace


def list_given(workspace: Workspace) -> pl.DataFrame:
    """List which written post each window is given, with the times and days of both."""
    windows = read_table(workspace.tables, "windows").select("window_id", "partition", "started_at")
    posts = read_table(workspace.tables, "posts").select("slug", post_of="window_id", ended="published_at")
    return (
        read_table(workspace.tables, "contexts")
        .filter(pl.col("uri").str.starts_with(WRITTEN_PREFIX))
        .join(windows, on="window_id")
        .join(posts, on="slug")
        .join(windows.select(post_of="window_id", post_day="partition"), on="post_of")
    )


def test_every_window_has_a_post_and_later_windows_are_given_it(sixty_days: Workspace) -> None:
    posts = read_table(sixty_days.tables, "posts")
    assert posts["status"].unique().to_list() == ["written"]
    assert posts.height == 60
    assert list_given(sixty_days)["window_id"].n_unique() > 30


def test_no_window_is_given_a_post_from_itself_or_its_future(
    sixty_days: Workspace, chains: Workspace
) -> None:
    for workspace in (sixty_days, chains):
        given = list_given(workspace)
        assert given.height
        assert given.filter(
            (pl.col("post_of") == pl.col("window_id")) | (pl.col("ended") >= pl.col("started_at"))
        ).is_empty()


def test_the_second_window_of_a_day_is_given_the_post_of_the_first(chains: Workspace) -> None:
    given = list_given(chains)
    assert given.filter(pl.col("partition") == pl.col("post_day")).height


def test_a_second_run_changes_nothing(sixty_days: Workspace, chains: Workspace) -> None:
    for workspace in (sixty_days, chains):
        tables, files = read_all(workspace), read_files(workspace)
        assert sum(report.computed for report in run_pipeline(workspace)) == 0
        assert all(frame.equals(tables[name]) for name, frame in read_all(workspace).items())
        assert read_files(workspace) == files


def test_an_old_edit_reaches_later_windows_as_in_a_fresh_workspace(chains: Workspace, tmp_path: Path) -> None:
    shutil.copytree(chains.root, tmp_path / "edited")
    workspace, fresh = open_workspace(tmp_path / "edited"), write_workspace(tmp_path / "fresh")
    fresh.secret.parent.mkdir()
    shutil.copyfile(workspace.secret, fresh.secret)
    before = read_files(workspace)
    for changed in (workspace, fresh):
        write_chat(changed.exports, 6, windows=2, edited="The moth trap and the sourdough starter")
        run_pipeline(changed)
    wanted = read_all(fresh)
    assert {name for name, frame in read_all(workspace).items() if not frame.equals(wanted[name])} == set()
    assert read_files(workspace) == read_files(fresh)
    assert read_files(workspace) != before
    assert sum(report.computed for report in run_pipeline(workspace)) == 0
