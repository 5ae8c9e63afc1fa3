"""The command and the webhook, against real processes and a real server."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from backstory.base.errors import BackstoryError
from backstory.operations.alerts import ATTEMPTS, post, run_command
from tests.errors import raises
from tests.loopback import LoopbackServer, run_server

PAYLOAD = {"format": 1, "text": "häää \u2028 <b>"}
PATH = "/services/T000/SecretPartOfTheAddress"


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with run_server() as running:
        yield running


@pytest.fixture
def send(webhook: LoopbackServer) -> Callable[..., list[float]]:
    """Give a function that posts the alert, and returns the seconds that it would have waited."""

    def send_to(address: str = "") -> list[float]:
        waited: list[float] = []
        post(SecretStr(address or webhook.url + PATH), PAYLOAD, 5.0, waited.append)
        return waited

    return send_to


def test_a_transient_failure_is_tried_again(
    webhook: LoopbackServer, send: Callable[..., list[float]]
) -> None:
    webhook.answers.extend([(503, {}), None])
    assert len(send()) == 2
    assert [json.loads(request.body) for request in webhook.received] == [PAYLOAD] * 3
    assert {request.path for request in webhook.received} == {PATH}
    assert webhook.received[-1].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("answers", "code", "named", "attempts"),
    [
        ([(500, {})] * ATTEMPTS, "refused", [500], ATTEMPTS),
        ([(429, {})] * ATTEMPTS, "refused", [429], ATTEMPTS),
        ([(404, {})], "refused", [404], 1),
        ([(302, {"Location": "http://elsewhere.invalid/x?token=1"})], "refused", [302], 1),
        ([(308, {"Location": PATH})], "refused", [308], 1),
    ],
)  # fmt: skip
def test_what_cannot_be_delivered_is_told_without_the_address(
    webhook: LoopbackServer,
    send: Callable[..., list[float]],
    answers: list[tuple[int, dict[str, str]]],
    code: str,
    named: list[object],
    attempts: int,
) -> None:
    webhook.answers.extend(answers)
    with raises(BackstoryError, code, *named) as caught:
        send()
    assert len(webhook.received) == attempts
    assert "Secret" not in str(caught.value)
    assert "token" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_server_that_is_not_there_is_told(send: Callable[..., list[float]]) -> None:
    with run_server() as gone:
        pass
    with raises(BackstoryError, "unreachable"):
        send(gone.url + PATH)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://a/b", "secret", "https://"])
def test_only_web_addresses_are_opened(address: str) -> None:
    with raises(BackstoryError, "invalid_address", "alerts.webhook"):
        post(SecretStr(address), PAYLOAD, 1.0)


def write_program(folder: Path, text: str) -> str:
    program = folder / "hook"
    program.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    program.chmod(0o700)
    return "./hook"


def test_a_command_reads_the_alert_and_sees_no_key(
    tmp_path: Path, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "PGPASSWORD PGPASSFILE AWS_SECRET_ACCESS_KEY GOOGLE_APPLICATION_CREDENTIALS SOME_TOKEN"
    secrets = {name: f"secret-{name}" for name in names.split()}
    monkeypatch.setenv("BACKSTORY_HOOK_ROOM", "garden")
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    program = write_program(
        tmp_path,
        "import os, pathlib, sys\n"
        "pathlib.Path('argument').write_text(sys.argv[1])\n"
        "pathlib.Path('read').write_text(sys.stdin.read())\n"
        "pathlib.Path('environment').write_text(repr(os.environ))\n",
    )
    run_command([program, "$(touch shell); x"], PAYLOAD, tmp_path, 120.0)
    assert json.loads((tmp_path / "read").read_text(encoding="utf-8")) == PAYLOAD
    assert (tmp_path / "argument").read_text(encoding="utf-8") == "$(touch shell); x"
    assert not (tmp_path / "shell").exists()
    seen = (tmp_path / "environment").read_text(encoding="utf-8")
    assert "PATH" in seen
    assert "garden" in seen
    assert [key for key in (api_key, *secrets, *secrets.values()) if key in seen] == []


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    with raises(BackstoryError, "failed_command"):
        run_command([write_program(tmp_path, "raise SystemExit(3)")], PAYLOAD, tmp_path, 120.0)
    with raises(BackstoryError, "unstartable_command"):
        run_command(["./absent"], PAYLOAD, tmp_path, 120.0)


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    # The reader sees the end of the pipe only when every process that holds it is gone.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with raises(BackstoryError, "too_slow"):
        run_command(["sh", "-c", "sleep 600 > alive & sleep 600 > alive"], PAYLOAD, tmp_path, 0.5)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)
