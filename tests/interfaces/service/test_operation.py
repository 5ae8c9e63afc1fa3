"""What whoever runs the service sees: health, figures, faults, and an end in the middle of work."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx2
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.running import QUESTION, Running, read_events, running, write_service
from tests.models.services.chat_server import ChatReply, ChatRequest, ChatServer, complete, run_chat_server

MODEL = """\
services: {{mine: {{kind: openai, base_url: '{url}', max_attempts: 1, requests_per_minute: 1000}}}}
answers: {{provider: mine, model: tiny}}
"""
SECRET = "the words of a fault"
PATIENT = ServiceLimits(requests_at_once=1_000)


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, PATIENT)
    with running(service, tokens) as started:
        yield started


class SlowModel:
    """A model that answers when it is told to."""

    def __init__(self, chat: ChatServer) -> None:
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()
        self.url = chat.url
        self.words: str | None = ""
        chat.always = self.answer

    def answer(self, request: ChatRequest) -> ChatReply | None:
        self.is_asked.set()
        assert self.may_answer.wait(600)
        if self.words != "":
            return None if self.words is None else complete(self.words)(request)
        found = re.search(r'<passage id="(p\d+)">\nTitle: Night train', request.user)
        quote = "A seat reservation on the night train to Lisbon."
        cited = {"id": found[1] if found else "p1", "quote": quote}
        claims = [{"text": "It needs a seat reservation.", "citations": [cited], "parts": [1]}]
        return complete(json.dumps({"claims": claims}))(request)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowModel]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as chat:
        slow = SlowModel(chat)
        yield slow
        slow.may_answer.set()


@pytest.fixture
def asking(indexed_once: Library, service_root: Path, model: SlowModel) -> Iterator[Running]:
    """A service whose garden is answered by the model."""
    service, tokens = write_service(service_root, indexed_once.workspace.root, PATIENT)
    settings = service.tenants.folder("garden") / "backstory.yaml"
    settings.write_text(settings.read_text("utf-8") + MODEL.format(url=model.url), "utf-8")
    with running(service, tokens) as started:
        yield started


def stream(client: httpx2.Client) -> AbstractContextManager[httpx2.Response]:
    return client.stream("POST", "/api/chat/stream", json={"question": QUESTION})


def count_kept(served: Running) -> int:
    caller = served.service.accounts.authenticate(served.tokens["ben"])
    assert caller is not None
    return served.service.conversations("garden").list_of(caller.user_id, limit=1)[1]


def test_a_stream_of_a_model_tells_claims_after_they_were_checked(asking: Running, model: SlowModel) -> None:
    model.may_answer.set()
    with asking.client("ben") as client, stream(client) as response:
        events = list(read_events(response))
    names = [name for name, _ in events]
    assert names[:4] == ["routing", "searching", "answering", "answering"]
    assert names.index("tokens") > names.index("answering")
    assert events[-1][1]["answer"]["claims"][0]["supported"] is True


def test_a_client_that_goes_ends_the_work_and_nothing_is_kept(asking: Running, model: SlowModel) -> None:
    with asking.client("ben") as client, stream(client) as response:
        events = read_events(response)
        assert next(events)[0] == "routing"
        assert model.is_asked.wait(600)
        # The connection is closed here, while the model answers.
    with asking.client("ben") as other:
        assert other.get("/healthz").status_code == 200
        model.may_answer.set()
        asking.stop()
    assert count_kept(asking) == 0


def test_the_end_of_the_process_ends_streams_by_an_event(asking: Running, model: SlowModel) -> None:
    with asking.client("ben") as client, stream(client) as response:
        events = read_events(response)
        assert next(events)[0] == "routing"
        assert model.is_asked.wait(600)
        asking.server.should_exit = True
        *_, (name, data) = events
        assert (name, data["error"]["code"], data["status"]) == ("error", "stopping", 503)
        assert data["retry_after"] > 0
        model.may_answer.set()
    asking.stop()
    assert count_kept(asking) == 0


def test_an_answer_that_is_under_way_is_finished_at_the_end(asking: Running, model: SlowModel) -> None:
    answers: list[httpx2.Response] = []

    def ask() -> None:
        with asking.client("ben") as client:
            answers.append(client.post("/api/chat/message", json={"question": QUESTION}))

    asked = threading.Thread(target=ask)
    asked.start()
    assert model.is_asked.wait(600)
    asking.server.should_exit = True
    model.may_answer.set()
    asked.join(600)
    assert [answer.status_code for answer in answers] == [200]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.mark.parametrize(
    ("reply", "code"), [("no JSON", "unusable_answer"), (None, "no_answer")], ids=["words", "nothing"]
)
def test_a_model_that_fails_is_told_with_what_was_found(
    asking: Running, model: SlowModel, reply: str | None, code: str
) -> None:
    model.may_answer.set()
    model.words = reply
    with asking.client("ben") as client:
        failed = client.post("/api/chat/message", json={"question": QUESTION})
        with stream(client) as response:
            *_, (name, data) = read_events(response)
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, code)
    assert int(failed.headers["Retry-After"]) > 0
    assert failed.json()["hits"][0]["title"] == "Night train"
    assert (name, data["status"], data["error"]["code"]) == ("error", 503, code)
    assert model.url not in failed.text
    assert count_kept(asking) == 0


def test_a_fault_shows_nothing_of_the_machine(served: Running, log: pytest.LogCaptureFixture) -> None:
    table = served.service.tenants.folder("garden") / "backstory.yaml"
    table.write_text("nonsense: {", "utf-8")
    with served.client("ben") as client:
        told = client.post("/api/chat/message", json={"question": QUESTION})
        stream = client.post("/api/chat/stream", json={"question": QUESTION})
    for failed in (told, stream):
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, "internal")
        assert failed.json()["error"]["id"] in log.text
        for inner in (str(served.service.root), "backstory.yaml", "Traceback", "nonsense"):
            assert inner not in failed.text
    assert served.tokens["ben"] not in log.text


def test_health_needs_no_token(served: Running) -> None:
    with served.client() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ok"}


def test_figures_name_routes_and_no_one(served: Running) -> None:
    with served.client("ben") as client:
        conversation = client.post("/api/chat/message", json={"question": QUESTION}).json()["conversation_id"]
        client.get(f"/api/conversations/{conversation}")
        client.get("/api/absent/secret-name")
        figures = client.get("/metrics").text
    assert 'route="/api/conversations/{id}",status="200"' in figures
    assert 'method="POST",route="/api/chat/message",status="200"' in figures
    assert "backstory_open_tenants 1.0" in figures
    for name in (conversation, "garden", "ben", "secret-name", served.tokens["ben"]):
        assert name not in figures
