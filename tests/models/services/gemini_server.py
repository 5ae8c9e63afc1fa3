"""A loopback server that answers like the Gemini API, or fails as it is told to."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.loopback import Received, listen
from tests.models.rerankers.rerank_requests import rate_later_half

SENT_TOKENS, WRITTEN_TOKENS, THOUGHT_TOKENS = 1000, 40, 60
"""What the server says that every ``generateContent`` call used."""


@dataclass(frozen=True)
class Request:
    """What the server received: one call, such as ``batchEmbedContents`` or ``generateContent``."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(self.body["requests"])

    @property
    def texts(self) -> list[str]:
        return [entry["content"]["parts"][0]["text"] for entry in self.entries]

    @property
    def prompt(self) -> dict[str, Any]:
        """Give the data of a ``generateContent`` call, which is sent as JSON."""
        data: dict[str, Any] = json.loads(self.body["contents"][0]["parts"][0]["text"])
        return data

    @property
    def labels(self) -> list[int]:
        return [document["id"] for document in self.prompt["documents"]]

    @property
    def dimension(self) -> int:
        return int(self.entries[0]["outputDimensionality"])


@dataclass(frozen=True)
class Answer:
    """What the server sends back."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Behaviour = Callable[[Request], Answer | None]


def vector_of(text: str, dimension: int) -> NDArray[np.float64]:
    """Give the server's vector of a text, which is not of length 1."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    vector: NDArray[np.float64] = np.random.default_rng(seed).normal(size=dimension)
    return vector


def answer_vectors(vectors: list[Any]) -> Answer:
    return Answer(200, json.dumps({"embeddings": [{"values": values} for values in vectors]}).encode())


def embed_entry(entry: dict[str, Any]) -> list[float]:
    """Give the server's vector of one entry of a request."""
    text, dimension = entry["content"]["parts"][0]["text"], int(entry["outputDimensionality"])
    return [float(value) for value in vector_of(text, dimension)]


def succeed(request: Request) -> Answer:
    if request.path.endswith(":generateContent"):
        return rate(request)
    return answer_vectors([embed_entry(entry) for entry in request.entries])


def answer_text(text: str | None, finish_reason: str = "STOP") -> Answer:
    """Answer like a model that wrote a text, or nothing at all, and stopped for a reason."""
    content = {"role": "model", "parts": [{"text": text}]} if text is not None else {}
    body = {
        "candidates": [{"content": content, "finishReason": finish_reason, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": SENT_TOKENS,
            "candidatesTokenCount": WRITTEN_TOKENS,
            "thoughtsTokenCount": THOUGHT_TOKENS,
        },
    }
    return Answer(200, json.dumps(body).encode())


def rate(request: Request) -> Answer:
    """Answer like a model that rates the later half of the documents well and the others not at all."""
    return answer_text(json.dumps(rate_later_half(request.prompt)))


def block(reason: str) -> Behaviour:
    """Answer nothing because the prompt was blocked."""
    return send(200, json.dumps({"promptFeedback": {"blockReason": reason}}).encode())


def fail(
    status: int,
    message: str = "it failed",
    *,
    details: list[dict[str, Any]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Behaviour:
    error = {"code": status, "message": message, "status": "FAILED", "details": details or []}
    return lambda _: Answer(status, json.dumps({"error": error}).encode(), headers or {})


def send(status: int, body: bytes) -> Behaviour:
    return lambda _: Answer(status, body)


def truncate(request: Request) -> Answer:
    return Answer(200, succeed(request).body[:-20])


def drop(_: Request) -> Answer | None:
    """Close the connection without an answer."""
    return None


def exceed(quota_id: str, *, delay: str | None = None) -> Behaviour:
    details: list[dict[str, Any]] = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]}
    ]
    if delay:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    return fail(429, "quota exceeded", details=details)


class GeminiServer:
    """Plays a script of behaviours, one for each request, and behaves as always when the script is over."""

    def __init__(self, url: str, silence: threading.Event) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.script: deque[Behaviour] = deque()
        self.always: Behaviour = succeed
        self._silence = silence
        self._lock = threading.Lock()

    def stay_silent(self, _: Request) -> Answer | None:
        """Answer nothing until the test is over."""
        self._silence.wait()
        return None

    def answer(self, request: Request) -> Answer | None:
        with self._lock:
            self.requests.append(request)
            behaviour = self.script.popleft() if self.script else self.always
        return behaviour(request)


@contextmanager
def run_gemini_server() -> Iterator[GeminiServer]:
    """Run a server on a free port of the loopback interface."""
    silence = threading.Event()

    def answer(received: Received) -> Answer | None:
        headers = {name.lower(): value for name, value in received.headers.items()}
        return server.answer(Request(received.path, headers, json.loads(received.body)))

    with listen(answer) as url:
        server = GeminiServer(url, silence)
        try:
            yield server
        finally:
            silence.set()
