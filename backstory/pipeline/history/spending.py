"""Spending on calls, and the budgets of a run and of a day that all processes of a workspace share.

A call is reserved before it is sent, in one transaction with the check of the budgets, and settled when it has ended.
So rival processes together never pass a budget. A reservation that is never settled, because its process was killed,
counts as spent in full.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple
from uuid import uuid4
from zoneinfo import ZoneInfo

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BudgetExhaustedError, SettingsError
from backstory.models.usage import CallMeter, Settle, Usage
from backstory.settings.models import CostSettings, ModelPrice
from backstory.storage.state import Session, State

OUTSIDE_RUNS: Final = ""
"""Run id of calls that belong to no run, such as those of a query."""
SHIPPED_CURRENCY: Final = "USD"

# Paid tier, text, as of April 2026: https://ai.google.dev/gemini-api/docs/pricing
SHIPPED_PRICES: Final[Mapping[str, ModelPrice]] = {
    "gemini-embedding-001": ModelPrice(input=0.15),
    "gemini-2.5-flash": ModelPrice(input=0.30, output=2.50),
}

_UNITS: Final = {"calls": "calls", "tokens": "tokens_in + tokens_out", "money": "cost"}
"""The units of a budget, each with what counts of a row of usage."""
_MILLION: Final = 1_000_000
_ROUNDING: Final = 1e-9
_POLL_SECONDS: Final = 0.02


class _Account(NamedTuple):
    """One limit, and what counts against it: ``spent`` for good, ``held`` as long as calls are under way."""

    period: str
    unit: str
    limit: float
    spent: float
    held: float


class Spending:
    """The usage of one workspace, and its budgets.

    ``run_id`` is that of the run of this process, ``settled`` has model and cost of its calls that have ended; the cost
    is None without a price.
    """

    def __init__(self, state: State, settings: CostSettings, zone: str) -> None:
        """Take the state of the history, prices and budgets, and the time zone of the days."""
        self.state = state
        self.settings = settings
        self.zone = zone
        self.run_id = OUTSIDE_RUNS
        self.settled: list[tuple[str, float | None]] = []

    def today(self) -> str:
        """Return the current day of the budgets."""
        return datetime.now(ZoneInfo(self.zone)).date().isoformat()

    def describe_left(self) -> str | None:
        """Describe what is left of the budgets, such as ``run: 12 calls; day: 0.40 USD``; None without a budget."""
        left: dict[str, list[str]] = {}
        with self.state.reading() as session:
            for account in self._accounts(session, self.today()):
                rest = max(account.limit - account.spent - account.held, 0)
                left.setdefault(account.period, []).append(self._show(account.unit, rest))
        return "; ".join(f"{period}: {', '.join(parts)}" for period, parts in left.items()) or None

    @contextmanager
    def pricing(self, counts: dict[str, int | float | str]) -> Iterator[None]:
        """Add the cost of the calls inside to the figures of a stage; nothing if there are no calls.

        That is ``api_cost_USD``, or whatever the currency, and ``api_cost`` if a price is not known.
        """
        self.settled.clear()
        yield
        settled = self.settled
        if unpriced := {model for model, cost in settled if cost is None}:
            counts["api_cost"] = f"not known: no price of {', '.join(sorted(unpriced))} in costs.prices"
        elif settled:
            name, cost = f"api_cost_{self.settings.currency}", sum(cost or 0.0 for _, cost in settled)
            counts[name] = round(float(counts.get(name, 0.0)) + cost, 8)

    def find_room(self, session: Session, wanted: Usage, cost: float) -> bool:
        """Return whether there is room now; if not, there may be when other calls have been settled.

        If there will be none, it raises ``BudgetExhaustedError``.
        """
        asked = {"calls": wanted.calls, "tokens": wanted.tokens, "money": cost}
        room, day = True, self.today()
        for account in self._accounts(session, day):
            needed = asked[account.unit]
            if account.spent + needed > account.limit + _ROUNDING:
                raise BudgetExhaustedError(self._describe_end(account, needed, day))
            room = room and account.spent + account.held + needed <= account.limit + _ROUNDING
        return room

    def _accounts(self, session: Session, day: str) -> Iterator[_Account]:
        """Read what counts against each limit of a run and of a day; calls outside of runs have no budget of a run."""
        periods = [("run", self.settings.run, "run_id", self.run_id)] if self.run_id != OUTSIDE_RUNS else []
        for period, budget, column, value in (*periods, ("day", self.settings.day, "day", day)):
            for unit, amount in _UNITS.items():
                limit = getattr(budget, unit)
                if limit is not None:
                    query = (
                        f"SELECT coalesce(sum({amount}), 0), "  # noqa: S608 - names are constants of this module
                        f"coalesce(sum(CASE WHEN expires_at <= ? THEN {amount} ELSE 0 END), 0) "
                        f"FROM usage WHERE {column} = ?"
                    )
                    counted, spent = session.execute(query, (time.time(), value)).fetchone()
                    yield _Account(period, unit, limit, spent, counted - spent)

    def _describe_end(self, account: _Account, needed: float, day: str) -> str:
        limit, spent, next_step = (
            self._show(account.unit, amount) for amount in (account.limit, account.spent, needed)
        )
        whole, again = "a run", "to go on"
        if account.period == "day":
            whole = f"the day {day}"
            again = f"from {date.fromisoformat(day) + timedelta(days=1)} 00:00 {self.zone} on"
        return (
            f"the budget of {whole}, {limit} (costs.{account.period}.{account.unit}), is used up: {spent} are used, "
            f"and the next step may need {next_step}; finished work is kept, so run the same command again {again}, or "
            "raise the budget"
        )

    def _show(self, unit: str, amount: float) -> str:
        return f"{amount:.6g} {self.settings.currency}" if unit == "money" else f"{int(amount):,} {unit}"


@dataclass(frozen=True)
class ModelMeter(CallMeter):
    """Counts the calls of one model for a purpose such as ``embedding``, and keeps them within the budgets."""

    spending: Spending
    purpose: str
    model: str

    def require_room(self, needed: Usage) -> None:
        """Raise ``BudgetExhaustedError`` unless calls would be within the budgets now."""
        costs = self.spending.settings
        if any(budget.model_dump(exclude_none=True) for budget in (costs.run, costs.day)):
            with self.spending.state.begin() as session:
                self.spending.find_room(session, needed, self._price(needed) or 0.0)

    def reserve(self, most: Usage, *, seconds: float) -> Settle:
        """Reserve what a call may use; if only the reservations of other calls are in the way, wait for their end."""
        reservation, state = uuid4().hex, self.spending.state
        while True:
            with state.begin() as session:
                if self.spending.find_room(session, most, self._price(most) or 0.0):
                    place = self.place()
                    self.add(session, place, most, reservation=reservation, expires=time.time() + seconds)
                    break
            threading.Event().wait(_POLL_SECONDS)

        def settle(used: Usage) -> None:
            with state.begin() as session:
                session.execute("DELETE FROM usage WHERE reservation = ?", (reservation,))
                cost = self.add(session, place, used)
            if used.calls:
                self.spending.settled.append((self.model, cost))

        return settle

    def place(self) -> tuple[str, str, str, str]:
        """Return where calls are counted now: run, day, purpose and model."""
        return self.spending.run_id, self.spending.today(), self.purpose, self.model

    def add(
        self,
        session: Session,
        place: tuple[str, str, str, str],
        used: Usage,
        *,
        cached: int = 0,
        reservation: str = "",
        expires: float = 0.0,
    ) -> float | None:
        """Add usage, or that of a reservation, which expires at a time in seconds since 1970; return the cost."""
        cost = self._price(used)
        unpriced = used.calls if cost is None else 0
        counted = {**asdict(used), "cached": cached, "cost": cost or 0.0, "unpriced": unpriced}
        sums = ", ".join(f"{name} = usage.{name} + excluded.{name}" for name in counted)
        session.execute(
            f"INSERT INTO usage VALUES ({', '.join('?' * (6 + len(counted)))}) "  # noqa: S608 - names are constants
            f"ON CONFLICT (run_id, day, purpose, model, reservation) DO UPDATE SET {sums}",
            (*place, reservation, expires, *counted.values()),
        )
        return cost

    def _price(self, used: Usage) -> float | None:
        return estimate_cost(find_price(self.spending.settings, self.model), used)


def find_price(settings: CostSettings, model: str) -> ModelPrice | None:
    """Return the price of a model: that of the settings, else the shipped one if it is in the same currency."""
    model = model.removeprefix("models/")
    if model in settings.prices:
        return settings.prices[model]
    return SHIPPED_PRICES.get(model) if settings.currency == SHIPPED_CURRENCY else None


def estimate_cost(price: ModelPrice | None, used: Usage) -> float | None:
    """Multiply tokens by their price; None without a price."""
    if price is None:
        return None
    return (used.tokens_in * price.input + used.tokens_out * price.output) / _MILLION


def require_price(settings: CostSettings, model: str) -> None:
    """Check that a budget of money can be kept. A model without a price is then an error (code ``no_price``)."""
    limited = [f"costs.{name}.money" for name in ("run", "day") if getattr(settings, name).money is not None]
    if limited and find_price(settings, model) is None:
        raise SettingsError(
            f"{SETTINGS_FILE}: {' and '.join(limited)} cannot be kept, since {model} has no price in "
            f"{settings.currency}; write `costs: {{prices: {{{model}: {{input: ..., output: ...}}}}}}` (per million "
            "tokens), or limit calls or tokens instead",
            code="no_price",
        )
