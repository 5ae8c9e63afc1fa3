"""The commands that administer a service: what they store and show, and that no secret goes through their arguments."""

import json
import re
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
from typer.testing import CliRunner, Result

from backstory.base.environment import ANSWER_KEY_VARIABLE
from backstory.interfaces.cli.app import app
from backstory.interfaces.cli.serve import serve
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.opening import open_service_folder
from backstory.storage.conversations import ConversationStore
from tests.caches import open_accounts
from tests.interfaces.cli.invocation import exit_code
from tests.started_python import StartedPython

COMMAND = ["-c", "from backstory.interfaces.cli.app import main; main()", "serve"]
KEY = "sk-that-is-shown-nowhere"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service with the tenant garden and the user anna, and a folder of configuration of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "root"
    for words in (("tenant", "add", "garden"), ("user", "add", "anna")):
        assert call(root, *words).exit_code == 0
    return root


def call(root: Path, *words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["serve", *words, "--root", str(root)], input=given)


def list_rows(root: Path, kind: str) -> Any:
    return json.loads(call(root, kind, "list", "--json").stdout)


def test_a_user_is_let_in_by_a_token_and_a_role(root: Path) -> None:
    assert call(root, "grant", "anna", "garden", "editor").exit_code == 0
    [token] = call(root, "token", "add", "anna", "--days", "7").stdout.splitlines()
    caller = Accounts(open_accounts(root)).authenticate(token)
    assert caller is not None
    assert dict(caller.roles) == {"garden": "editor"}
    [row] = list_rows(root, "token")
    assert (row["id"], row["user"], row["ends"] is None) == (caller.token_id, "anna", False)
    assert list_rows(root, "user")[0]["roles"] == {"garden": "editor"}
    for kind in ("token", "user", "tenant"):
        assert token not in call(root, kind, "list").output
    assert call(root, "token", "revoke", caller.token_id).exit_code == 0
    assert Accounts(open_accounts(root)).authenticate(token) is None
    assert call(root, "revoke", "anna", "garden").exit_code == 0
    assert list_rows(root, "user")[0]["roles"] == {}
    assert call(root, "user", "remove", "anna").exit_code == 0
    assert list_rows(root, "user") == []


def test_a_key_comes_from_standard_input_and_is_never_shown(root: Path, tmp_path: Path) -> None:
    stored = call(root, "key", "set", "garden", ANSWER_KEY_VARIABLE, given=f"{KEY}\n")
    assert stored.exit_code == 0
    shown = [
        stored,
        call(root, "key", "list"),
        call(root, "key", "list", "--json"),
        call(root, "tenant", "list"),
    ]
    assert all(KEY not in one.output for one in shown)
    assert list_rows(root, "key") == [{"tenant": "garden", "key": ANSWER_KEY_VARIABLE}]
    assert list_rows(root, "tenant") == [{"tenant": "garden", "users": 0, "keys": [ANSWER_KEY_VARIABLE]}]
    assert (
        open_service_folder(root, megabytes=1).keys.open("garden")[ANSWER_KEY_VARIABLE].get_secret_value()
        == KEY
    )
    assert (tmp_path / "config" / "backstory" / "service.key").stat().st_mode & 0o777 == 0o600
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert call(root, "key", "remove", "garden", ANSWER_KEY_VARIABLE).exit_code == 0
    assert list_rows(root, "key") == []


def test_no_command_takes_a_secret_as_an_argument() -> None:
    def list_parameters(command: Any) -> list[str]:
        below = [name for one in getattr(command, "commands", {}).values() for name in list_parameters(one)]
        return below + [parameter.name for parameter in command.params]

    names = set(list_parameters(typer.main.get_command(serve)))
    assert {"token_id", "key_file", "name"} <= names
    assert not names & {"value", "key", "token", "password", "secret"}


def test_a_removed_tenant_is_gone_only_after_a_yes(root: Path) -> None:
    assert call(root, "tenant", "remove", "garden", given="n\n").exit_code == 1
    assert [row["tenant"] for row in list_rows(root, "tenant")] == ["garden"]
    assert call(root, "tenant", "remove", "garden", given="y\n").exit_code == 0
    assert list_rows(root, "tenant") == []
    assert list((root / "tenants").iterdir()) == []


def test_what_holds_something_of_a_removed_tenant_is_named(root: Path) -> None:
    (root / "copied.txt").write_text(f"see {root.resolve()}/tenants/garden/posts", encoding="utf-8")
    removed = call(root, "tenant", "remove", "garden", "--yes")
    assert removed.exit_code == 1
    assert "copied.txt" in removed.stdout.split()


def test_an_interrupted_removal_is_told(root: Path) -> None:
    (root / "tenants" / "garden").rename(root / "tenants" / ".removed-garden")
    assert "garden" in call(root, "tenant", "list").stderr
    assert call(root, "tenant", "remove", "garden", "--yes").exit_code == 0
    assert call(root, "tenant", "list").stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        "tenant add ../garden", "tenant add garden", "tenant add kitchen --disk 99999999999999", "user add anna",
        "grant anna nowhere reader", "grant nobody garden reader", "grant anna garden admin", "revoke anna garden",
        "token add nobody", "token revoke 12345678", f"key remove garden {ANSWER_KEY_VARIABLE}",
        "tenant remove nowhere --yes", "tenant remove garden --yes --without nowhere", "--port 0 user list",
    ],
)  # fmt: skip
def test_bad_usage_ends_with_2(root: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    assert exit_code(monkeypatch, "serve", *words.split(), "--root", str(root)) == 2


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("tenant", "list"), ("user", "list"), ("token", "add", "anna")):
        assert exit_code(monkeypatch, "serve", *words, "--root", str(tmp_path)) == 2
    assert list(tmp_path.iterdir()) == []
    assert "backstory serve tenant add" in capsys.readouterr().err


def test_a_key_file_in_the_folder_is_refused_before_anything_is_stored(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file = root / "service.key"
    words = (
        "serve",
        "key",
        "set",
        "garden",
        ANSWER_KEY_VARIABLE,
        "--key-file",
        str(key_file),
        "--root",
        str(root),
    )
    assert exit_code(monkeypatch, *words) == 1
    assert not key_file.exists()
    assert list_rows(root, "key") == []


def test_a_removed_users_conversations_go_and_those_of_others_stay(root: Path) -> None:
    opened = open_service_folder(root, megabytes=1)
    store = ConversationStore(opened.tenants.open_state("garden"))
    file = Path(opened.tenants.open_state("garden").place)
    opened.accounts.add_user("ben")
    ids = {user.name: user.user_id for user in opened.accounts.list_users()}
    for name, user_id in ids.items():
        store.begin(user_id, f"what did {name} ask?", 0.0)
    assert call(root, "user", "remove", "anna").exit_code == 0
    assert [store.list_of(user_id, limit=9)[1] for user_id in ids.values()] == [0, 1]
    stored = b"".join(path.read_bytes() for path in file.parent.glob("state.sqlite*"))
    assert b"what did ben ask" in stored
    assert b"what did anna ask" not in stored


@contextmanager
def serving(root: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the service on a free port, and yield its process and its address."""
    words = [*COMMAND, "--root", str(root), "--port", "0"]
    process = StartedPython(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving (http://127\.0\.0\.1:\d+)", line)
        assert found, line + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_the_service_serves_who_the_commands_let_in_and_ends_when_told(root: Path) -> None:
    call(root, "grant", "anna", "garden", "reader")
    [token] = call(root, "token", "add", "anna").stdout.splitlines()
    headers = {"Authorization": f"Bearer {token}", "X-Backstory-Tenant": "garden"}
    with serving(root) as (process, url):
        assert httpx2.get(f"{url}/healthz").status_code == 200
        assert httpx2.get(f"{url}/api/conversations").status_code == 401
        assert httpx2.get(f"{url}/api/conversations", headers=headers).status_code == 200
        call(root, "revoke", "anna", "garden")
        assert httpx2.get(f"{url}/api/conversations", headers=headers).status_code == 404
        call(root, "grant", "anna", "garden", "reader")
        call(root, "token", "revoke", list_rows(root, "token")[0]["id"])
        assert httpx2.get(f"{url}/api/conversations", headers=headers).status_code == 401
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=600)
    # uvicorn raises the signal again after an orderly end, as which 0 counts, too.
    assert process.returncode in (0, -signal.SIGTERM), errors
    assert token not in output + errors


def test_a_service_whose_keys_cannot_be_opened_does_not_begin(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(root, "key", "set", "garden", ANSWER_KEY_VARIABLE, given=KEY)
    (tmp_path / "config" / "backstory" / "service.key").chmod(0o644)
    assert exit_code(monkeypatch, "serve", "--root", str(root), "--port", "0") == 1


def test_the_service_needs_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(monkeypatch, "serve", "--port", "0") == 2
    assert exit_code(monkeypatch, "serve", "--root", str(tmp_path / "absent"), "--port", "0") == 2


@pytest.mark.skipif(
    not Path("/proc/self/limits").is_file(), reason="the system does not tell the limits of processes"
)
def test_the_service_may_open_as_many_files_as_its_tenants_need(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with serving(root) as (process, _):
            limits = Path(f"/proc/{process.pid}/limits").read_text(encoding="ascii")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [allowed] = re.findall(r"^Max open files +(\d+)", limits, re.MULTILINE)
    assert int(allowed) == min(hard, 10_240)
