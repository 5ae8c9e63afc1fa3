"""Index jobs over the wire."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.service import Service, ServiceLimits
from backstory.interfaces.service.tenants import Tenants
from tests.interfaces.service.running import QUESTION, Running, running, write_service

LIMITS = ServiceLimits(requests_per_minute=100_000, requests_at_once=10_000)


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    with running(service, tokens) as started:
        yield started


def write_pages(folder: Path, count: int) -> None:
    for number in range(count):
        text = f"# Page {number}\n\nThe page {number} is about lamp {number % 7}.\n"
        (folder / "posts" / f"page-{number:04}.md").write_text(text)


def test_twenty_requests_at_once_are_one_job_and_questions_are_answered_meanwhile(
    served: Running, may_go_on: threading.Event
) -> None:
    write_pages(served.service.tenants.folder("garden"), 20)

    def request(_: int) -> tuple[int, str, int]:
        with served.client("dora", "garden") as client:
            answer = client.post("/api/index")
            asked = client.post("/api/chat/message", json={"question": QUESTION})
            return answer.status_code, answer.json()["job_id"], asked.status_code

    with ThreadPoolExecutor(20) as threads:
        answers = set(threads.map(request, range(20)))
    [(status, job_id, asked)] = answers
    assert (status, asked) == (202, 200)
    may_go_on.set()
    served.service.jobs.wait("garden")
    with served.client("ben") as reader:
        jobs = reader.get("/api/jobs").json()
        assert (jobs["count"], jobs["jobs"][0]["job_id"], jobs["jobs"][0]["state"]) == (
            1,
            job_id,
            "COMPLETED",
        )
        assert jobs["jobs"][0]["counts"]["documents"] == 26
        assert reader.get(f"/api/jobs/{job_id}").json() == jobs["jobs"][0]


def test_a_job_is_cancelled_by_an_editor_and_the_next_one_completes_it(
    served: Running, may_go_on: threading.Event
) -> None:
    write_pages(served.service.tenants.folder("garden"), 20)
    with served.client("dora", "garden") as editor, served.client("ben") as reader:
        job = editor.post("/api/index").json()
        assert reader.post(f"/api/jobs/{job['job_id']}/cancel").status_code == 403
        cancelled = editor.post(f"/api/jobs/{job['job_id']}/cancel")
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "CANCELLED")
        may_go_on.set()
        again = editor.post(f"/api/jobs/{job['job_id']}/cancel")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "job_ended")
        following = editor.post("/api/index").json()
        assert following["job_id"] != job["job_id"]
        served.service.jobs.wait("garden")
        ended = reader.get(f"/api/jobs/{following['job_id']}").json()
        assert (ended["state"], ended["counts"]["documents"]) == ("COMPLETED", 26)


def test_the_jobs_of_a_tenant_are_unknown_to_another(served: Running) -> None:
    with served.client("ada") as owner, served.client("cleo") as other:
        job = owner.post("/api/index").json()
        assert other.get("/api/jobs").json()["count"] == 0
        for answer in (other.get(f"/api/jobs/{job['job_id']}"), owner.get("/api/jobs/nothing")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_job")
        served.service.jobs.wait("garden")


def test_a_service_that_ends_leaves_its_job_to_the_next(indexed_once: Library, service_root: Path) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    write_pages(service.tenants.folder("garden"), 100)
    with running(service, tokens) as started, started.client("ada") as owner:
        job = owner.post("/api/index").json()
    left = service.jobs.store("garden").read(job["job_id"])
    assert left.state in ("PENDING", "COMPLETED")
    tenants = Tenants(service_root, service.tenants.keys, memory_bytes=1 << 30)
    following = Service(service.accounts, tenants, IndexJobs(tenants), LIMITS)
    with running(following, tokens) as started, started.client("ada") as owner:
        assert owner.get("/healthz").status_code == 200  # so that it has begun
        following.jobs.wait("garden")
        ended = owner.get(f"/api/jobs/{job['job_id']}").json()
    assert (ended["state"], ended["counts"]["documents"]) == ("COMPLETED", 106)


def test_a_damaged_list_of_jobs_keeps_no_other_tenant_from_being_served(
    indexed_once: Library, service_root: Path
) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    store = service.tenants.folder("garden") / ".backstory"
    (store / "state.sqlite").write_bytes(b"no database" * 1_000)
    with running(service, tokens) as started:
        told = {}
        for user in ("cleo", "ben"):
            with started.client(user) as client:
                told[user] = client.get("/api/jobs").json()
    assert told["cleo"] == {"jobs": [], "count": 0}
    assert told["ben"]["error"]["code"] == "internal"
