"""Select the best results of each document."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from backstory.base.errors import InputError
from backstory.base.telemetry import log_event

logger = logging.getLogger(__name__)


def deduplicate_by_document(results: Iterable[Mapping[str, Any]], n: int = 1) -> list[dict[str, Any]]:
    """Return the ``n`` best results of each document.

    Args:
        results: Results with ``document_id`` and ``similarity``. A missing similarity counts as 0. A result without
            a document is dropped.
        n: Number of results per document.

    Returns:
        Copies of these results: documents in the order of their first appearance, and the results of each by
        falling similarity, equal ones in the given order.

    Raises:
        InputError: ``n`` is below 1.
    """
    if n < 1:
        raise InputError(f"n is {n}; it must be at least 1 result per document", code="out_of_range")
    by_document: dict[Any, list[dict[str, Any]]] = {}
    count = 0
    for result in results:
        count += 1
        if result.get("document_id"):
            by_document.setdefault(result["document_id"], []).append(dict(result))
    best = [
        result
        for group in by_document.values()
        for result in sorted(group, key=lambda row: -float(row.get("similarity") or 0.0))[:n]
    ]
    log_event(
        logger,
        "deduplicated",
        level=logging.DEBUG,
        results=count,
        kept=len(best),
        documents=len(by_document),
        n=n,
    )
    return best
