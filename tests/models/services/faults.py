"""Faults of a service as they happen in a year: refusals with a delay, errors, dropped connections, slow answers."""

from __future__ import annotations

import random
import threading
from collections import Counter

from tests.models.services.gemini_server import Answer, Behaviour, GeminiServer, Request, drop, fail, succeed

_SLOW_SECONDS = 0.05


class Faults:
    """Chooses the fate of each request by a seeded draw: the same fates in the same order in every run."""

    def __init__(self, server: GeminiServer, seed: int, **rates: float) -> None:
        self.counts: Counter[str] = Counter()
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._rates = rates
        self._fates: dict[str, Behaviour] = {
            "refused": fail(429, "slow down", headers={"Retry-After": "3"}),
            "failed": fail(500, "something broke"),
            "dropped": drop,
            "silent": server.stay_silent,
            "slow": self._answer_slowly,
        }

    def __call__(self, request: Request) -> Answer | None:
        with self._lock:
            draw = self._draw.random()
            fate = "answered"
            for name, rate in self._rates.items():
                if draw < rate:
                    fate = name
                    break
                draw -= rate
            self.counts[fate] += 1
        return self._fates.get(fate, succeed)(request)

    def _answer_slowly(self, request: Request) -> Answer:
        threading.Event().wait(_SLOW_SECONDS)
        return succeed(request)
