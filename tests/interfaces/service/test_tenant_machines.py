"""Tenants that several machines serve, one of which may die."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from backstory.base.files.atomic import lock
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.job_process import JobProcesses
from backstory.interfaces.service.opening import ServiceFolder
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.tenant_places import RECORD
from backstory.settings.paths import init_workspace
from tests.interfaces.service.running import running
from tests.interfaces.service.several_machines import (
    MARK,
    WHO,
    Machines,
    make_tenant,
    search,
    share_inputs,
    write_document,
)
from tests.started_python import StartedPython
from tests.world import describe


def test_a_tenant_goes_on_on_another_machine(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    share_inputs(*(make_tenant(each) for each in (one, two)))
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "editor")
    tokens = {"anna": one.accounts.make_token("anna")}
    # The first machine takes requests, and the second one works on their jobs.
    here = Service(one.accounts, one.tenants, IndexJobs(one.tenants, threads=0))
    there = Service(two.accounts, two.tenants, IndexJobs(two.tenants))
    with (
        running(here, tokens) as first,
        running(there, tokens) as second,
        first.client("anna") as asking_one,
        second.client("anna") as asking_two,
    ):
        for name in ("frost", "bread"):
            text = f"# The {name} of {MARK}\n\nThe {MARK} says that {name} comes in the night.\n"
            files = {"files": (f"{name}.md", text.encode())}
            requested = (
                asking_one.post("/api/documents", files=files).raise_for_status().json()["job"]["job_id"]
            )
            there.jobs.adopt()
            there.jobs.wait("garden")
            job = asking_one.get(f"/api/jobs/{requested}").raise_for_status().json()
            assert job["state"] == "COMPLETED"
        listed = asking_two.get("/api/documents").raise_for_status().json()["documents"]
        assert [(file["uri"], file["state"]) for file in listed] == [
            ("uploads/bread.md", "read"),
            ("uploads/frost.md", "read"),
        ]
        question = {"question": f"What does the {MARK} say?"}
        asked = asking_two.post("/api/chat/message", json=question).raise_for_status().json()
        going_on = {"question": "And of bread?", "conversation_id": asked["conversation_id"]}
        one.tenants.close()  # it looks at the store again
        again = asking_one.post("/api/chat/message", json=going_on).raise_for_status().json()
        assert (asked["turn"], again["turn"]) == (1, 2)
        caller = one.accounts.authenticate(tokens["anna"])
        assert caller is not None
        two.accounts.revoke_token(caller.token_id)
        assert [client.get("/api/jobs").status_code for client in (asking_one, asking_two)] == [401, 401]


def test_a_job_that_two_machines_request_runs_on_one(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines.open("one"), machines.open("two")
    for each in (one, two):
        make_tenant(each)
    write_document(one.tenants.folder("garden"))
    begun, may_go = threading.Event(), threading.Event()
    passes: list[str] = []
    act = Library.index

    def wait(self: Library, *arguments: Any, **named: Any) -> Any:
        passes.append(self.workspace.root.parents[2].name)
        begun.set()
        assert may_go.wait(600)
        return act(self, *arguments, **named)

    monkeypatch.setattr(Library, "index", wait)
    here, there = IndexJobs(one.tenants), IndexJobs(two.tenants)
    for jobs in (here, there):
        jobs.start()
    job = here.submit("garden", WHO)
    assert begun.wait(600)
    assert there.submit("garden", WHO).job_id == job.job_id
    there.adopt()
    there.wait("garden")
    assert passes == ["one"]
    may_go.set()
    here.wait("garden")
    # The second request came while it was under way.
    assert passes == ["one", "one"]
    ended = there.store("garden").read(job.job_id)
    assert (ended.state, ended.attempts) == ("COMPLETED", 1)
    for jobs in (here, there):
        jobs.close()


def test_a_job_of_a_machine_that_died_is_taken_over(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    share_inputs(*(make_tenant(each) for each in (one, two)))
    write_document(one.tenants.folder("garden"))
    dead = IndexJobs(one.tenants, threads=0)
    job = dead.submit("garden", WHO)
    turn = dead.store("garden").take()
    assert turn is not None
    jobs = IndexJobs(two.tenants)
    jobs.start()
    jobs.adopt()
    jobs.wait("garden")
    jobs.close()
    # What the first one records, if it wakes up late, changes nothing.
    assert not dead.store("garden").advance(turn, percent=1, step="late", done=0, total=1, file=None)
    dead.store("garden").fail(turn, "internal", "late")
    ended = dead.store("garden").read(job.job_id)
    assert (ended.state, ended.attempts, ended.counts["documents"]) == ("COMPLETED", 2, 1)


def test_the_process_of_a_job_is_in_its_tenant_after_the_service_was_killed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    one = machines.open("one")
    folder = make_tenant(one)
    store = IndexJobs(one.tenants, threads=0).store("garden")
    store.request(WHO)
    turn = store.take()
    assert turn is not None
    tenant_id = (folder / RECORD).read_text()
    begun, may_go = threading.Event(), threading.Event()

    def wait(_method: str, _path: str) -> None:
        begun.set()
        assert may_go.wait(600)

    machines.bucket.fault = wait
    held, other = (os.open(folder, os.O_RDONLY) for _ in range(2))
    lock(held, shared=True)
    processes = JobProcesses(one.accounts.state)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(processes.run, folder, store.state.address, None, None, held, turn)
        assert begun.wait(600)
        os.close(held)  # as the end of the service does, which has no lock here
        assert not lock(other, wait=False)
        assert one.accounts.state.find_holder(f"tenant {tenant_id}") == "the service"
        processes.end()
        may_go.set()
        running.result()
    assert lock(other, wait=False)
    assert one.accounts.state.find_holder(f"tenant {tenant_id}") is None
    os.close(other)


@contextmanager
def serving(opened: ServiceFolder) -> Iterator[tuple[StartedPython, str]]:
    """Serve the folder of a machine in a process of its own, and yield it with its address."""
    root = opened.tenants.root
    words = ["--root", str(root), "--key-file", str(root.with_name("service.key")), "--port", "0"]
    command = ["-c", "from backstory.interfaces.cli.app import main; main()", "serve", *words]
    process = StartedPython(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        yield process, process.stderr.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


def list_children(process: int) -> list[int]:
    """List the processes that a process has started."""
    found = (path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children"))
    return [int(number) for each in found for number in each]


@pytest.mark.long
@pytest.mark.parametrize("holding", ["/document_chunks/", "manifest.json"])
def test_a_machine_that_is_killed_amid_a_job_is_followed_by_another(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holding: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    one, two = machines.open("one"), machines.open("two")
    alone = init_workspace(tmp_path / "alone")
    (alone / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    folders = [make_tenant(each) for each in (one, two)]
    share_inputs(*folders)
    for folder in (folders[0], alone):
        for number in range(20):
            write_document(folder, f"frost-{number}")
    with Library.open(alone) as library:
        assert library.index().success
    expected = describe(alone)
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "editor")
    headers = {"Authorization": f"Bearer {one.accounts.make_token('anna')}"}
    with serving(one) as (process, address):
        killed = threading.Event()

        def kill(method: str, path: str) -> Literal["cut"] | None:
            if method == "PUT" and holding in path and not killed.is_set():
                killed.set()
                for number in (process.pid, *list_children(process.pid)):
                    os.kill(number, signal.SIGKILL)
                return "cut"
            return None

        machines.bucket.fault = kill
        with httpx2.Client(headers=headers, timeout=600) as client:
            job = client.post(f"{address}/api/index").raise_for_status().json()["job_id"]
        assert process.wait(600) == -signal.SIGKILL
    jobs = IndexJobs(two.tenants)
    jobs.start()
    store = jobs.store("garden")
    while store.current() is not None:
        jobs.adopt()
        jobs.wait("garden")
    jobs.close()
    ended = store.read(job)
    assert (ended.state, ended.attempts, ended.counts["documents"]) == ("COMPLETED", 2, 20)
    assert describe(two.tenants.folder("garden")) == expected
    assert len(search(one)) == len(search(two)) > 0
