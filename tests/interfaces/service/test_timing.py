"""Whether time tells of other tenants: real requests in turns, compared by their ranks. For long runs, with a clock."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.running import Running, running, write_service
from tests.long_tests import LONG_TESTS

pytestmark = pytest.mark.skipif(not LONG_TESTS, reason="a clock needs many requests")

REQUESTS = 400
MOST_DEVIATION = 4.0
"""Standard deviations of the sum of ranks; chance alone exceeds it once in 16,000 comparisons."""
WORDS = ("lamp", "moth", "train", "seat", "disk", "rye", "drip", "hose", "yeast", "ticket")


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    limits = ServiceLimits(requests_per_minute=1_000_000, requests_at_once=100_000)
    service, tokens = write_service(service_root, indexed_once.workspace.root, limits)
    with running(service, tokens) as started:
        yield started


def compare(name: str, ask: dict[str, Callable[[int], object]]) -> float:
    """Time two kinds of requests in turns of random order, print their medians, and return the deviation of ranks."""
    draw = random.Random(7)
    seconds: dict[str, list[float]] = {kind: [] for kind in ask}
    for number in range(REQUESTS):
        for kind in draw.sample(sorted(ask), len(ask)):
            began = time.perf_counter()
            ask[kind](number)
            seconds[kind].append(time.perf_counter() - began)
    first, second = (np.array(seconds[kind]) for kind in sorted(ask))
    ranks = np.concatenate([first, second]).argsort().argsort()[: len(first)]
    deviation = float(
        (ranks.sum() - REQUESTS * (2 * REQUESTS - 1) / 2)
        / np.sqrt(REQUESTS * REQUESTS * (2 * REQUESTS + 1) / 12)
    )
    medians = {kind: round(1000 * statistics.median(taken), 3) for kind, taken in seconds.items()}
    print(json.dumps({"compared": name, "milliseconds": medians, "deviation": round(deviation, 2)}))
    return deviation


@pytest.mark.parametrize("path", ["/api/conversations", "/api/jobs", "/api/documents"])
def test_an_absent_tenant_takes_as_long_as_a_forbidden_one(served: Running, path: str) -> None:
    with served.client("ben") as client:

        def ask(tenant: str) -> None:
            assert client.get(path, headers={"X-Backstory-Tenant": tenant}).status_code == 404

        deviation = compare(
            path, {"absent": lambda _: ask("absentxx"), "forbidden": lambda _: ask("workshop")}
        )
    assert abs(deviation) < MOST_DEVIATION


@pytest.mark.parametrize("path", ["/api/search", "/api/chat/message"])
def test_a_question_that_another_tenant_asked_takes_as_long_as_one_that_nobody_asked(
    served: Running, path: str
) -> None:
    field = "query" if path == "/api/search" else "question"

    def make_question(kind: str, number: int) -> dict[str, str]:
        words = random.Random(f"{kind} {number}").sample(WORDS, 3)
        return {field: f"What about {' '.join(words)} {kind[0]}{number}?"}

    with served.client("ben") as other, served.client("cleo") as client:
        for number in range(REQUESTS):
            assert other.post(path, json=make_question("known", number)).status_code == 200

        def ask(kind: str, number: int) -> None:
            assert client.post(path, json=make_question(kind, number)).status_code == 200

        deviation = compare(path, {kind: partial(ask, kind) for kind in ("known", "unknown")})
    assert abs(deviation) < MOST_DEVIATION
