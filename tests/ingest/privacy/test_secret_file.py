"""The secret: made once, private, and never silently another one."""

import logging
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.base.errors import WorkspaceError
from backstory.ingest.privacy.pseudonyms import load_secret
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.interfaces.cli.invocation import run
from tests.started_python import StartedPython
from tests.workspaces import build_table, open_tables


def load(path: Path) -> bytes:
    return load_secret(path, open_tables(path.parent.parent / "data"))


@pytest.mark.parametrize("umask", [0, 0o077])
def test_secret_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path, umask: int) -> None:
    path = tmp_path / ".backstory" / "secret.key"
    before = os.umask(umask)
    try:
        secret = load(path)
    finally:
        os.umask(before)

    assert len(secret) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path) == secret
    assert load(tmp_path / "other" / ".backstory" / "secret.key") != secret
    assert [entry.name for entry in path.parent.iterdir()] == ["secret.key"]


READ_SECRET = """
import sys
from pathlib import Path
from backstory.ingest.privacy.pseudonyms import load_secret
from tests.workspaces import open_tables
print("ready", flush=True)
sys.stdin.readline()
tables = Path(sys.argv[1])
print(load_secret(tables / "secret.key", open_tables(tables)).hex())
"""


def test_processes_that_start_together_agree_on_one_secret(tmp_path: Path) -> None:
    words = ["-c", READ_SECRET, str(tmp_path)]
    processes = [StartedPython(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    secrets = [process.communicate(timeout=300)[0] for process in processes]

    assert len(set(secrets)) == 1
    assert len(secrets[0].strip()) == 64


@pytest.mark.parametrize("content", ["", "abc", "zz" * 32, "5e" * 16, "é"])
def test_file_that_is_no_secret_is_an_error_and_is_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret.key"
    path.write_text(content, encoding="utf-8")

    with raises(WorkspaceError, "no_secret", path) as raised:
        load(path)

    assert not content or content not in str(raised.value)

    assert path.read_text(encoding="utf-8") == content


def test_secret_that_others_can_read_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "secret.key"
    secret = load(path)
    path.chmod(0o644)

    with caplog.at_level(logging.WARNING):
        assert load(path) == secret

    assert "chmod 600" in caplog.text
    assert secret.hex() not in caplog.text


@pytest.fixture
def filled(make_workspace: Callable[..., Workspace]) -> Workspace:
    """Give a workspace whose messages have been made."""
    workspace = make_workspace()
    build_table(workspace, "messages", find_partitions(workspace))
    return workspace


def add_message(workspace: Workspace) -> Workspace:
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("15/03/2025, 18:06 - Ada Lind: One more thing\n")
    return open_workspace(workspace.root)


def replace_secret(workspace: Workspace) -> None:
    workspace.secret.write_text("5e" * 32, encoding="ascii")


def lose_secret(workspace: Workspace) -> None:
    workspace.secret.unlink()


@pytest.mark.parametrize(("lose", "code"), [(lose_secret, "lost_secret"), (replace_secret, "other_secret")])
def test_pseudonyms_of_two_secrets_never_stand_beside_each_other(
    filled: Workspace, lose: Callable[[Workspace], None], code: str
) -> None:
    before, backup = filled.tables.read("messages"), filled.secret.read_text(encoding="ascii")
    lose(filled)
    changed = add_message(filled)

    with raises(WorkspaceError, code, changed.secret):
        build_table(changed, "messages", find_partitions(changed))

    assert filled.tables.read("messages").equals(before)
    filled.secret.write_text(backup, encoding="ascii")
    build_table(changed, "messages", find_partitions(changed))
    assert set(filled.tables.read("messages")["author"]) == set(before["author"])
    # Without the tables, another secret is accepted.
    lose(filled)
    shutil.rmtree(filled.tables_dir)
    anew = open_workspace(filled.root)
    build_table(anew, "messages", find_partitions(anew))
    after = set(anew.tables.read("messages")["author"].drop_nulls())
    assert len(after) == before["author"].drop_nulls().n_unique()
    assert not after & set(before["author"])


def test_tables_with_real_names_do_not_ask_for_a_secret(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace("privacy: {pseudonyms: false}\n")
    build_table(workspace, "messages", find_partitions(workspace))

    assert len(load_secret(workspace.secret, workspace.tables)) == 32


def test_the_fingerprint_does_not_hold_the_secret(filled: Workspace) -> None:
    recorded = (filled.tables_dir / "catalog.sqlite").read_bytes()

    assert filled.secret.read_bytes().strip() not in recorded
    assert bytes.fromhex(filled.secret.read_text(encoding="ascii")) not in recorded


def test_doctor_distinguishes_a_secret_that_is_lost_from_one_that_was_never_made(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace()
    assert "not made yet" in " ".join(run("doctor", "-v", "-w", str(workspace.root)).output.split())
    build_table(workspace, "messages", find_partitions(workspace))
    workspace.secret.unlink()
    told = " ".join(run("doctor", "-v", "-w", str(workspace.root)).output.split())
    assert "not made yet" not in told
    assert "secret.key is lost, but the tables hold pseudonyms" in told
    assert not workspace.secret.exists()
