"""Answers of a service with OpenAI's embeddings API, for :class:`tests.models.services.chat_server.ChatServer`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.models.services.chat_server import ChatBehaviour, ChatReply, ChatRequest, refuse
from tests.models.services.gemini_server import vector_of

OWN_WIDTH = 24
"""Width of the vectors where a request names none."""


def vectors_of(request: ChatRequest) -> list[Any]:
    width = request.body.get("dimensions", OWN_WIDTH)
    return [vector_of(text, width).tolist() for text in request.body["input"]]


def reply(vectors: list[Any], indexes: list[Any] | None = None) -> ChatReply:
    """Answer with vectors; the entries are backwards, since only ``index`` says which text they belong to."""
    numbers = range(len(vectors)) if indexes is None else indexes
    entries = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in zip(numbers, vectors, strict=True)
    ]
    body = {
        "object": "list",
        "data": entries[::-1],
        "model": "m",
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }
    return ChatReply(200, json.dumps(body).encode())


def embed(request: ChatRequest) -> ChatReply:
    assert request.path == "/v1/embeddings"
    return reply(vectors_of(request))


def change(alter: Callable[[list[Any]], list[Any]]) -> ChatBehaviour:
    """Answer with vectors that are altered."""
    return lambda request: reply(alter(vectors_of(request)))


def refuse_word(word: str, status: int = 400) -> ChatBehaviour:
    """Refuse every request with a text that holds a word."""

    def behave(request: ChatRequest) -> ChatReply | None:
        if any(word in text for text in request.body["input"]):
            return refuse(status, "invalid input")(request)
        return embed(request)

    return behave


def refuse_many(most: int) -> ChatBehaviour:
    """Refuse every request with more texts than a number."""

    def behave(request: ChatRequest) -> ChatReply | None:
        if len(request.body["input"]) > most:
            return refuse(413, f"batch size > maximum allowed batch size {most}")(request)
        return embed(request)

    return behave
