"""Budgets of calls: what is refused, what is waited for, and what rival processes spend together."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import BudgetExhaustedError, SettingsError
from backstory.models.usage import Usage
from backstory.pipeline.history.spending import OUTSIDE_RUNS, ModelMeter, Spending
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import CostSettings
from tests.caches import open_own_state
from tests.errors import raises
from tests.models.services.gemini_server import GeminiServer

pytestmark = pytest.mark.usefixtures("either_storage")
A_MINUTE = 60.0


class OfADay(Spending):
    """Counts on a day that the test chooses, in the run ``run``."""

    day = "2026-03-29"

    def today(self) -> str:
        return self.day


def spend(path: Path, zone: str = "UTC", **settings: Any) -> OfADay:
    spending = OfADay(open_own_state(path), CostSettings.model_validate(settings), zone)
    spending.run_id = "run"
    return spending


def meter(spending: Spending) -> ModelMeter:
    return ModelMeter(spending, "rerank", "gemini-2.5-flash")


def use(spending: Spending, used: Usage) -> None:
    meter(spending).reserve(used, seconds=A_MINUTE)(used)


@pytest.mark.parametrize(
    ("budget", "used", "words"),
    [
        ({"calls": 2}, Usage(calls=1), "2 calls (costs.day.calls), is used up: 2 calls are used"),
        ({"tokens": 25}, Usage(1, 1, 6, 4), "25 tokens (costs.day.tokens), is used up: 20 tokens are used"),
        (
            {"money": 0.01},
            Usage(1, 1, 10_000, 800),
            "0.01 USD (costs.day.money), is used up: 0.01 USD are used",
        ),
    ],
)
def test_a_call_beyond_a_budget_is_refused_and_the_sentence_says_when_it_goes_on(
    tmp_path: Path, budget: dict[str, Any], used: Usage, words: str
) -> None:
    spending = spend(tmp_path, "Europe/Berlin", day=budget)
    use(spending, used)
    use(spending, used)
    with pytest.raises(BudgetExhaustedError) as refused:
        use(spending, used)
    assert words in str(refused.value)
    assert "from 2026-03-30 00:00 Europe/Berlin on" in str(refused.value)
    spending.day = "2026-03-30"
    use(spending, used)


def test_the_budget_of_a_run_is_that_of_one_run_and_not_of_calls_outside(tmp_path: Path) -> None:
    spending = spend(tmp_path, run={"calls": 1})
    use(spending, Usage(calls=1))
    with raises(BudgetExhaustedError, None, "costs.run.calls"):
        use(spending, Usage(calls=1))
    for run in ("another", OUTSIDE_RUNS):
        spending.run_id = run
        use(spending, Usage(calls=1))


def test_a_call_that_alone_exceeds_the_budget_is_told_from_a_used_up_one(tmp_path: Path) -> None:
    with raises(BudgetExhaustedError, None, "costs.day.tokens"):
        meter(spend(tmp_path, day={"tokens": 500})).require_room(Usage(1, 1, 600))


def test_a_call_waits_for_what_other_calls_reserved_and_did_not_use(tmp_path: Path) -> None:
    spending = spend(tmp_path, day={"tokens": 100})
    settle = meter(spending).reserve(Usage(1, 1, 90), seconds=A_MINUTE)
    waiting = threading.Event()

    def follow() -> None:
        waiting.set()
        use(spending, Usage(1, 1, 80))

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        waiting.wait()
        settle(Usage(1, 1, 20))
        following.result()
    with raises(BudgetExhaustedError, None, "costs.day.tokens"):
        meter(spending).require_room(Usage(1, 1, 1))


def test_a_reservation_that_was_never_settled_counts_in_full(tmp_path: Path) -> None:
    spending = spend(tmp_path, day={"tokens": 100})
    meter(spending).reserve(Usage(1, 1, 90), seconds=0.0)
    with raises(BudgetExhaustedError, None, "costs.day.tokens"):
        use(spending, Usage(1, 1, 11))


def test_a_money_budget_needs_a_price_and_prices_are_of_one_currency(workspace: Workspace) -> None:
    settings = workspace.settings
    for costs in (
        {"day": {"money": 1}, "currency": "EUR"},
        {"run": {"money": 1}, "prices": {"gemini-other": {"input": 1}}, "currency": "EUR"},
    ):
        unpriced = Workspace(
            workspace.root, settings.model_copy(update={"costs": CostSettings.model_validate(costs)})
        )
        with raises(SettingsError, "no_price"):
            unpriced.runs.meter("embedding", "models/gemini-embedding-001")


def test_rival_processes_share_the_budget_of_a_day_and_never_pass_it(
    make_workspace: Callable[..., Workspace],
    server: GeminiServer,
    api_key: str,
    start_process: Callable[..., Any],
    either_storage: str | None,
) -> None:
    calls = 30
    workspace = make_workspace(
        f"services: {{gemini: {{base_url: '{server.url}', texts_per_minute: 100000}}}}\n"
        "embedding: {provider: gemini, dimension: 16}\n"
        f"costs: {{day: {{calls: {calls}}}}}\n"
        f"storage: {{database: {json.dumps(either_storage)}}}\n"
    )
    environment = {**os.environ, "GEMINI_API_KEY": api_key}
    rivals = [
        start_process(["-m", "tests.pipeline.history.spender", str(workspace.root), name], environment)
        for name in ("one", "two")
    ]
    told = [rival.communicate(timeout=600)[0] for rival in rivals]
    assert len(server.requests) == calls
    assert sum(int(text.split()[0]) for text in told) == calls
    assert all("costs.day.calls" in text for text in told)
    assert api_key not in "".join(told)
