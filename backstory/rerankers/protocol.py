"""The protocol of rerankers, the same for every provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Candidate:
    """One stored chunk that may enter a window's context.

    Attributes:
        chunk_id: Id of the chunk.
        title: Title of its document.
        text: Text of the chunk, cut to ``rerank.text_characters``.
        asked_by: Text of the window's query chunk that found it with the best score.
    """

    chunk_id: str
    title: str
    text: str
    asked_by: str


@dataclass(frozen=True)
class RerankRequest:
    """One window and its candidates.

    Attributes:
        window_id: Id of the window.
        query: Text of the window, cut to ``rerank.query_characters``.
        candidates: In the order of the selection, each chunk once.
    """

    window_id: str
    query: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class RerankResult:
    """The new order of one request's candidates.

    Attributes:
        chunk_ids: Every candidate exactly once.
        note: Why the order is unchanged, such as ``blocked (SAFETY)``; None if the model gave an order.
    """

    chunk_ids: tuple[str, ...]
    note: str | None = None


class Reranker(Protocol):
    """Orders candidates by how much they help to write about a window."""

    @property
    def id(self) -> str:
        """Name of the provider, the model, and everything else that the order depends on."""
        ...

    @property
    def api_calls(self) -> int:
        """Requests sent to a service so far, retries included; 0 for a local model."""
        ...

    def rerank(self, requests: Sequence[RerankRequest]) -> list[RerankResult]:
        """Order the candidates of any number of windows.

        Args:
            requests: One request per window.

        Returns:
            One result per request, in the same order. If a provider blocks or truncates an answer, the result keeps
            the order of the request and has a note; this is no error.

        Raises:
            ModelError: The model could not be used, or gave no usable answer.
        """
        ...


def restore_candidates(given: Sequence[str], answered: Sequence[str]) -> tuple[str, ...]:
    """Complete a model's answer to an order of all candidates.

    Args:
        given: Ids in the old order, each once.
        answered: Ids in the order of the answer; they may be unknown, repeated or incomplete.

    Returns:
        The known ids of the answer in its order, each once, then the missing ids in their old order.
    """
    known = set(given)
    named = dict.fromkeys(chunk_id for chunk_id in answered if chunk_id in known)
    return tuple(dict.fromkeys([*named, *given]))
