"""The service as a process of its own that is told to end: streams end by an event, and jobs go on later."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from backstory.interfaces.library.job_store import JobStore
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from tests.caches import open_own_state
from tests.interfaces.service.running import QUESTION, read_events, write_service
from tests.models.services.chat_server import ChatReply, ChatRequest, complete, run_chat_server
from tests.started_python import StartedPython

PROGRAM = """
import sys
from pathlib import Path
from backstory.interfaces.mcp.http import open_socket
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.job_process import JobProcesses
from backstory.interfaces.service.opening import open_service_folder
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.serving import name_hosts, serve

root = Path(sys.argv[1])
parts = open_service_folder(root, root.with_name("service.key"))
listening = open_socket(0)
port = listening.getsockname()[1]
print(port, flush=True)
seconds = {name: int(value) for name, value in zip(("answer_seconds", "end_seconds"), sys.argv[2:])}
jobs = IndexJobs(parts.tenants, processes=JobProcesses(parts.accounts.state))
service = Service(parts.accounts, parts.tenants, jobs)
serve(service, listening, hosts=name_hosts(port), **seconds)
"""
MODEL = """\
services: {{mine: {{kind: openai, base_url: '{url}', max_attempts: 1, requests_per_minute: 1000}}}}
answers: {{provider: mine, model: tiny}}
"""
EMBEDDING = """\
services: {{mine: {{kind: openai, base_url: '{url}', max_attempts: 1, requests_per_minute: 1000}}}}
embedding: {{provider: mine, model: tiny}}
"""


@contextmanager
def serving(root: Path, *seconds: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve in a process, and yield it with its address."""
    process = StartedPython(["-c", PROGRAM, str(root), *seconds], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        address = f"http://127.0.0.1:{int(process.stdout.readline())}"
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=5)) as client:
            assert client.get(f"{address}/healthz").status_code == 200
        yield process, address
    finally:
        process.kill()
        process.communicate()


def test_the_end_of_a_process_ends_streams_and_leaves_jobs(
    indexed_once: Library, service_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    garden = service.tenants.folder("garden")
    for number in range(200):
        (garden / "posts" / f"more-{number}.md").write_text(f"# More {number}\n\nLamp {number}.\n", "utf-8")
    job = JobStore(open_own_state(garden)).request("somebody")
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(request: ChatRequest) -> ChatReply | None:
        is_asked.set()
        assert may_answer.wait(600)
        found = re.search(r'<passage id="(p\d+)">', request.user)
        claims = [
            {"text": "x", "citations": [{"id": found[1] if found else "p1", "quote": "x"}], "parts": [1]}
        ]
        return complete(json.dumps({"claims": claims}))(request)

    headers = {"Authorization": f"Bearer {tokens['ben']}"}
    with run_chat_server() as chat:
        chat.always = answer
        settings = garden / "backstory.yaml"
        settings.write_text(settings.read_text("utf-8") + MODEL.format(url=chat.url), "utf-8")
        with (
            serving(service_root) as (process, address),
            httpx2.Client(headers=headers, timeout=600) as client,
        ):
            body = {"question": QUESTION}
            with client.stream("POST", f"{address}/api/chat/stream", json=body) as response:
                events = read_events(response)
                assert next(events)[0] == "routing"
                assert is_asked.wait(600)
                process.send_signal(signal.SIGTERM)
                *_, (name, data) = events
                assert (name, data["error"]["code"]) == ("error", "stopping")
            may_answer.set()
            assert process.wait(600) == -signal.SIGTERM
    assert JobStore(open_own_state(garden)).read(job.job_id).state in ("PENDING", "COMPLETED")
    settings.write_text(settings.read_text("utf-8").replace(MODEL.format(url=chat.url), ""), "utf-8")
    service.jobs.start()
    service.jobs.wait("garden")
    service.close()
    assert JobStore(open_own_state(garden)).read(job.job_id).state == "COMPLETED"
    with service.tenants.entering("garden") as library:
        assert library.documents().count == 206
    service.tenants.close()


@pytest.mark.parametrize(("told", "work"), [(signal.SIGINT, "question"), (signal.SIGTERM, "job")])
def test_a_model_that_never_answers_does_not_hold_the_process(
    indexed_once: Library,
    service_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: signal.Signals,
    work: str,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    garden = service.tenants.folder("garden")
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(_: ChatRequest) -> ChatReply | None:
        is_asked.set()
        may_answer.wait(120)
        return None

    def ask() -> None:
        headers = {"Authorization": f"Bearer {tokens['dora']}", "X-Backstory-Tenant": "garden"}
        with httpx2.Client(headers=headers, timeout=600) as client, suppress(httpx2.TransportError):
            if work == "job":
                client.post(f"{address}/api/index")
            else:
                client.post(f"{address}/api/chat/message", json={"question": QUESTION})

    with run_chat_server() as chat:
        chat.always = answer
        settings = garden / "backstory.yaml"
        used = f"embedding: {{{{provider: hashing}}}}\n{MODEL}" if work == "question" else EMBEDDING
        settings.write_text(used.format(url=chat.url), "utf-8")
        with serving(service_root, "1", "1") as (process, address):
            asking = threading.Thread(target=ask)
            asking.start()
            assert is_asked.wait(600)
            process.send_signal(told)
            assert process.wait(600) in (-told, 128 + signal.SIGTERM)
            may_answer.set()
            asking.join()
