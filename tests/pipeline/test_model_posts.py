"""Posts that a model writes, behind a real server: what is asked, kept, checked, retried, and survives."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.errors import AuthenticationError
from backstory.forgetting import forget
from backstory.inspection.audit import audit
from backstory.tables import read_table
from backstory.workspace import Workspace, open_workspace
from tests.providers import chat_server
from tests.providers.chat_server import ChatReply, ChatRequest, ChatServer, run_chat_server
from tests.workspaces import SETTINGS, write_workspace

WRITERS = "writers: {{provider: openai, model: tiny, base_url: '{url}', max_attempts: 1, requests_per_minute: 10000{more}}}\n"
SMALL = SETTINGS.replace("size: 6, overlap: 2", "size: 2")
REFUSAL = chat_server.complete(None, refusal="I will not.")


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        yield running


@pytest.fixture
def made(chat: ChatServer, tmp_path: Path) -> Workspace:
    """A workspace of several windows, each of which the model has written about."""
    return make(chat, tmp_path)


def make(chat: ChatServer, folder: Path, more: str = "") -> Workspace:
    workspace = write_workspace(folder / "workspace", SMALL + WRITERS.format(url=chat.url, more=more))
    run_pipeline(workspace)
    return workspace


def run_again(workspace: Workspace) -> pl.DataFrame:
    run_pipeline(open_workspace(workspace.root))
    return read_table(workspace.tables, "posts")


def files_of(workspace: Workspace) -> dict[str, tuple[bytes, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(workspace.written.iterdir())
    }


def test_the_same_input_makes_no_call_and_no_write_whatever_is_lost(
    chat: ChatServer, made: Workspace
) -> None:
    posts = read_table(made.tables, "posts")
    calls, files = len(chat.requests), files_of(made)
    assert calls == posts.height == len(files) > 3
    assert set(posts["status"]) == {"written"}
    assert set(posts.select("model", "attempts", "tokens_in", "tokens_out").iter_rows()) == {
        ("tiny-2026", 1, 120, 30)
    }

    assert run_again(made).equals(posts)
    for path in (made.tables / "posts").iterdir():
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


def test_rejected_drafts_are_asked_again_by_later_runs_and_then_stay(
    chat: ChatServer, tmp_path: Path
) -> None:
    chat.always = REFUSAL
    workspace = make(chat, tmp_path)
    windows = len(chat.requests)
    for attempt in (1, 2, 3, 3):
        posts = read_table(workspace.tables, "posts")
        assert set(posts["status"]) == {"rejected"}
        assert set(posts["reason"]) == {"refused: I will not."}
        assert set(posts.select("attempts", "tokens_in").iter_rows()) == {(attempt, attempt * 120)}
        assert len(chat.requests) == attempt * windows
        run_again(workspace)
    assert not workspace.written.exists() or not list(workspace.written.iterdir())


def test_a_later_attempt_becomes_the_post(chat: ChatServer, tmp_path: Path) -> None:
    chat.always = REFUSAL
    workspace = make(chat, tmp_path)
    windows = len(chat.requests)
    chat.always = chat_server.post()
    posts = run_again(workspace)
    assert set(posts.select("status", "attempts", "tokens_in").iter_rows()) == {("written", 2, 240)}
    assert len(chat.requests) == 2 * windows
    run_again(workspace)
    assert len(chat.requests) == 2 * windows


def test_a_used_up_quota_lets_windows_wait_and_the_next_run_goes_on(chat: ChatServer, tmp_path: Path) -> None:
    chat.script.append(chat_server.post())
    chat.always = chat_server.refuse(402, "no credit")
    workspace = make(chat, tmp_path, ", threads: 1")
    posts = read_table(workspace.tables, "posts")
    assert sorted(posts["status"].unique()) == ["waiting", "written"]
    assert posts.filter(status="written").height == 1
    assert "no credit" in posts.filter(status="waiting")["reason"][0]
    assert len(chat.requests) == 2
    chat.always = chat_server.post()
    assert set(run_again(workspace)["status"]) == {"written"}
    assert len(chat.requests) == 1 + posts.height


def test_a_service_that_is_down_is_not_asked_for_every_window(chat: ChatServer, tmp_path: Path) -> None:
    chat.always = chat_server.refuse(503)
    workspace = make(chat, tmp_path, ", threads: 1")
    posts = read_table(workspace.tables, "posts")
    assert len(chat.requests) == 3
    assert posts.filter(status="failed").height == 3
    assert posts.filter(status="waiting").height == posts.height - 3 > 0


def test_one_refused_request_does_not_stop_the_others(chat: ChatServer, tmp_path: Path) -> None:
    chat.script.append(chat_server.refuse(400, "the context is too long"))
    workspace = make(chat, tmp_path)
    statuses = read_table(workspace.tables, "posts")["status"].value_counts()
    assert dict(statuses.iter_rows())["failed"] == 1
    assert len(statuses) == 2


def test_a_refused_key_stops_the_run(chat: ChatServer, tmp_path: Path) -> None:
    chat.always = chat_server.refuse(401, "bad key")
    with pytest.raises(AuthenticationError, match="BACKSTORY_WRITER_KEY"):
        make(chat, tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ada Lind said that the drip irrigation line broke again.", "leak: "),
        ("Ring +44 20 7946 0958 about the drip irrigation line.", "leak: "),
        ("---\ntitle: Mine\n---\nThe drip irrigation line broke again.", "front matter: "),
        ("I'm sorry, but I can't help with that request.", "refused: "),
        ("Too short.", "too short: "),
        ("x" * 20_001, "too long: "),
        ("Der Schlauch im Garten ist wieder gebrochen, und der Frost hat das Winkelstück gesprengt. Die Nachbarn haben "
         "ein Ersatzteil gefunden und wollen es am Wochenende gemeinsam einbauen, wenn das Wetter es zulässt. Danach "
         "wird gegrillt, und alle bringen etwas mit.", "language: the draft is in German"),
    ],
)  # fmt: skip
def test_a_draft_that_fails_a_check_is_no_post(
    chat: ChatServer, tmp_path: Path, text: str, reason: str
) -> None:
    chat.always = chat_server.post(text)
    workspace = make(chat, tmp_path)
    posts = read_table(workspace.tables, "posts")
    detected = read_table(workspace.tables, "window_contexts").filter(language="en")["window_id"]
    judged = posts.filter(pl.col("window_id").is_in(detected.implode())) if "language" in reason else posts
    assert judged.height
    assert set(judged["status"]) == {"rejected"}
    assert all(found.startswith(reason) for found in judged["reason"])
    if reason == "leak: ":
        held = b"".join(path.read_bytes() for path in workspace.tables.rglob("*") if path.is_file())
        assert text.encode() not in held
        assert not any(posts["text"])


def test_windows_are_asked_about_at_once_and_rows_keep_their_order(chat: ChatServer, tmp_path: Path) -> None:
    together = threading.Barrier(2)

    def meet(request: ChatRequest) -> ChatReply | None:
        together.wait(timeout=30)
        return chat_server.post(f"{chat_server.TEXT} {len(request.user)}")(request)

    chat.script.extend([meet, meet])
    workspace = make(chat, tmp_path, ", threads: 2")
    assert chat.most_at_once == 2
    posts = read_table(workspace.tables, "posts")
    assert posts["published_at"].is_sorted()


def test_a_killed_run_has_kept_its_drafts(
    chat: ChatServer, made: Workspace, start_process: Callable[..., Popen[str]], tmp_path: Path
) -> None:
    windows = len(chat.requests)
    fresh = write_workspace(tmp_path / "fresh", (made.root / "backstory.yaml").read_text(encoding="utf-8").replace(
        "requests_per_minute", "threads: 1, requests_per_minute"))  # fmt: skip
    arrived, over = threading.Event(), threading.Event()

    def hang(_: ChatRequest) -> None:
        arrived.set()
        over.wait()

    chat.script.extend([chat_server.post(), chat_server.post(), hang])
    environment: Mapping[str, Any] = {**os.environ, "BACKSTORY_CACHE_DIR": str(tmp_path / "cache")}
    process = start_process(
        [sys.executable, "-m", "tests.pipeline.posting_run", str(fresh.root)], environment
    )
    assert arrived.wait(timeout=120)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    over.set()
    posts = run_again(fresh)
    assert set(posts["status"]) == {"written"}
    # All windows, and once more the one that was under way.
    assert len(chat.requests) - windows == windows + 1


def test_a_damaged_file_of_drafts_is_set_aside_and_a_damaged_draft_is_asked_again(
    chat: ChatServer, made: Workspace
) -> None:
    assert all(found.passed for found in audit(made.root))
    calls, path = len(chat.requests), made.drafts.path
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert [found.name for found in audit(made.root) if not found.passed] == ["drafts"]
    for part in (made.tables / "posts").iterdir():
        part.unlink()
    run_again(made)
    assert len(chat.requests) == 2 * calls
    assert path.with_name(f"{path.name}.damaged").is_file()


def test_drafts_that_were_made_of_a_forgotten_thing_are_forgotten(chat: ChatServer, made: Workspace) -> None:
    chat.always = lambda request: chat_server.post(" ".join(request.user.split()))(request)
    (made.exports / "moths.txt").write_text(
        "14/03/2025, 09:00 - Dora Quill: Only the moths were awake\n14/03/2025, 09:05 - Ada Lind: A lamp for them\n",
        encoding="utf-8",
    )
    run_again(made)
    calls, kept = len(chat.requests), made.drafts.count()
    assert b"moths were awake" in made.drafts.path.read_bytes() + made.drafts.path.with_name("drafts.sqlite-wal").read_bytes()  # fmt: skip
    done = forget(open_workspace(made.root), "conversation", "moths")
    assert done.search.found == {}
    assert b"moths were awake" not in made.drafts.path.read_bytes()
    assert made.drafts.count() == kept - 1
    assert len(chat.requests) == calls
