"""The jobs of a tenant: one at a time, cancelled between files, and completed by the next process after a kill."""

import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import InputError
from backstory.base.progress import announce
from backstory.interfaces.library.job_store import MOST_ATTEMPTS, Job, JobStore, JobTurn
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts, open_own_state
from tests.errors import raises
from tests.interfaces.service.tenant_folders import SETTINGS, open_tenants, write_tenant
from tests.started_python import run_python
from tests.workspaces import copy_made
from tests.world import describe

KILLS = int(os.environ.get("BACKSTORY_KILLS", "1"))
CANCELS = int(os.environ.get("BACKSTORY_CANCELS", "2"))
PAGES = 40
PROJECT = Path(__file__).resolve().parents[3]
WHO = "user-1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tenants").mkdir()
    return tmp_path / "tenants"


@pytest.fixture
def start_jobs(root: Path) -> Iterator[Callable[[], IndexJobs]]:
    """Give a function that starts the worker of the service, as after a restart."""
    started: list[tuple[IndexJobs, Tenants]] = []

    def start() -> IndexJobs:
        tenants = open_tenants(root)
        jobs = IndexJobs(tenants)
        jobs.start()
        started.append((jobs, tenants))
        return jobs

    yield start
    for jobs, tenants in started:
        jobs.close()
        tenants.close()


def edit(folder: Path) -> None:
    """Change, remove and add files of a tenant."""
    posts = folder / "posts"
    (posts / "sourdough.md").write_text("# Sourdough\n\nRye, and a colder kitchen.\n")
    for number in range(0, PAGES, 5):
        (posts / f"page-{number:04}.md").unlink()
        (posts / f"later-{number:04}.md").write_text(
            f"# Later {number}\n\nA later page about moth {number}.\n"
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tenant whose files are indexed, by the library alone."""
    folder = write_tenant(tmp_path_factory.mktemp("made"), "acme", more=PAGES)
    with Library.open(folder) as library:
        assert library.index().success
    return folder


@pytest.fixture(scope="module")
def expected(made: Path) -> dict[str, Any]:
    return describe(made)


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a workspace holds that never had other files than the edited ones."""
    folder = write_tenant(tmp_path_factory.mktemp("edited"), "acme", more=PAGES)
    edit(folder)
    with Library.open(folder) as library:
        assert library.index().success
    return describe(folder)


def finish(jobs: IndexJobs, tenant: str, job: Job) -> Job:
    jobs.wait(tenant)
    return jobs.store(tenant).read(job.job_id)


def test_a_job_indexes_the_files_and_counts_them(root: Path, start_jobs: Callable[[], IndexJobs]) -> None:
    write_tenant(root, "acme")
    jobs = start_jobs()
    job = jobs.submit("acme", WHO)
    assert (job.state, job.percent, job.requested_by) == ("PENDING", 0, WHO)
    ended = finish(jobs, "acme", job)
    assert (ended.state, ended.percent, ended.file, ended.step) == ("COMPLETED", 100, None, None)
    assert ended.started_at is not None
    assert ended.ended_at is not None
    assert {name: ended.counts[name] for name in ("indexed", "unchanged", "failed", "documents")} == {
        "indexed": 6,
        "unchanged": 0,
        "failed": 0,
        "documents": 6,
    }
    again = finish(jobs, "acme", jobs.submit("acme", WHO))
    assert (again.counts["indexed"], again.counts["unchanged"]) == (0, 6)
    assert again.job_id != ended.job_id
    assert [one.job_id for one in jobs.store("acme").list_jobs(10)[0]] == [again.job_id, ended.job_id]


def test_twenty_requests_at_once_are_one_job(
    root: Path, start_jobs: Callable[[], IndexJobs], may_go_on: threading.Event
) -> None:
    write_tenant(root, "acme", more=PAGES)
    jobs = start_jobs()
    barrier = threading.Barrier(20)

    def submit(_: int) -> str:
        barrier.wait()
        return jobs.submit("acme", WHO).job_id

    with ThreadPoolExecutor(20) as threads:
        names = set(threads.map(submit, range(20)))
    assert len(names) == 1
    may_go_on.set()
    jobs.wait("acme")
    found, count = jobs.store("acme").list_jobs(10)
    assert (count, found[0].state, found[0].counts["documents"]) == (1, "COMPLETED", 6 + PAGES)


def test_a_job_that_is_requested_while_it_runs_goes_over_the_files_once_more(root: Path) -> None:
    write_tenant(root, "acme")
    store = JobStore(open_own_state(root / "acme"))
    job = store.request(WHO)
    turn = store.take()
    assert turn is not None
    assert store.request("user-2").job_id == job.job_id
    assert store.complete(turn, {"indexed": 2, "unchanged": 4}) is False
    assert store.read(job.job_id).state == "PENDING"
    turn = store.take()
    assert turn is not None
    assert store.complete(turn, {"indexed": 1, "unchanged": 6})
    ended = store.read(job.job_id)
    assert (ended.state, ended.counts["indexed"], ended.counts["unchanged"]) == ("COMPLETED", 1, 6)


def test_progress_names_the_file_and_never_goes_back(
    root: Path, start_jobs: Callable[[], IndexJobs], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tenant(root, "acme", more=PAGES)
    told: list[dict[str, Any]] = []
    advance = JobStore.advance

    def record(self: JobStore, turn: JobTurn, **place: Any) -> bool:
        told.append(place)
        return advance(self, turn, **place)

    monkeypatch.setattr(JobStore, "advance", record)
    monkeypatch.setattr("backstory.interfaces.service.indexing_pass._SECONDS_BETWEEN_RECORDS", 0.0)
    jobs = start_jobs()
    assert finish(jobs, "acme", jobs.submit("acme", WHO)).state == "COMPLETED"
    read = [one for one in told if one["step"] == "reading documents"]
    assert [one["file"] for one in read][:2] == ["backup-disk.md", "drip-irrigation.md"]
    assert len({one["file"] for one in read}) == read[0]["total"] == 6 + PAGES
    percents = [one["percent"] for one in told]
    assert percents == sorted(percents)
    assert 0 < percents[-1] <= 100
    assert any(one["step"] == "embedding documents" and one["file"] is None for one in told)


def stop_at(number: int, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[dict[str, Any]]:
    """Do something at the given record of progress, before the worker sees whether it is to go on.

    Returns:
        The records, to which those that follow are added.
    """
    advance, seen = JobStore.advance, list[dict[str, Any]]()

    def count(self: JobStore, turn: JobTurn, **place: Any) -> bool:
        seen.append(place)
        if len(seen) == number:
            act()
        return advance(self, turn, **place)

    monkeypatch.setattr("backstory.interfaces.service.indexing_pass._SECONDS_BETWEEN_RECORDS", 0.0)
    monkeypatch.setattr(JobStore, "advance", count)
    return seen


def cancel_current(jobs: IndexJobs) -> Job:
    """Cancel the job that is under way, whether or not its request has been answered."""
    job = jobs.store("acme").current()
    assert job is not None
    return jobs.cancel("acme", job.job_id)


@pytest.fixture(params=["first", "later"])
def begun(request: pytest.FixtureRequest, root: Path, made: Path) -> tuple[Path, dict[str, Any]]:
    """A tenant whose first or later job is to come, and what its workspace holds after that."""
    if request.param == "first":
        expected: dict[str, Any] = request.getfixturevalue("expected")
        return write_tenant(root, "acme", more=PAGES), expected
    folder = copy_made(made, root / "acme").root
    edit(folder)
    edited: dict[str, Any] = request.getfixturevalue("edited")
    return folder, edited


@pytest.mark.parametrize("seed", range(CANCELS))
def test_what_a_cancelled_job_leaves_the_next_one_completes(
    seed: int,
    begun: tuple[Path, dict[str, Any]],
    start_jobs: Callable[[], IndexJobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, expected = begun
    jobs = start_jobs()
    number = random.Random(seed).randrange(1, PAGES + 12)
    cancelled: list[Job] = []
    with monkeypatch.context() as patch:
        records = stop_at(number, patch, lambda: cancelled.append(cancel_current(jobs)))
        job = jobs.submit("acme", WHO)
        jobs.wait("acme")
    assert len(records) == number  # it stopped there
    assert jobs.store("acme").read(job.job_id).state == "CANCELLED"
    assert [one.state for one in cancelled] == ["CANCELLED"]
    assert finish(jobs, "acme", jobs.submit("acme", WHO)).state == "COMPLETED"
    assert describe(folder) == expected


def test_a_job_that_ended_cannot_be_cancelled(root: Path, start_jobs: Callable[[], IndexJobs]) -> None:
    write_tenant(root, "acme")
    jobs = start_jobs()
    job = finish(jobs, "acme", jobs.submit("acme", WHO))
    with raises(InputError, "job_ended"):
        jobs.cancel("acme", job.job_id)
    with raises(InputError, "unknown_job"):
        jobs.cancel("acme", "0" * 32)


def test_a_service_that_ends_leaves_its_job_to_the_next_one(
    root: Path,
    start_jobs: Callable[[], IndexJobs],
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = write_tenant(root, "acme", more=PAGES)
    jobs = start_jobs()
    begun = threading.Event()
    with monkeypatch.context() as patch:
        stop_at(10, patch, begun.set)
        job = jobs.submit("acme", WHO)
        begun.wait()
        jobs.close()
    left = JobStore(open_own_state(folder)).read(job.job_id)
    assert (left.state, left.attempts) == ("PENDING", 0)
    following = start_jobs()
    ended = finish(following, "acme", job)
    assert (ended.state, ended.attempts) == ("COMPLETED", 1)
    assert describe(folder) == expected


def work_in_a_process(root: Path, moment: int) -> subprocess.CompletedProcess[str]:
    return run_python(["-m", "tests.interfaces.service.tenant_folders", str(root), str(moment)])


@pytest.fixture(scope="module")
def touches(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How often the process of a job touches the disk."""
    root = tmp_path_factory.mktemp("touches") / "tenants"
    root.mkdir()
    folder = write_tenant(root, "acme", more=PAGES)
    JobStore(open_own_state(folder)).request(WHO)
    return int(work_in_a_process(root, -1).stdout)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_job_of_a_killed_process_is_completed_by_the_next_process(
    seed: int, root: Path, touches: int, begun: tuple[Path, dict[str, Any]]
) -> None:
    folder, expected = begun
    store = JobStore(open_own_state(folder))
    job = store.request(WHO)
    # The process may have ended before; that is as good a case.
    killed = work_in_a_process(root, random.Random(seed).randrange(20, touches - 10))
    assert killed.returncode in (-signal.SIGKILL, 0)
    if store.current() is None:
        assert store.read(job.job_id).state == "COMPLETED"
    following = work_in_a_process(root, -1)
    assert following.returncode == 0, following.stderr
    ended = store.read(job.job_id)
    assert (ended.state, ended.percent) == ("COMPLETED", 100)
    assert describe(folder) == expected


@pytest.mark.usefixtures("either_storage")
def test_a_job_that_ends_every_process_fails(root: Path) -> None:
    folder = write_tenant(root, "acme")
    store = JobStore(open_own_state(folder))
    job = store.request(WHO)
    for _ in range(MOST_ATTEMPTS):
        store.resume()
        assert store.take() is not None
    assert store.resume() is None
    failed = store.read(job.job_id)
    assert (failed.state, failed.failure_code, failed.attempts) == ("FAILED", "killed", MOST_ATTEMPTS)


@pytest.mark.usefixtures("either_storage")
def test_what_an_earlier_attempt_records_changes_nothing(root: Path) -> None:
    folder = write_tenant(root, "acme")
    store = JobStore(open_own_state(folder))
    job = store.request(WHO)
    former = store.take()
    store.resume()
    turn = store.take()
    assert former is not None
    assert turn is not None
    assert not store.advance(former, percent=50, step="reading documents", done=1, total=2, file="a.md")
    store.put_back(former)
    store.fail(former, "stopped", "the job was stopped")
    assert store.complete(former, {}) is False
    assert (store.read(job.job_id).state, store.read(job.job_id).percent) == ("PROCESSING", 0)
    assert store.complete(turn, {})


def test_an_index_loses_its_last_documents_only_where_that_was_wanted(
    root: Path, start_jobs: Callable[[], IndexJobs]
) -> None:
    folder = write_tenant(root, "acme")
    jobs = start_jobs()
    finish(jobs, "acme", jobs.submit("acme", WHO))
    shutil.rmtree(folder / "posts")
    (folder / "posts").mkdir()
    failed = finish(jobs, "acme", jobs.submit("acme", WHO))
    assert (failed.state, str(root) in str(failed.failure)) == ("FAILED", False)
    removed = finish(jobs, "acme", jobs.submit("acme", WHO, accepts_removals=True))
    assert (removed.state, removed.counts["removed"], removed.counts["documents"]) == ("COMPLETED", 6, 0)
    assert jobs.store("acme").read(failed.job_id).failure is None


@pytest.mark.usefixtures("either_storage")
def test_a_removal_is_carried_out_by_the_next_job_after_its_own_was_cancelled(root: Path) -> None:
    store = JobStore(open_own_state(root))
    cancelled = store.request(WHO, accepts_removals=True)
    store.cancel(cancelled.job_id)
    store.request(WHO)
    turn = store.take()
    assert turn is not None
    assert turn.accepts_removals


def test_an_unexpected_error_fails_its_job_and_no_other(
    root: Path, start_jobs: Callable[[], IndexJobs], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tenant(root, "acme")
    write_tenant(root, "other")
    index = Library.index

    def break_one(self: Library, *arguments: Any, **named: Any) -> Any:
        announce("reading documents", 0, 1)
        if self.workspace.root.name == "acme":
            raise ZeroDivisionError("acme-secret")
        return index(self, *arguments, **named)

    monkeypatch.setattr(Library, "index", break_one)
    jobs = start_jobs()
    failed = finish(jobs, "acme", jobs.submit("acme", WHO))
    assert (failed.state, failed.failure_code) == ("FAILED", "internal")
    assert "acme-secret" not in str(failed.failure)
    assert finish(jobs, "other", jobs.submit("other", WHO)).state == "COMPLETED"


def test_a_tenant_is_removed_in_the_middle_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Accounts(open_accounts(tmp_path / "service")).state
    keys = KeyRing(database, tmp_path / "service.key")
    tenants = Tenants(tmp_path / "service", keys, memory_bytes=1 << 30)
    folder = write_tenant(tmp_path / "service" / "tenants", "acme", more=PAGES)
    jobs = IndexJobs(tenants)
    jobs.start()
    begun, removed = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        # The folder has another name by now; the removal goes on when the job has left it.
        while folder.exists():
            assert not removed.is_set()

    stop_at(20, monkeypatch, wait)
    job = jobs.submit("acme", WHO)
    begun.wait()
    proof = tenants.remove("acme")
    removed.set()
    assert proof.is_complete, proof
    jobs.wait("acme")
    assert not folder.exists()
    with raises(InputError, "unknown_tenant"):
        jobs.submit("acme", WHO)
    with raises(InputError, "unknown_tenant"):
        jobs.cancel("acme", job.job_id)
    assert not folder.exists()
    jobs.close()
    tenants.close()


def test_a_tenant_that_cannot_be_opened_fails_its_job(
    root: Path, start_jobs: Callable[[], IndexJobs]
) -> None:
    folder = write_tenant(root, "acme")
    (folder / "backstory.yaml").write_text("embeding: {provider: hashing}\n")
    jobs = start_jobs()
    failed = finish(jobs, "acme", jobs.submit("acme", WHO))
    assert (failed.state, failed.failure_code) == ("FAILED", "unknown_setting")
    assert str(root) not in str(failed.failure)
    (folder / "backstory.yaml").write_text(SETTINGS)
    assert finish(jobs, "acme", jobs.submit("acme", WHO)).state == "COMPLETED"
