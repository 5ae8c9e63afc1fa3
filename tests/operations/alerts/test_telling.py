"""Alerts of whole runs: what the hooks are told, what they are not, and what becomes of a hook that fails."""

import json
import sys
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl
import pytest

from backstory.models.failures import hide_quotes, quote
from backstory.operations.alerts import send_alerts
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.views import VIEWS_FILE
from tests.interfaces.cli.invocation import exit_code, run
from tests.loopback import run_server
from tests.models.services.chat_server import ChatReply, ChatRequest, refuse, run_chat_server
from tests.models.services.embedding_answers import embed
from tests.workspaces import SETTINGS

HOOK = f"""#!{sys.executable}
import sys
with open("told.jsonl", "a") as told:
    told.write(sys.stdin.read() + chr(10))
"""
UNREAD = Run(
    [],
    frozenset({"documents"}),
    sources=pl.DataFrame({"source": ["posts/a.md"], "status": ["failed"], "reason": ["damaged"]}),
)
BAD_POST = "---\ntitle: [\n---\n"


def add_hook(workspace: Workspace, more: str = "") -> Workspace:
    hook = workspace.root / "hook"
    hook.write_text(HOOK, encoding="utf-8")
    hook.chmod(0o700)
    return change_alerts(workspace, f"command: [./hook], timeout_seconds: 60{more}")


def change_alerts(workspace: Workspace, alerts: str) -> Workspace:
    file = workspace.root / "backstory.yaml"
    kept = [line for line in file.read_text(encoding="utf-8").splitlines() if "alerts:" not in line]
    file.write_text("\n".join([*kept, f"alerts: {{{alerts}}}", ""]), encoding="utf-8")
    return open_workspace(workspace.root)


def read_told(workspace: Workspace) -> list[dict[str, Any]]:
    told = workspace.root / "told.jsonl"
    return (
        [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()] if told.exists() else []
    )


def test_runs_tell_the_command_when_problems_appear_and_when_all_are_gone(workspace: Workspace) -> None:
    add_hook(workspace)
    root = str(workspace.root)
    bad = workspace.documents_dir / "bad.md"
    bad.write_text(BAD_POST, encoding="utf-8")
    first = run("run", "-w", root)
    assert first.exit_code == 3
    assert "Alert sent by command: problems" in first.stdout
    assert "Alert" not in run("run", "-w", root).stdout
    shown = run("doctor", "--alerts", "-w", root, "--json")
    assert [one["file"] for one in json.loads(shown.stdout)["command"]] == ["posts/bad.md"]
    bad.unlink()
    assert "Alert sent by command: resolved" in run("run", "-w", root).stdout
    problems, resolved = read_told(workspace)
    assert (problems["format"], problems["event"], problems["status"]) == (1, "problems", "warned")
    assert problems["workspace"] == workspace.root.name
    assert problems["partitions"] == {"first": "2025-03-13", "last": "2025-03-15", "count": 2}
    assert [file["file"] for file in problems["files"]] == ["posts/bad.md"]
    assert problems["cost"]["embedding_computed"] > 0
    assert problems["text"].startswith("Backstory, workspace: problems (files: 1). posts/bad.md: ")
    assert resolved["event"] == "resolved"
    assert resolved["files"] == resolved["failures"] == resolved["findings"] == []
    assert len(resolved["resolved"]) == 1
    assert problems["run_id"] != resolved["run_id"]
    assert problems.keys() == resolved.keys()


def test_a_run_that_stops_before_it_begins_is_told_and_wrong_arguments_are_not(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_hook(workspace)
    root = str(workspace.root)
    assert exit_code(monkeypatch, "run", "-w", root, "--from", "2025-03-15", "--to", "2025-03-13") == 2
    assert read_told(workspace) == []
    (workspace.chats_dir / "garden.txt").unlink()
    (workspace.chats_dir / "Chat with Ada Lind.txt").write_text("no chat", encoding="utf-8")
    assert exit_code(monkeypatch, "run", "-w", root) != 0
    (told,) = read_told(workspace)
    assert told["status"] == "failed"
    assert "no message could be read" in told["failures"][0]["sentence"]
    assert "[chat]" in told["failures"][0]["sentence"]
    assert "Ada" not in json.dumps(told)


def test_a_run_that_cannot_open_its_model_is_told_and_recorded(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = add_hook(workspace).root / "backstory.yaml"
    assert exit_code(monkeypatch, "run", "-w", str(workspace.root)) == 0
    text = settings.read_text(encoding="utf-8").replace("provider: hashing", "model_dir: absent")
    settings.write_text(text, encoding="utf-8")
    assert exit_code(monkeypatch, "run", "-w", str(workspace.root)) == 1
    record, _ = open_workspace(workspace.root).runs.read()
    (told,) = read_told(workspace)
    assert (record.status, told["run_id"]) == ("failed", record.run_id)
    assert told["partitions"]["first"] == record.first_partition == "2025-03-13"
    with duckdb.connect(str(workspace.tables_dir / VIEWS_FILE), read_only=True) as views:
        assert views.execute("SELECT run_id FROM runs WHERE status = 'failed'").fetchall() == [
            (record.run_id,)
        ]


def test_a_text_that_a_service_refuses_is_not_told(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse_sourdough(request: ChatRequest) -> ChatReply | None:
        refused = next((text for text in request.body["input"] if "sourdough" in text.lower()), None)
        return embed(request) if refused is None else refuse(400, f"cannot read {refused}")(request)

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as server:
        server.always = refuse_sourdough
        file = workspace.root / "backstory.yaml"
        service = f"services: {{openai: {{base_url: '{server.url}'}}}}\n"
        model = SETTINGS.replace("{provider: hashing}", "{provider: openai, model: tiny, dimension: 16}")
        file.write_text(model + service, encoding="utf-8")
        add_hook(workspace)
        assert exit_code(monkeypatch, "run", "-w", str(workspace.root)) == 1
    (told,) = read_told(workspace)
    assert "HTTP 400" in told["failures"][0]["sentence"]
    assert "ourdough" not in json.dumps(told).replace("posts/sourdough.md", "").replace("sourdough.md:", "")
    shown = capsys.readouterr()
    assert "ourdough" in shown.out + shown.err


def test_a_sentence_that_was_cut_inside_a_quote_tells_none_of_it() -> None:
    assert hide_quotes(f"HTTP 400: {quote('a “poisoned” letter')}"[:-5]) == hide_quotes("HTTP 400: “")


def test_a_hook_that_fails_is_said_and_told_by_the_next_run(workspace: Workspace) -> None:
    opened = change_alerts(workspace, "command: ['false']")
    end = replace(UNREAD, partitions=["2025-03-13"])
    (said,) = send_alerts(opened, end)
    assert said.startswith("Alert not sent by command: false ended with exit code 1")
    opened = add_hook(workspace)
    assert send_alerts(opened, end) == ["Alert sent by command: problems"]
    assert send_alerts(opened, end) == []
    with opened.state.begin() as session:
        session.execute("DELETE FROM alerts")
    assert send_alerts(opened, end) == ["Alert sent by command: problems"]


def test_the_webhook_of_the_environment_is_used_and_never_shown(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = str(workspace.root)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_server() as server:
        monkeypatch.setenv("BACKSTORY_ALERT_WEBHOOK", f"{server.url}/hooks/secret-part")
        sent = run("doctor", "--test-alert", "-w", root)
        server.answers.append((403, {}))
        refused = run("doctor", "--test-alert", "-w", root)
    assert sent.exit_code == 0
    assert json.loads(server.received[0].body)["event"] == "test"
    assert refused.exit_code != 0
    assert "HTTP 403" in str(refused.exception)
    said = f"{sent.output}{refused.output}{refused.exception}{caplog.text}"
    assert "secret-part" not in said


def test_a_test_without_a_hook_says_what_to_set(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(monkeypatch, "doctor", "--test-alert", "-w", str(workspace.root)) == 2
    assert "No alert is set up" in run("doctor", "--alerts", "-w", str(workspace.root)).stdout
