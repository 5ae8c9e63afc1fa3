"""Letters: one post tells of all windows of a week, and follows every change of them."""

import re
from pathlib import Path

import polars as pl
import pytest

from backstory.interfaces.pages.site.build import build_site
from backstory.interfaces.pages.site.reading import read_library
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.stages.posts import PostsStage
from backstory.pipeline.stages.writer_material import (
    Assignment,
    find_neighbours,
    read_assignment,
    read_post_material,
)
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.views import read_writer_inputs
from tests.models.services import chat_server
from tests.models.services.chat_server import run_chat_server
from tests.pipeline.feedback_workspaces import SETTINGS, TOPICS, list_lines
from tests.world import run, write_inputs

WEEKLY = SETTINGS.replace("{provider: digest", "{provider: digest, grain: week")
DAYS = 7
"""Five days of one week, from Wednesday 1 January 2025 on, and two of the next one."""


def first_inputs(settings: str) -> dict[str, str]:
    documents = {
        f"posts/{topic.replace(' ', '-')}.md": f"---\ntitle: {topic}\ndate: 2024-05-01\n---\n\nAll about {topic}.\n"
        for topic in TOPICS[:3]
    }
    return {
        "backstory.yaml": settings,
        "chats/garden.txt": "\n".join(list_lines(DAYS, windows=2)) + "\n",
        **documents,
    }


def make(root: Path, settings: str = WEEKLY) -> Workspace:
    write_inputs(root, first_inputs(settings))
    assert run(root).success
    return open_workspace(root)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The workspace with a letter for each week, whose tables no test changes."""
    return make(tmp_path_factory.mktemp("letters") / "workspace")


def read_posts(workspace: Workspace) -> pl.DataFrame:
    windows = workspace.tables.read("windows").select("window_id", "partition", "started_at")
    return workspace.tables.read("posts").join(windows, on="window_id").sort("started_at")


def test_without_feedback_the_material_of_a_partition_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(workspace: Workspace, partition: str) -> Assignment:
        asked.append(partition)
        return read_assignment(workspace, partition)

    monkeypatch.setattr("backstory.pipeline.stages.posts.read_assignment", note)
    workspace = make(tmp_path, SETTINGS.replace('"on"', '"off"'))
    assert not workspace.feeds_back
    assert sorted(asked) == sorted(workspace.catalog.read("posts"))


def test_a_letter_is_in_the_row_of_the_last_window_of_its_week(letters: Workspace) -> None:
    workspace = letters
    posts = read_posts(workspace)
    assert posts["status"].to_list() == [*["in_letter"] * 9, "written", *["in_letter"] * 3, "written"]
    first, second = posts.filter(status="written").to_dicts()
    assert posts["slug"].to_list() == [first["slug"]] * 10 + [second["slug"]] * 4
    assert (first["partition"], second["partition"]) == ("2025-01-05", "2025-01-07")
    assert first["slug"].startswith(
        "2024-12-30-garden-"
    )  # the Monday, which the letter keeps whatever it tells of
    assert [path.stem for path in sorted(workspace.posts_dir.glob("*.md"))] == [first["slug"], second["slug"]]
    assert re.search(r"\*\* 1 January 2025 \d\d:\d\d: ", first["text"])
    assert "New since" not in first["text"]
    assert re.search(r"^- (New since the letter before|Still talked about): ", second["text"], re.MULTILINE)
    assert PostsStage.find_stale(workspace, find_wanted(workspace, None, None)) == []
    # In order, since the next process must find the same hash of them.
    assert find_neighbours(workspace, "2025-01-01").later == [f"2025-01-0{day}" for day in range(2, 6)]


def test_readers_of_a_workspace_see_the_letter(letters: Workspace) -> None:
    workspace = letters
    library = read_library(workspace)
    assert [len(post.window.window_ids) for post in library.posts] == [10, 4]
    assert library.without_post == ()
    folder = build_site(workspace, windows=True).index.parent
    pages = [path.read_text("utf-8") for path in sorted(folder.rglob("*.html"))]
    assert sum("The windows of this letter" in page for page in pages) == 2
    assert sum("of the week that began on" in page for page in pages) == 2
    assert len(read_writer_inputs(workspace.tables)) == 14
    posts = read_posts(workspace)
    window, context = read_post_material(workspace, posts["window_id"][0], posts["partition"][0])
    assert window.window_id == posts["window_id"][9]
    assert len(window.messages) == 20
    assert [citation.number for citation in context.citations] == [1, 2, 3][: len(context.citations)]
    assert (
        all(citation.messages for citation in context.citations if not citation.is_post) or context.citations
    )


def test_a_model_is_asked_once_for_each_week_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as chat:
        chat.always = chat_server.post("They wrote about the garden all week.", title="A week")
        writer = "{provider: openai, grain: week, model: tiny}\n"
        service = f"services: {{openai: {{base_url: '{chat.url}', requests_per_minute: 10000}}}}\n"
        settings = WEEKLY[: WEEKLY.index("writers:")] + f"writers: {writer}{service}"
        workspace = make(tmp_path, settings)
        asked = [(str(request.body["messages"][0]["content"]), request.user) for request in chat.requests]
        assert run(tmp_path).success
        assert len(asked) == len(chat.requests) == 2
    assert all("a letter about a week of a chat" in system for system, _ in asked)
    assert sorted(user.count("How is the") for _, user in asked) == [4, 10]
    assert sorted("<earlier>" in user for _, user in asked) == [False, True]
    assert read_posts(workspace)["status"].to_list().count("written") == 2
