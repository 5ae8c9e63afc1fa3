"""Whose posts a window gets: those of its own conversation, unless the settings share them in the workspace."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.ids import WRITTEN_PREFIX
from backstory.interfaces.library.library import Library
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.pipeline.feedback_workspaces import (
    SETTINGS,
    read_all,
    read_files,
    write_chat,
    write_second_chat,
    write_workspace,
)

DAYS = 3
SHARED = SETTINGS.replace('feedback: "on"', 'feedback: "on", feedback_scope: workspace')


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with two conversations about the same topics."""
    workspace = write_workspace(tmp_path_factory.mktemp("scope") / "workspace")
    write_chat(workspace.chats_dir, DAYS, windows=2)
    write_second_chat(workspace.chats_dir, DAYS)
    run_pipeline(workspace)
    return workspace


@pytest.fixture(scope="module")
def shared(apart: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The same with the posts of all conversations for each, made in a fresh workspace."""
    return make_fresh(apart, tmp_path_factory.mktemp("shared") / "workspace", SHARED)


def make_fresh(of: Workspace, root: Path, settings: str) -> Workspace:
    """Make a workspace of the inputs of another one, the files of people in the folder of its posts among them."""
    for part in ("chats", "posts", ".backstory"):
        shutil.copytree(of.root / part, root / part)
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    workspace = open_workspace(root)
    run_pipeline(workspace)
    return workspace


def run(workspace: Workspace, settings: str = SETTINGS) -> dict[str, int]:
    """Run again, and count the partitions of each table that were made."""
    (workspace.root / "backstory.yaml").write_text(settings, encoding="utf-8")
    return {report.table: report.computed for report in run_pipeline(open_workspace(workspace.root))}


def copy(workspace: Workspace, root: Path) -> Workspace:
    return open_workspace(Path(shutil.copytree(workspace.root, root)))


def list_given(workspace: Workspace) -> set[tuple[str, str | None]]:
    """List the pairs of a conversation and that of a post which one of its windows is given."""
    windows = workspace.tables.read("windows").select("window_id", "conversation_id")
    documents = workspace.tables.read("documents").filter(status="ok")
    of = documents.select("document_id", post_of="conversation_id")
    given = workspace.tables.read("contexts").filter(pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    return set(
        given.join(windows, on="window_id")
        .join(of, on="document_id")
        .select("conversation_id", "post_of")
        .iter_rows()
    )


def assert_equal(one: Workspace, other: Workspace) -> None:
    tables: Mapping[str, pl.DataFrame] = read_all(other)
    assert {name for name, frame in read_all(one).items() if not frame.equals(tables[name])} == set()
    assert read_files(one) == read_files(other)


def test_a_window_is_given_posts_of_its_own_conversation_alone(apart: Workspace, shared: Workspace) -> None:
    own = {("garden", "garden"), ("moths", "moths")}
    assert list_given(apart) == own
    assert list_given(shared) == own | {("garden", "moths"), ("moths", "garden")}
    found = apart.tables.read("hits").join(
        apart.tables.read("documents").filter(pl.col("conversation_id").is_not_null()),
        on="document_id",
    )
    windows = apart.tables.read("windows").select("window_id", of="conversation_id")
    assert found.join(windows, on="window_id").filter(pl.col("of") != pl.col("conversation_id")).is_empty()


def test_what_was_written_under_another_scope_is_made_again(
    apart: Workspace, shared: Workspace, tmp_path: Path
) -> None:
    workspace = copy(shared, tmp_path / "changed")
    made = run(workspace)
    assert made["hits"] == DAYS
    assert made["posts"] > 0
    assert_equal(workspace, apart)
    assert run(workspace)["posts"] == 0
    run(workspace, SHARED)
    assert_equal(workspace, shared)


def test_a_changed_post_makes_no_day_of_another_conversation_again(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    write_chat(workspace.chats_dir, 1, windows=1)
    (workspace.chats_dir / "moths.txt").write_text(
        "05/01/2025, 20:00 - Cleo Marsh: How is the tomato blight?\n", encoding="utf-8"
    )
    run_pipeline(workspace)
    path = next(path for path in workspace.posts_dir.glob("*.md") if "garden" in path.name)
    path.write_text(
        path.read_text(encoding="utf-8") + "\nSaid by a person: tomato blight.\n", encoding="utf-8"
    )
    made = run(workspace)
    assert (made["documents"], made["search_index"], made["hits"]) == (1, 1, 0)
    path.write_text(path.read_text(encoding="utf-8") + "\nAnd more.\n", encoding="utf-8")
    assert run(workspace, SHARED)["hits"] > 0


def test_files_of_people_among_the_posts(apart: Workspace, tmp_path: Path) -> None:
    workspace = copy(apart, tmp_path / "edited")
    garden = min(path for path in workspace.posts_dir.glob("*.md") if "garden" in path.name)
    text = garden.read_text(encoding="utf-8")
    assert '\nconversation: "garden"\n' in text
    (workspace.posts_dir / "copied.md").write_text(text, encoding="utf-8")
    former = text.replace('conversation: "garden"\n', "")
    (workspace.posts_dir / "former.md").write_text(former, encoding="utf-8")
    topic = "---\ntitle: Mine\ndate: 2025-01-01\n---\n\nThe tomato blight, the night train and the sourdough starter.\n"
    (workspace.posts_dir / "own.md").write_text(topic, encoding="utf-8")
    run(workspace)
    documents = workspace.tables.read("documents").filter(status="ok")
    of = dict(documents.select("uri", "conversation_id").iter_rows())
    assert [of[f"{WRITTEN_PREFIX}written/{name}.md"] for name in ("copied", "former", "own")] == [
        "garden",
        "",
        None,
    ]
    given = list_given(workspace)
    assert {("garden", None), ("moths", None)} <= given
    assert not given & {("moths", "garden"), ("garden", "moths"), ("garden", ""), ("moths", "")}


def test_a_question_of_a_person_finds_the_posts_of_all_conversations(
    apart: Workspace, shared: Workspace
) -> None:
    given = apart.tables.read("contexts").filter(pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    moths = apart.tables.read("windows").filter(conversation_id="moths").sort("started_at")
    window = moths.join(given, on="window_id", how="semi", maintain_order="left")["window_id"][-1]
    named = {
        f"../{path}": conversation
        for path, conversation in apart.tables.read("posts")
        .join(apart.tables.read("windows"), on="window_id")
        .select("path", "conversation_id")
        .iter_rows()
    }

    def list_found(uris: list[str]) -> set[str]:
        return {named[uri] for uri in uris if uri in named}

    with Library(apart) as library:
        hits = library.search(
            "How is the tomato blight, the night train and the sourdough starter?", top_k=20
        ).hits
        assert list_found([hit.uri for hit in hits]) == {"garden", "moths"}
        asked = library.context("How is the tomato blight? And the night train to Lisbon?", top_k=5)
        assert "garden" in list_found([document.uri for document in asked.documents])
        own = library.window_context(window)
        assert list_found([document.uri for document in own.documents]) == {"moths"}
        other = next(uri for uri, conversation in named.items() if conversation == "garden")
        [explained] = library.explain(window, other).documents
        assert (explained.kept, explained.cause) == (False, "other_conversation")
    with Library(shared) as library:
        assert "garden" in list_found([each.uri for each in library.window_context(window).documents])
