"""The hourly sync of tenants whose sources lie elsewhere; time passes as a value."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.ingest.sources.listing import SYNC_SECONDS
from backstory.ingest.sources.remotes import last_update
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.tenants import Tenants
from backstory.pipeline.workspace import open_workspace
from tests.interfaces.service.tenant_folders import SETTINGS, open_tenants, write_tenant

BEFORE = 1e9


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tenants").mkdir()
    return tmp_path / "tenants"


@pytest.fixture
def tenants(root: Path) -> Iterator[Tenants]:
    tenants = open_tenants(root)
    yield tenants
    tenants.close()


@pytest.fixture
def jobs(tenants: Tenants) -> Iterator[IndexJobs]:
    jobs = IndexJobs(tenants)
    yield jobs
    jobs.close()


def write_far(root: Path, name: str) -> tuple[Path, Path]:
    """Write a tenant with a source elsewhere, and return the page in it and the mirror."""
    far = root.parent / f"far-{name}"
    far.mkdir()
    page = far / "far.md"
    page.write_text("# Far\n\nA page from elsewhere.\n")
    folder = write_tenant(root, name)
    source = f"{{url: 'file://{far}', name: far}}"
    settings = SETTINGS.replace("{folder: posts}", f"{{folder: posts, sources: [{source}]}}")
    (folder / "backstory.yaml").write_text(settings)
    return page, folder / ".backstory" / "mirrors" / "far"


def test_a_source_elsewhere_is_fetched_every_hour(root: Path, jobs: IndexJobs) -> None:
    page, mirror = write_far(root, "acme")
    write_tenant(root, "beta")
    jobs.start()
    assert jobs.request_due(BEFORE) == ["acme"]
    jobs.wait("acme")
    [job], _ = jobs.store("acme").list_jobs(10)
    assert (job.state, job.requested_by, job.counts["indexed"]) == ("COMPLETED", "schedule", 7)
    page.write_text("# Far\n\nA later page from elsewhere, about a lamp.\n")
    tried = last_update(mirror)
    for moment in (tried, tried + SYNC_SECONDS - 1):
        assert jobs.request_due(moment) == []
    assert jobs.request_due(tried + SYNC_SECONDS) == ["acme"]
    jobs.wait("acme")
    [job, _], _ = jobs.store("acme").list_jobs(10)
    assert (job.state, job.counts["indexed"], job.counts["unchanged"]) == ("COMPLETED", 1, 6)
    assert jobs.store("beta").list_jobs(10) == ([], 0)


def write_day(chats: Path, day: int, *said: str) -> None:
    """Write a day of a channel, as a folder that Slack exports holds it."""
    channel = chats / "team" / "general"
    channel.mkdir(parents=True, exist_ok=True)
    (chats / "team" / "users.json").write_text('[{"id": "U1", "name": "ada", "real_name": "Ada Lind"}]')
    (chats / "team" / "channels.json").write_text('[{"id": "C1", "name": "general", "members": ["U1"]}]')
    sent = 1_741_350_000 + (day - 7) * 86_400
    messages = [
        {"type": "message", "user": "U1", "ts": f"{sent + number}.000100", "text": text}
        for number, text in enumerate(said)
    ]
    (channel / f"2025-03-{day:02}.json").write_text(json.dumps(messages), encoding="utf-8")


def receive(chats: Path, number: int) -> None:
    """Put a mail into a mailbox."""
    with (chats / "inbox.mbox").open("a", encoding="utf-8") as mailbox:
        mailbox.write(
            f"From ada@example.org Sat Mar  8 10:00:00 2025\nFrom: Ada <ada@example.org>\nTo: ben@example.org\n"
            f"Subject: Pump\nMessage-ID: <{number}@example.org>\nDate: Sat, 08 Mar 2025 10:00:00 +0000\n\n"
            f"The pump {number} came.\n\n"
        )


def count_rows(root: Path, table: str) -> int:
    tables = open_workspace(root).tables
    return len(tables.read(table))


def test_chats_are_read_by_every_job_and_what_comes_to_them_makes_one_within_an_hour(
    root: Path, jobs: IndexJobs
) -> None:
    folder = write_tenant(root, "acme")
    chats = folder / "chats"
    jobs.start()
    now = time.time()
    assert jobs.request_due(now) == []

    def follow() -> None:
        """Find the job that the changes make, and none after it."""
        nonlocal now
        now += SYNC_SECONDS
        assert jobs.request_due(now) == ["acme"]
        jobs.wait("acme")
        [job], _ = jobs.store("acme").list_jobs(1)
        assert (job.state, job.percent, job.counts["documents"]) == ("COMPLETED", 100, 6), job.failure
        now += SYNC_SECONDS
        assert jobs.request_due(now) == []

    write_day(chats, 7, "The pump is loud.")
    now += SYNC_SECONDS
    assert jobs.request_due(now) == []  # the first job is for a person to request
    jobs.submit("acme", "user-1")
    jobs.wait("acme")
    assert (count_rows(folder, "messages"), count_rows(folder, "windows")) == (1, 1)
    write_day(chats, 8, "The pump is quiet again.")
    follow()
    assert count_rows(folder, "messages") == 2
    for number in (1, 2):
        receive(chats, number)
        follow()
    assert count_rows(folder, "messages") == 4
    assert count_rows(folder, "window_contexts") == count_rows(folder, "windows")
    shutil.rmtree(chats / "team")
    (chats / "inbox.mbox").unlink()
    now += SYNC_SECONDS
    assert jobs.request_due(now) == ["acme"]
    jobs.wait("acme")
    # Messages that are gone stay, the documents are indexed, and the job says which command tells more.
    [job], _ = jobs.store("acme").list_jobs(1)
    assert (job.state, job.failure_code) == ("FAILED", "failed_steps")
    assert "Ada" not in str(job.failure)
    assert count_rows(folder, "messages") == 4


def test_a_fetch_by_another_job_puts_the_next_one_off(root: Path, jobs: IndexJobs) -> None:
    _, mirror = write_far(root, "acme")
    jobs.start()
    jobs.submit("acme", "user-1")
    jobs.wait("acme")
    assert jobs.request_due(last_update(mirror) + 60) == []
    assert jobs.request_due(last_update(mirror) + SYNC_SECONDS) == ["acme"]


def test_an_active_job_is_left_alone_and_one_that_fetches_nothing_comes_again_after_an_hour(
    root: Path, jobs: IndexJobs
) -> None:
    write_far(root, "acme")
    assert jobs.request_due(BEFORE) == ["acme"]
    [job], _ = jobs.store("acme").list_jobs(10)
    assert jobs.request_due(BEFORE + SYNC_SECONDS) == []
    assert jobs.store("acme").list_jobs(10) == ([job], 1)
    jobs.cancel("acme", job.job_id)
    assert jobs.request_due(BEFORE + SYNC_SECONDS + 60) == []
    assert jobs.request_due(BEFORE + 2 * SYNC_SECONDS) == ["acme"]


def test_a_tenant_whose_settings_are_invalid_holds_up_no_other(root: Path, jobs: IndexJobs) -> None:
    write_far(root, "acme")
    write_far(root, "beta")
    (root / "acme" / "backstory.yaml").write_text("nonsense: 1\n")
    assert jobs.request_due(BEFORE) == ["beta"]
    shutil.rmtree(root / "beta")
    assert jobs.request_due(BEFORE + SYNC_SECONDS) == []


def test_a_thread_looks_by_the_clock(root: Path, tenants: Tenants) -> None:
    write_far(root, "acme")
    asked = threading.Event()

    def clock() -> float:
        asked.set()
        return BEFORE

    jobs = IndexJobs(tenants, threads=0, clock=clock)
    jobs.start()
    assert asked.wait(600)
    jobs.close()
    job = jobs.store("acme").current()
    assert job is not None
    assert job.requested_by == "schedule"
