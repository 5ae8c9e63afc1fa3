"""A loopback server that answers like an OpenAI-compatible service, or fails as it is told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.loopback import Received, listen

TEXT = "The greenhouse was watered, and the door of it was left open, as in the year before."


@dataclass(frozen=True)
class ChatRequest:
    """What the server received."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def user(self) -> str:
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True)
class ChatReply:
    """What the server sends back."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


ChatBehaviour = Callable[[ChatRequest], ChatReply | None]


def complete(
    content: str | None, *, finish: str | None = "stop", refusal: str | None = None
) -> ChatBehaviour:
    """Answer like a model that wrote a text, or nothing, and stopped for a reason."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    body = {
        "model": "tiny-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30},
    }
    return lambda _: ChatReply(200, json.dumps(body).encode())


def post(text: str = TEXT, title: str = "Greenhouse", tags: tuple[str, ...] = ("garden",)) -> ChatBehaviour:
    """Answer like a model that wrote a post."""
    return complete(json.dumps({"title": title, "text": text, "tags": list(tags)}))


def refuse(
    status: int, message: str = "it failed", code: str = "", headers: Mapping[str, str] | None = None
) -> ChatBehaviour:
    body = json.dumps({"error": {"message": message, "code": code, "type": "error"}}).encode()
    return lambda _: ChatReply(status, body, headers or {})


def send(status: int, body: bytes) -> ChatBehaviour:
    return lambda _: ChatReply(status, body)


def drop(_: ChatRequest) -> ChatReply | None:
    """Close the connection without an answer."""
    return None


class ChatServer:
    """Plays a script of behaviours, one for each request, and behaves as always when the script is over."""

    def __init__(self, url: str, silence: threading.Event) -> None:
        self.url = url
        self._silence = silence
        self.requests: list[ChatRequest] = []
        self.script: deque[ChatBehaviour] = deque()
        self.always: ChatBehaviour = post()
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def stay_silent(self, _: ChatRequest) -> ChatReply | None:
        """Answer nothing until the test is over."""
        self._silence.wait()
        return None

    def answer(self, request: ChatRequest) -> ChatReply | None:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            behaviour = self.script.popleft() if self.script else self.always
        try:
            return behaviour(request)
        finally:
            with self._lock:
                self._now -= 1


@contextmanager
def run_chat_server() -> Iterator[ChatServer]:
    """Run a server on a free port of the loopback interface."""

    def answer(received: Received) -> ChatReply | None:
        headers = {name.lower(): value for name, value in received.headers.items()}
        return server.answer(ChatRequest(received.path, headers, json.loads(received.body)))

    silence = threading.Event()
    with listen(answer) as url:
        server = ChatServer(f"{url}/v1", silence)
        try:
            yield server
        finally:
            silence.set()


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A server that is reached without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        yield running
