"""Every service in common terms, each behind a loopback server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from pydantic import SecretStr

from backstory.models.usage import CallMeter
from tests.models.services import chat_server, embedding_answers, gemini_server

Behaviour = Callable[[Any], Any]


@dataclass(frozen=True)
class Sent:
    """What a service received in one call of a chat model."""

    path: str
    key: str | None
    system: str
    user: str
    schema: Mapping[str, Any]
    temperature: float | None
    most_tokens: int


class _Loopback:
    """A loopback server of one kind of service, and how to reach it."""

    def __init__(self, server: Any, open_service: Callable[..., Any], key: str) -> None:
        self.server = server
        self.key = key
        self._open_service = open_service

    def open(self, settings: Any, meter: CallMeter = CallMeter()) -> Any:  # noqa: B008 - immutable
        """Make a client that calls the server with the key."""
        return self._open_service(settings, key=SecretStr(self.key), meter=meter)

    @property
    def url(self) -> str:
        """Address of the API."""
        return str(self.server.url)

    @property
    def requests(self) -> list[Any]:
        """What the server received."""
        return list(self.server.requests)

    def play(self, *script: Behaviour, always: Behaviour | None = None) -> None:
        """Set what the server does with the next calls, and with those after them."""
        self.server.script.extend(script)
        if always is not None:
            self.server.always = always

    def stay_silent(self, request: Any) -> Any:
        """Answer nothing until the test is over."""
        return self.server.stay_silent(request)


class GeminiService(_Loopback):
    """The Gemini API."""

    name: ClassVar[str] = "gemini"
    path: ClassVar[str] = "/models/tiny:generateContent"
    answered_by: ClassVar[str] = "tiny"  # the server names no version
    used: ClassVar[tuple[int, int]] = (
        gemini_server.SENT_TOKENS,
        gemini_server.WRITTEN_TOKENS + gemini_server.THOUGHT_TOKENS,
    )

    def read(self, request: gemini_server.Request) -> Sent:
        """Read a call of a chat model."""
        body, generation = request.body, request.body["generationConfig"]
        assert generation["responseMimeType"] == "application/json"
        return Sent(
            request.path,
            request.headers.get("x-goog-api-key"),
            body["systemInstruction"]["parts"][0]["text"],
            body["contents"][0]["parts"][0]["text"],
            generation["responseJsonSchema"],
            generation.get("temperature"),
            generation["maxOutputTokens"],
        )

    def say(self, text: str | None) -> Behaviour:
        """Answer with a text."""
        return lambda _: gemini_server.answer_text(text)

    def cut(self) -> tuple[Behaviour, str]:
        """Answer with half a text, and give the reason that the service states."""
        return (lambda _: gemini_server.answer_text('{"half', "MAX_TOKENS")), "cut (MAX_TOKENS)"

    def block(self) -> list[tuple[Behaviour, str]]:
        """Withhold an answer, in each way of the service, and give the reasons that it states."""
        return [
            (gemini_server.block("SAFETY"), "blocked (SAFETY)"),
            (gemini_server.block("PROHIBITED_CONTENT"), "blocked (PROHIBITED_CONTENT)"),
            (lambda _: gemini_server.answer_text(None, "SAFETY"), "blocked (SAFETY)"),
            (lambda _: gemini_server.answer_text("{}", "RECITATION"), "blocked (RECITATION)"),
            (lambda _: gemini_server.answer_text(None, "MAX_TOKENS"), "cut (MAX_TOKENS)"),
        ]

    def embed(self) -> Behaviour:
        """Answer with vectors."""
        return gemini_server.succeed

    def fail(
        self, status: int, message: str = "it failed", headers: Mapping[str, str] | None = None
    ) -> Behaviour:
        return gemini_server.fail(status, message, headers=headers)

    def exhaust(self) -> list[Behaviour]:
        """Refuse because a quota is used up, in each way of the service."""
        return [
            gemini_server.exceed("RequestsPerDayPerProjectPerModel-FreeTier"),
            gemini_server.exceed("RequestsPerDayPerProjectPerModel-FreeTier", delay="12s"),
        ]

    def send(self, status: int, body: bytes) -> Behaviour:
        """Answer with a body."""
        return gemini_server.send(status, body)


class OpenAIService(_Loopback):
    """A server with OpenAI's API, with the attributes of :class:`GeminiService`."""

    name: ClassVar[str] = "openai"
    path: ClassVar[str] = "/v1/chat/completions"
    answered_by: ClassVar[str] = "tiny-2026"
    used: ClassVar[tuple[int, int]] = (120, 30)

    def read(self, request: chat_server.ChatRequest) -> Sent:
        body = request.body
        system, user = body["messages"]
        assert (system["role"], user["role"], body["model"]) == ("system", "user", "tiny")
        assert body.get("temperature", 0) is not None  # some models refuse null
        form = body["response_format"]
        assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
        key = request.headers.get("authorization")
        return Sent(
            request.path,
            key.removeprefix("Bearer ") if key else None,
            system["content"],
            user["content"],
            form["json_schema"]["schema"],
            body.get("temperature"),
            body["max_tokens"],
        )

    def say(self, text: str | None) -> Behaviour:
        return chat_server.complete(text)

    def cut(self) -> tuple[Behaviour, str]:
        return chat_server.complete('{"half', finish="length"), "cut (length)"

    def block(self) -> list[tuple[Behaviour, str]]:
        return [
            (chat_server.complete(None, finish="content_filter"), "blocked (content_filter)"),
            (chat_server.complete("{}", finish="content_filter"), "blocked (content_filter)"),
            (chat_server.complete("{}", finish="x" * 50), f"blocked ({'x' * 40})"),
        ]

    def embed(self) -> Behaviour:
        return embedding_answers.embed

    def fail(
        self, status: int, message: str = "it failed", headers: Mapping[str, str] | None = None
    ) -> Behaviour:
        return chat_server.refuse(status, message, headers=headers)

    def exhaust(self) -> list[Behaviour]:
        return [
            chat_server.refuse(402, "no credit"),
            chat_server.refuse(429, "no credit", "insufficient_quota"),
        ]

    def send(self, status: int, body: bytes) -> Behaviour:
        return chat_server.send(status, body)


Service: TypeAlias = GeminiService | OpenAIService
