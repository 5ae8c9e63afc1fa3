"""What every reranker provides, whatever model stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Candidate:
    """One stored chunk that may be given to a window.

    Attributes:
        chunk_id: Id of the chunk.
        title: Title of its document.
        text: Text of the chunk, cut to the settings' budget.
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
        query: Text of the window, cut to the settings' budget.
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
        note: None, or why the order is still that of the request, such as ``blocked (SAFETY)``.
    """

    chunk_ids: tuple[str, ...]
    note: str | None = None


class Reranker(Protocol):
    """Puts candidates into the order in which they help to write about a window."""

    @property
    def id(self) -> str:
        """Name of provider and model, and of everything else that the order depends on."""
        ...

    @property
    def api_calls(self) -> int:
        """Requests sent to a service so far, repeated ones included; 0 for a model that runs here."""
        ...

    def rerank(self, requests: Sequence[RerankRequest]) -> list[RerankResult]:
        """Order the candidates of any number of windows.

        Args:
            requests: The windows.

        Returns:
            One result per request, in their order. An answer that a provider withholds or cuts keeps the order
            of the request and says so; it is no error.

        Raises:
            ModelError: The model could not be used, or gave no usable answer.
        """
        ...


def restore_candidates(given: Sequence[str], answered: Sequence[str]) -> tuple[str, ...]:
    """Make an order of all candidates from what a model answered.

    Args:
        given: Ids in the old order, each once.
        answered: Ids in the order of the answer; any of them may be unknown, repeated or missing.

    Returns:
        The known ids of the answer in its order, each once, then the missing ones in their old order.
    """
    known = set(given)
    named = dict.fromkeys(chunk_id for chunk_id in answered if chunk_id in known)
    return tuple(dict.fromkeys([*named, *given]))
