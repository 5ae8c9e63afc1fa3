"""Runs with feedback that a budget stops or a batch job lets wait: they go on, and end as an uninterrupted run."""

import re
import shutil
from pathlib import Path

import pytest

from backstory.base.errors import StoppedError
from backstory.index.search import open_index
from backstory.interfaces.cli.run import Execute, execute_changed, exit_code
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run, ignore_progress
from backstory.pipeline.stages.corpus import SearchIndexStage
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.materialization import materialize
from tests.models.services import chat_server
from tests.models.services.chat_server import ChatReply, ChatRequest, ChatServer
from tests.pipeline.feedback_workspaces import SETTINGS, read_all, read_files, write_chat, write_workspace

DAYS, WINDOWS = 3, 2
BUDGET = 3
WRITER = "{provider: openai, feedback: 'on', model: tiny}"
WRITING_SERVICE = "openai: {{base_url: '{url}', max_attempts: 1, requests_per_minute: 10000}}"
UNFINISHED = 4


def echo(request: ChatRequest) -> ChatReply | None:
    """Write a post about what was asked in the window, so that later windows find it."""
    questions = re.findall(r"How is the [^?]*\?", request.user)
    return chat_server.post(f"They asked each other: {questions[-1]} And they had an answer to it.")(request)


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = echo
    return chat


def make(root: Path, settings: str, *, windows: int = WINDOWS) -> Workspace:
    """Write a workspace of several days; all workspaces of a test have the same secret."""
    workspace = write_workspace(root)
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    write_chat(workspace.chats_dir, DAYS, windows=windows)
    secret = root.with_name("secret.key")
    if secret.exists():
        workspace.secret.parent.mkdir()
        shutil.copyfile(secret, workspace.secret)
    return open_workspace(root)


def run(workspace: Workspace, execute: Execute = execute_changed) -> Run:
    opened = open_workspace(workspace.root)
    outcome = execute(opened, Run(find_wanted(opened, None, None)), ignore_progress)
    shutil.copyfile(workspace.secret, workspace.root.with_name("secret.key"))
    return outcome


def assert_equal(one: Workspace, other: Workspace) -> None:
    tables = read_all(other)
    assert {name for name, frame in read_all(one).items() if not frame.equals(tables[name])} == set()
    assert read_files(one) == read_files(other)


@pytest.mark.parametrize("execute", [execute_changed, pytest.param(materialize, marks=pytest.mark.long)])
def test_a_budget_of_calls_stops_inside_the_loop_and_the_next_runs_go_on(
    execute: Execute, chat: ChatServer, tmp_path: Path
) -> None:
    settings = SETTINGS.replace('{provider: digest, feedback: "on"}', WRITER)
    settings += f"services: {{{WRITING_SERVICE.format(url=chat.url)}}}\n"
    workspace = make(tmp_path / "in parts", f"{settings}costs: {{run: {{calls: {BUDGET}}}}}\n")
    outcomes = [run(workspace, execute)]
    assert len(chat.requests) == BUDGET
    posts = workspace.tables.read("posts")
    assert [*posts.sort("published_at")["status"]] == ["written"] * BUDGET + ["waiting"]
    documents = workspace.tables.read("documents").filter(status="ok")["document_id"]
    with open_index(workspace.index) as index:
        assert set(index.documents["document_id"]) == set(documents)
    stopped = str(outcomes[0].stopped)
    assert "(costs.run.calls), is used up" in stopped
    assert stopped.endswith(f"Left: 1 partition of posts; and {DAYS - 2} later partition")
    while outcomes[-1].stopped:
        assert exit_code(outcomes[-1]) == UNFINISHED
        outcomes.append(run(workspace, execute))
        assert outcomes[-1].success, outcomes[-1].failures
    assert exit_code(outcomes[-1]) == 0
    assert len(chat.requests) == DAYS * WINDOWS
    assert len(outcomes) == -(-DAYS * WINDOWS // BUDGET)
    runs = workspace.tables.read("runs")["status"].to_list()
    assert runs == ["stopped"] * (len(outcomes) - 1) + ["succeeded"]

    whole = make(tmp_path / "whole", settings)
    assert exit_code(run(whole)) == 0
    assert_equal(workspace, whole)
    assert run(workspace, execute).fresh


def test_a_stop_before_the_posts_are_in_the_index_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: SearchIndexStage, _partitions: list[str]) -> None:
        raise StoppedError("the time is over")

    monkeypatch.setattr(SearchIndexStage, "make", stop)
    outcome = run(make(tmp_path / "workspace", SETTINGS))
    assert str(outcome.stopped).startswith("the time is over. Left: 1 partition of search_index, hits")
    assert outcome.failures == []
