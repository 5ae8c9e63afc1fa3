"""Posts that a model writes, behind a real server: what is asked, kept, checked, retried, and survives."""

import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import StateError
from backstory.interfaces.cli.run import describe_cost, exit_code
from backstory.operations.forgetting import forget
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.run.differences import Figures
from backstory.pipeline.run.estimate import estimate_run
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.models.services import chat_server
from tests.models.services.chat_server import ChatRequest, ChatServer
from tests.workspaces import SETTINGS, run_workspace, write_workspace

WRITERS = """\
services: {{openai: {{base_url: '{url}', max_attempts: 1, requests_per_minute: 10000}}}}
writers: {{provider: openai, model: tiny{more}}}
"""
SMALL = SETTINGS.replace("size: 6, overlap: 2", "size: 2")
UNFINISHED = 4
REFUSAL = chat_server.complete(None, refusal="I will not.")


@pytest.fixture(scope="module")
def without_posts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of several windows with their contexts."""
    workspace = write_workspace(tmp_path_factory.mktemp("base") / "workspace", SMALL)
    run_pipeline(workspace)
    return workspace.root


@pytest.fixture
def unwritten(chat: ChatServer, without_posts: Path, tmp_path: Path) -> Workspace:
    """The same, where the next run asks the model."""
    shutil.copytree(without_posts, tmp_path / "workspace")
    settings = SMALL + WRITERS.format(url=chat.url, more="")
    (tmp_path / "workspace" / "backstory.yaml").write_text(settings, encoding="utf-8")
    return open_workspace(tmp_path / "workspace")


@pytest.fixture
def made(unwritten: Workspace) -> Workspace:
    run_pipeline(unwritten)
    return unwritten


def run_again(workspace: Workspace) -> pl.DataFrame:
    run_pipeline(open_workspace(workspace.root))
    return workspace.tables.read("posts")


def files_of(workspace: Workspace) -> dict[str, tuple[bytes, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(workspace.posts_dir.iterdir())
    }


def test_the_same_input_makes_no_call_and_no_write_whatever_is_lost(
    chat: ChatServer, made: Workspace
) -> None:
    posts = made.tables.read("posts")
    calls, files = len(chat.requests), files_of(made)
    assert calls == posts.height == len(files) > 3
    assert set(posts["status"]) == {"written"}
    assert set(posts.select("model", "tokens_in", "tokens_out").iter_rows()) == {("tiny-2026", 120, 30)}

    assert run_again(made).equals(posts)
    for path in (made.tables_dir / "posts").iterdir():
        path.unlink()
    assert run_again(made).equals(posts)
    assert (len(chat.requests), files_of(made)) == (calls, files)


def test_a_changed_prompt_or_model_writes_every_post_again(chat: ChatServer, made: Workspace) -> None:
    calls = len(chat.requests)
    (made.root / "own.j2").write_text("{% block user %}{{ window.id }}{% endblock %}", encoding="utf-8")
    settings = SMALL + WRITERS.format(url=chat.url, more=", prompt: own.j2")
    (made.root / "backstory.yaml").write_text(settings, encoding="utf-8")
    posts = run_again(made)
    assert len(chat.requests) == 2 * calls
    assert chat.requests[-1].user in set(posts["window_id"])
    (made.root / "backstory.yaml").write_text(settings.replace("tiny", "other"), encoding="utf-8")
    run_again(made)
    assert len(chat.requests) == 3 * calls


def test_rejected_windows_are_asked_about_again_only_after_a_change(
    chat: ChatServer, unwritten: Workspace, tmp_path: Path
) -> None:
    chat.always = REFUSAL
    posts = run_again(unwritten)
    assert set(posts.select("status", "tokens_in").iter_rows()) == {("rejected", 120)}
    assert len(chat.requests) == posts.height
    assert run_again(unwritten).equals(posts)
    assert [run_by_command(unwritten)[0].fresh for _ in range(2)] == [False, True]
    assert len(chat.requests) == posts.height

    chat.always = chat_server.post()
    with (unwritten.chats_dir / "garden.txt").open("a", encoding="utf-8") as export:
        export.write("15/03/2025, 22:00 - Ada Lind: A late one\n")
    changed = run_again(unwritten)
    [written] = changed.filter(status="written").to_dicts()
    assert (written["tokens_in"], len(chat.requests)) == (120, posts.height + 1)
    shutil.copytree(
        unwritten.root, tmp_path / "fresh", ignore=shutil.ignore_patterns("data", "index", "written")
    )
    chat.always = REFUSAL
    fresh = open_workspace(tmp_path / "fresh")
    run_pipeline(fresh)
    shown = ["window_id", "status", "reason"]
    assert (
        fresh.tables.read("posts").filter(pl.col("window_id") != written["window_id"]).select(shown)
    ).equals(changed.filter(status="rejected").select(shown))


def test_a_used_up_budget_lets_windows_wait_and_the_next_run_goes_on(
    chat: ChatServer, unwritten: Workspace
) -> None:
    settings = unwritten.root / "backstory.yaml"
    prices = "costs: {prices: {tiny: {input: 1, output: 10}}, run: {calls: 2}}\n"
    settings.write_text(settings.read_text(encoding="utf-8") + prices, encoding="utf-8")
    posts = run_again(unwritten)
    assert len(chat.requests) == posts.filter(status="written").height == 2
    assert posts.filter(status="waiting").height == posts.height - 2
    assert "costs.run.calls" in posts.filter(status="waiting")["reason"][0]
    assert set(posts.filter(status="written")["cost"]) == {(120 * 1 + 30 * 10) / 1_000_000}
    while posts.filter(status="waiting").height:
        written = posts.filter(status="written").height
        posts = run_again(unwritten)
        assert posts.filter(status="written").height == min(written + 2, posts.height)
    assert len(chat.requests) == posts.height
    runs = unwritten.tables.read("runs").filter(pl.col("writing_calls") > 0)
    assert set(runs["writing_model"]) == {"tiny"}
    assert runs["writing_tokens_in"].sum() == 120 * posts.height


def run_by_command(workspace: Workspace, *, budget: int | None = None) -> tuple[Run, Figures]:
    """Do what `backstory run` does, and give what it says of posts."""
    settings = workspace.root / "backstory.yaml"
    unlimited = settings.read_text(encoding="utf-8").partition("costs:")[0]
    limit = f"costs: {{run: {{calls: {budget}}}}}\n" if budget else ""
    settings.write_text(unlimited + limit, encoding="utf-8")
    opened = open_workspace(workspace.root)
    outcome = run_workspace(opened, find_wanted(opened, None, None))
    return outcome, outcome.differences.posts or {}


def count_missing(posts: Figures) -> dict[str, int]:
    return dict(Counter(post["status"] for post in posts["missing"]))


def test_a_run_says_what_became_of_the_posts(chat: ChatServer, unwritten: Workspace) -> None:
    settings = unwritten.root / "backstory.yaml"
    one_by_one = settings.read_text(encoding="utf-8").replace("tiny", "tiny, threads: 1")
    settings.write_text(one_by_one, encoding="utf-8")
    linked = chat_server.post(f"{chat_server.TEXT} See [this](https://unknown.example) and [9].")
    chat.script.extend([linked, chat_server.refuse(400, "too long"), REFUSAL])
    stopped, posts = run_by_command(unwritten, budget=4)
    windows = unwritten.tables.read("posts").height
    assert (len(posts["written"]), posts["removed_citations"]) == (2, 2)
    assert count_missing(posts) == {"rejected": 1, "failed": 1, "waiting": windows - 4}
    assert all(post["reason"] for post in posts["missing"])
    assert (exit_code(stopped), stopped.success, len(chat.requests)) == (UNFINISHED, True, 4)
    assert "Left: 2 partitions of posts" in str(stopped.stopped)
    assert "4 drafts requested, 4 API calls." in describe_cost(stopped)

    finished, posts = run_by_command(unwritten)
    assert (len(posts["written"]), posts["kept"], count_missing(posts)) == (windows - 3, 2, {"rejected": 1})
    assert posts["removed_citations"] == 0
    assert exit_code(finished) == 0
    edited = min(unwritten.posts_dir.glob("*.md"))
    edited.write_text(edited.read_text(encoding="utf-8") + "\nBy a person.\n", encoding="utf-8")
    _, posts = run_by_command(unwritten)
    assert posts["edited"] == [f"written/{edited.name}"]
    assert (posts["written"], posts["rewritten"], posts["kept"]) == ([], [], windows - 2)
    outcome, posts = run_by_command(unwritten)
    assert (outcome.fresh, posts) == (True, {})


def test_a_killed_run_has_kept_its_drafts(
    chat: ChatServer, unwritten: Workspace, start_process: Callable[..., Popen[str]]
) -> None:
    settings = unwritten.root / "backstory.yaml"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace("tiny", "tiny, threads: 1"), encoding="utf-8"
    )
    arrived, over = threading.Event(), threading.Event()

    def hang(_: ChatRequest) -> None:
        arrived.set()
        over.wait()

    chat.script.extend([chat_server.post(), chat_server.post(), hang])
    process = start_process(["-m", "tests.world", str(unwritten.root), "-1", "run"], os.environ)
    assert arrived.wait(timeout=600)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    over.set()
    posts = run_again(unwritten)
    assert set(posts["status"]) == {"written"}
    # Once more only for the window that was under way.
    assert len(chat.requests) == posts.height + 1


def test_a_damaged_cache_is_named_and_drafts_are_asked_again_without_it(
    chat: ChatServer, made: Workspace
) -> None:
    assert all(found.passed for found in examine(made.root, deep=True))
    calls, path = len(chat.requests), made.tables_dir / "cache.sqlite"
    made.cache.close()
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    failed = {found.name for found in examine(made.root, deep=True) if not found.passed}
    assert failed == {"cache"}
    for part in (made.tables_dir / "posts").iterdir():
        part.unlink()
    with raises(StateError, "damaged_file"):
        run_again(made)
    path.unlink()
    run_again(made)
    assert len(chat.requests) == 2 * calls


def holds_moths(workspace: Workspace) -> bool:
    return any(
        b"moths were awake" in path.read_bytes() for path in workspace.tables_dir.glob("cache.sqlite*")
    )


def test_drafts_that_were_made_of_a_forgotten_thing_are_forgotten(chat: ChatServer, made: Workspace) -> None:
    chat.always = lambda request: chat_server.post(" ".join(request.user.split()))(request)
    (made.chats_dir / "moths.txt").write_text(
        "14/03/2025, 09:00 - Dora Wexcombe: Only the moths were awake\n14/03/2025, 09:05 - Ada Lind: A lamp for them\n",
        encoding="utf-8",
    )
    run_again(made)
    calls, kept = len(chat.requests), made.drafts.count()
    assert holds_moths(made)
    done = forget(open_workspace(made.root), "conversation", "moths")
    assert done.left == {}
    assert not holds_moths(made)
    assert made.drafts.count() == kept - 1
    assert len(chat.requests) == calls


@pytest.mark.parametrize("enabled", [True, False])
def test_an_estimate_counts_the_posts_of_edited_messages(made: Workspace, enabled: bool) -> None:
    file = made.root / "backstory.yaml"
    if not enabled:
        file.write_text(
            file.read_text(encoding="utf-8").replace("{top_k: 3}", "{enabled: false}"), encoding="utf-8"
        )
        run_again(made)
    export = made.chats_dir / "garden.txt"
    text = export.read_text(encoding="utf-8").replace("needs a seat reservation", "needs no reservation")
    export.write_text(text, encoding="utf-8")
    workspace = open_workspace(made.root, accept_removals=True, writes=False)
    [writing] = estimate_run(workspace, None, None).calls
    assert writing.calls > 0
