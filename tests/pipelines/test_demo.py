"""The demo: its topics, how many of them the contexts cover, and the text that it prints."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from backstory import run_pipeline
from backstory.base.environment import SETTINGS_FILE
from backstory.operations.inspection.windows import list_windows
from backstory.pipeline.workspace import Workspace, open_workspace
from examples.demo import (
    BACKSTORY,
    METHODS,
    ONE_VECTOR,
    compare_with_whole_windows,
    count_topics,
    prepare_demo,
    read_topics,
    show_demo,
)
from tests.long_tests import LONG_TESTS
from tests.pipelines.write_demo_output import README, SHOWN, print_demo

CHAT_BEGINS = datetime(2025, 3, 3, tzinfo=UTC)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The demo after its run: with the vectors of its model in the long tests, else with hashed words for vectors."""
    workspace = prepare_demo(tmp_path_factory.mktemp("demo") / ".demo")
    if not LONG_TESTS:
        with (workspace.root / SETTINGS_FILE).open("a", encoding="utf-8") as settings:
            settings.write("\nembedding: {provider: hashing}\n")
        workspace = open_workspace(workspace.root)
    run_pipeline(workspace)
    return workspace


def leave_out_what_vectors_decide(printed: str) -> list[str]:
    """Give the sentences, the windows with their topics, and the commands of what the demo prints."""
    begin, sentence, end = printed.partition(
        "A writer without a model has written 13 posts, one for each window"
    )
    assert sentence
    windows = re.sub(r"(?<=\d)( +\d+){3}$", "", begin, flags=re.MULTILINE)
    ways_on = re.sub(r"\b[0-9a-f]{8}\b", "ID", end[end.index("\nAll posts:") :])
    return [*windows.splitlines(), *ways_on.splitlines()]


def test_the_topics_are_of_the_windows_and_name_posts_older_than_the_chat(demo: Workspace) -> None:
    topics = read_topics()
    assert list(topics) == [window["partition"] for window in list_windows(demo)]
    documents = demo.tables.read("documents").filter(pl.col("published_at") < CHAT_BEGINS)
    named = {slug for day in topics.values() for posts in day.values() for slug in posts}
    assert named <= set(documents["slug"])


@pytest.mark.long
def test_the_contexts_cover_most_topics_and_single_queries_fewer(demo: Workspace) -> None:
    topics = read_topics()
    counted = count_topics(compare_with_whole_windows(demo), pl.DataFrame(list_windows(demo)), topics)
    covered = {method: counted[method].sum() for method in METHODS}
    assert counted["topics"].sum() == sum(map(len, topics.values())) == 64
    assert covered[BACKSTORY] >= 54
    assert all(covered[method] < covered[BACKSTORY] for method in METHODS[1:])
    assert covered[ONE_VECTOR] <= 26


def test_a_topic_is_counted_once_and_only_by_the_posts_about_it() -> None:
    windows = pl.DataFrame({"window_id": ["w", "empty"], "partition": ["2025-03-03", "2025-03-03"]})
    topics = {"2025-03-03": {"bread": ["loaf", "starter"], "trains": ["pass"], "rats": ["heap"]}}
    answers = pl.DataFrame(
        {
            "window_id": ["w"] * 4,
            "method": [BACKSTORY] * 3 + [ONE_VECTOR],
            "slug": ["loaf", "starter", "pass", "moths"],
        }
    )
    counted = count_topics(answers, windows, topics)
    assert counted.select("topics", BACKSTORY, ONE_VECTOR).rows() == [(3, 2, 0), (3, 0, 0)]


def test_every_copy_has_the_same_pseudonyms(demo: Workspace, tmp_path: Path) -> None:
    copy = prepare_demo(tmp_path / "copy")
    assert copy.secret.read_bytes() == demo.secret.read_bytes()
    assert copy.secret.stat().st_mode & 0o777 == 0o600


def test_a_copy_keeps_the_secret_that_it_has(tmp_path: Path) -> None:
    secret = prepare_demo(tmp_path / "copy").secret
    secret.write_text("ab" * 32, encoding="ascii")
    prepare_demo(tmp_path / "copy")
    assert secret.read_text(encoding="ascii") == "ab" * 32


def test_the_readme_shows_what_the_demo_prints(demo: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo.root.parent)
    monkeypatch.setattr("examples.demo.DEFAULT_FOLDER", demo.root)
    printed = print_demo(demo)
    assert max(map(len, printed.splitlines())) <= 80
    shown = SHOWN.search(README.read_text(encoding="utf-8"))
    assert shown is not None
    remedy = "run `python -m tests.pipelines.write_demo_output WORKSPACE`"
    assert leave_out_what_vectors_decide(printed) == leave_out_what_vectors_decide(shown[0]), remedy
    if LONG_TESTS:
        assert printed == shown[0], remedy
    assert (demo.root / "site" / "index.html").is_file()


def test_the_ways_on_name_the_workspace_where_it_is_not_the_default(demo: Workspace) -> None:
    stream = io.StringIO()
    show_demo(demo, Console(file=stream, width=200))
    assert f"make ui WORKSPACE={demo.root}" in stream.getvalue()
