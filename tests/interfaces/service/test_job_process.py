"""Index jobs in processes of their own: killed, cancelled and ended at any moment, they end as in the service's own."""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import SecretStr

from backstory.base.environment import ANSWER_KEY_VARIABLE
from backstory.interfaces.library.job_store import JobStore
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import LIBRARY, IndexJobs
from backstory.interfaces.service.job_process import JobProcesses
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts, open_own_state
from tests.interfaces.service.tenant_folders import open_tenants, write_tenant
from tests.started_python import run_python
from tests.workspaces import CHAT
from tests.world import SECRET, describe

KILLS = int(os.environ.get("BACKSTORY_KILLS", "1"))
PROJECT = Path(__file__).resolve().parents[3]
PAGES = 40
WHO = "user-1"

HOOK = """
import json, os, pathlib, signal, sys
plan = pathlib.Path(os.environ["HOOKED"])
if "job_process" in " ".join(sys.orig_argv) and plan.exists():
    told, touched, is_acting = json.loads(plan.read_text()), 0, False
    def count(event, arguments):
        global touched, is_acting
        if is_acting or event not in ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect"):
            return
        if told["root"] not in str(arguments):
            return
        touched += 1
        if touched == told["moment"]:
            is_acting = True
            plan.rename(plan.with_suffix(".done"))
            if told["act"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif told["act"] == "kill the service":
                os.kill(os.getppid(), signal.SIGKILL)
            else:
                plan.with_suffix(".begun").write_text(str(os.getpid()))
                plan.with_suffix(".may_go").read_text()
    sys.addaudithook(count)
"""
"""Runs at the start of every Python process: acts when the process of a job touches the disk for the given time."""


class Hook:
    """Does something in the process of the next job."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.plan = folder / "plan.json"
        self._root = root

    def set(self, act: Literal["kill", "kill the service", "wait"], moment: int) -> None:
        """Have the process do something when it touches the disk for the given time.

        The other end of ``wait`` is :meth:`waiting`.
        """
        for end in ("begun", "may_go"):
            path = self.plan.with_suffix(f".{end}")
            if act == "wait" and not path.exists():
                os.mkfifo(path)
        self.plan.write_text(json.dumps({"root": str(self._root), "moment": moment, "act": act}))

    def wait(self) -> int:
        """Wait until the process of the job waits, and return its id."""
        return int(self.plan.with_suffix(".begun").read_text())

    def release(self) -> None:
        self.plan.with_suffix(".may_go").write_text("")

    @property
    def has_acted(self) -> bool:
        return self.plan.with_suffix(".done").exists()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tenants").mkdir()
    return tmp_path / "tenants"


@pytest.fixture
def hook(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Hook:
    code = tmp_path / "code"
    code.mkdir()
    (code / "sitecustomize.py").write_text(HOOK)
    hook = Hook(tmp_path, root)
    monkeypatch.setenv("PYTHONPATH", str(code))
    monkeypatch.setenv("HOOKED", str(hook.plan))
    return hook


@pytest.fixture
def start_jobs(root: Path) -> Iterator[Callable[[], tuple[IndexJobs, JobProcesses]]]:
    started: list[IndexJobs] = []

    def start() -> tuple[IndexJobs, JobProcesses]:
        processes = JobProcesses()
        jobs = IndexJobs(open_tenants(root), processes=processes)
        jobs.start()
        started.append(jobs)
        return jobs, processes

    yield start
    for jobs in started:
        jobs.close()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_tenant(tmp_path_factory.mktemp("made"), "acme", more=PAGES)
    with Library.open(folder) as library:
        assert library.index().success
    return describe(folder)


def draw_moment(seed: int) -> int:
    """Draw when something is done: the process of such a job touches the disk some 250 times."""
    return random.Random(seed).randrange(20, 230)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_process_that_is_killed_is_followed_by_another_that_completes_its_job(
    seed: int,
    root: Path,
    hook: Hook,
    start_jobs: Callable[[], tuple[IndexJobs, JobProcesses]],
    expected: dict[str, Any],
) -> None:
    folder = write_tenant(root, "acme", more=PAGES)
    hook.set("kill", draw_moment(seed))
    jobs, _ = start_jobs()
    job = jobs.submit("acme", WHO)
    jobs.wait("acme")
    ended = jobs.store("acme").read(job.job_id)
    assert hook.has_acted
    assert (ended.state, ended.attempts, ended.percent, ended.file) == ("COMPLETED", 2, 100, None)
    assert ended.counts["documents"] == 6 + PAGES
    assert describe(folder) == expected


def write_chats(root: Path) -> Path:
    """Write a tenant with chats, whose authors get the same pseudonyms everywhere."""
    folder = write_tenant(root, "acme")
    with (folder / "backstory.yaml").open("a", encoding="utf-8") as settings:
        settings.write("windows: {unit: messages, size: 6, overlap: 2}\nrag: {top_k: 3}\n")
    (folder / "chats").mkdir()
    (folder / "chats" / "garden.txt").write_text(CHAT, encoding="utf-8")
    (folder / ".backstory").mkdir()
    secret = folder / ".backstory" / "secret.key"
    secret.write_text(f"{SECRET}\n", encoding="ascii")
    secret.chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def expected_of_chats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_chats(tmp_path_factory.mktemp("made"))
    with Library.open(folder) as library:
        assert library.index(chats=True).success
    return describe(folder)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_process_that_is_killed_while_it_reads_chats_is_followed_by_one_that_completes_all_tables(
    seed: int,
    root: Path,
    hook: Hook,
    start_jobs: Callable[[], tuple[IndexJobs, JobProcesses]],
    expected_of_chats: dict[str, Any],
) -> None:
    folder = write_chats(root)
    # It touches the disk some 480 times, and begins with the chats after 190 of them.
    hook.set("kill", random.Random(seed).randrange(200, 450))
    jobs, _ = start_jobs()
    job = jobs.submit("acme", WHO)
    jobs.wait("acme")
    ended = jobs.store("acme").read(job.job_id)
    assert hook.has_acted
    assert (ended.state, ended.attempts) == ("COMPLETED", 2)
    assert describe(folder) == expected_of_chats


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_job_of_a_killed_service_is_completed_by_the_next_one(
    seed: int,
    root: Path,
    hook: Hook,
    start_jobs: Callable[[], tuple[IndexJobs, JobProcesses]],
    expected: dict[str, Any],
) -> None:
    folder = write_tenant(root, "acme", more=PAGES)
    store = JobStore(open_own_state(folder))
    job = store.request(WHO)
    hook.set("kill the service", draw_moment(seed))
    command = ["-m", "tests.interfaces.service.tenant_folders", str(root), "processes"]
    assert run_python(command, cwd=PROJECT).returncode == -signal.SIGKILL
    # The process of the job stops at its next step, at any moment of the next service.
    jobs, _ = start_jobs()
    jobs.wait("acme")
    assert store.read(job.job_id).state == "COMPLETED"
    assert describe(folder) == expected


def test_a_job_is_cancelled_and_the_next_one_goes_on(
    root: Path,
    hook: Hook,
    start_jobs: Callable[[], tuple[IndexJobs, JobProcesses]],
    expected: dict[str, Any],
) -> None:
    folder = write_tenant(root, "acme", more=PAGES)
    hook.set("wait", draw_moment(1))
    jobs, _ = start_jobs()
    job = jobs.submit("acme", WHO)
    hook.wait()
    running = jobs.store("acme").read(job.job_id)
    jobs.cancel("acme", job.job_id)
    hook.release()
    assert (running.state, running.attempts) == ("PROCESSING", 1)
    jobs.wait("acme")
    assert jobs.store("acme").read(job.job_id).state == "CANCELLED"
    following = jobs.submit("acme", WHO)
    jobs.wait("acme")
    assert jobs.store("acme").read(following.job_id).state == "COMPLETED"
    assert describe(folder) == expected


def test_a_service_that_ends_leaves_its_job_to_the_next_one_and_shows_no_key_to_other_processes(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ANSWER_KEY_VARIABLE, "key-of-the-operator")
    keys = KeyRing(Accounts(open_accounts(tmp_path)).state, tmp_path / "config" / "service.key")
    tenants = Tenants(tmp_path, keys, memory_bytes=1 << 30)
    folder = write_tenant(tmp_path / "tenants", "acme", more=PAGES)
    keys.seal("acme", ANSWER_KEY_VARIABLE, SecretStr("key-of-the-tenant"))
    hook.set("wait", draw_moment(2))
    processes = JobProcesses()
    jobs = IndexJobs(tenants, processes=processes)
    jobs.start()
    job = jobs.submit("acme", WHO)
    process = Path("/proc", str(hook.wait()))
    shown = b"".join((process / name).read_bytes() for name in ("cmdline", "environ") if process.exists())
    processes.end()
    hook.release()
    jobs.close()
    assert b"key-of-the-tenant" not in shown
    left = JobStore(open_own_state(folder)).read(job.job_id)
    assert (left.state, left.attempts) == ("PENDING", 0)
    # What is open in the service's own process is nothing.
    assert tenants.open_names == ()


def test_a_tenant_that_cannot_be_opened_fails_its_job(
    root: Path, start_jobs: Callable[[], tuple[IndexJobs, JobProcesses]]
) -> None:
    folder = write_tenant(root, "acme")
    (folder / "backstory.yaml").write_text("embeding: {provider: hashing}\n")
    jobs, _ = start_jobs()
    job = jobs.submit("acme", WHO)
    jobs.wait("acme")
    failed = jobs.store("acme").read(job.job_id)
    assert (failed.state, failed.failure_code) == ("FAILED", "unknown_setting")
    assert str(root) not in str(failed.failure)


def test_what_indexes_in_a_service_has_a_job_do_it_and_reports_each_file(tmp_path: Path) -> None:
    accounts = Accounts(open_accounts(tmp_path))
    keys = KeyRing(accounts.state, tmp_path / "config" / "service.key")
    tenants = Tenants(tmp_path, keys, memory_bytes=1 << 30)
    folder = write_tenant(tmp_path / "tenants", "acme")
    service = Service(accounts, tenants, IndexJobs(tenants, processes=JobProcesses()))
    service.jobs.start()
    with tenants.entering("acme") as library:
        report = library.index()
        assert (report.indexed, report.documents, report.failures) == (6, 6, ())
        (folder / "posts" / "lamp.md").write_text("# Lamp\n\nThe lamp is old.\n")
        report = library.index()
        assert (report.indexed, report.unchanged) == (1, 6)
        assert {file.path for file in report.files} == {"posts/lamp.md"}
        assert library.search("lamp").hits
    jobs, _ = service.jobs.store("acme").list_jobs(10)
    assert [(job.state, job.requested_by) for job in jobs] == [("COMPLETED", LIBRARY)] * 2
    with tenants.entering("acme") as library:
        tenants.quotas.set("acme", 1)
        assert library.index().failures
    service.close()
