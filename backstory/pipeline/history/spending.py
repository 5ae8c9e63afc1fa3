"""Spending on calls, and the budgets of a run and of a day that all processes of a workspace share.

A call is reserved before it is sent, in one transaction with the check of the budgets, and settled when it has ended.
So rival processes together never pass a budget. A reservation that is never settled, because its process was killed,
counts as spent in full.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple
from uuid import uuid4
from zoneinfo import ZoneInfo

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BudgetExhaustedError, SettingsError
from backstory.models.usage import Settle, Usage
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


class Place(NamedTuple):
    """Where usage is counted: run or :data:`OUTSIDE_RUNS`, day in the zone of the budgets, purpose, and model."""

    run_id: str
    day: str
    purpose: str
    model: str


class _Account(NamedTuple):
    """One limit, and what counts against it: ``spent`` for good, ``held`` as long as calls are under way."""

    period: str
    unit: str
    limit: float
    spent: float
    held: float


class Spending:
    """Counts the usage of one workspace, and keeps it within the budgets."""

    def __init__(self, state: State, settings: CostSettings, zone: str) -> None:
        """Take the state of the history, prices and budgets, and the time zone of the days."""
        self.settings = settings
        self._state = state
        self._zone = zone
        self.settled: list[tuple[str, float | None]] = []
        """Model and cost of the calls of this process that have ended; None without a price."""

    def today(self) -> str:
        """Return the current day of the budgets."""
        return datetime.now(ZoneInfo(self._zone)).date().isoformat()

    def require_room(self, place: Place, needed: Usage) -> None:
        """Raise :class:`BudgetExhaustedError` unless calls would be within the budgets now."""
        if any(budget.model_dump(exclude_none=True) for budget in (self.settings.run, self.settings.day)):
            with self._state.begin() as session:
                self._find_room(session, place, needed)

    def reserve(self, place: Place, most: Usage, *, seconds: float) -> Settle:
        """Reserve what a call may use; see :class:`backstory.models.usage.CallMeter`.

        If only the reservations of other calls are in the way, it waits until those calls have ended.
        """
        reservation = uuid4().hex
        while True:
            with self._state.begin() as session:
                if self._find_room(session, place, most):
                    self.add(session, place, most, reservation=reservation, expires=time.time() + seconds)
                    break
            threading.Event().wait(_POLL_SECONDS)

        def settle(used: Usage) -> None:
            with self._state.begin() as session:
                session.execute("DELETE FROM usage WHERE reservation = ?", (reservation,))
                cost = self.add(session, place, used)
            if used.calls:
                self.settled.append((place.model, cost))

        return settle

    def add(
        self,
        session: Session,
        place: Place,
        used: Usage,
        *,
        cached: int = 0,
        reservation: str = "",
        expires: float = 0.0,
    ) -> float | None:
        """Add usage to that of a place, or that of a reservation, which expires at a time in seconds since 1970.

        It returns the cost; None without a price.
        """
        cost = self._price(place.model, used)
        unpriced = used.calls if cost is None else 0
        counted = {**asdict(used), "cached": cached, "cost": cost or 0.0, "unpriced": unpriced}
        sums = ", ".join(f"{name} = usage.{name} + excluded.{name}" for name in counted)
        session.execute(
            f"INSERT INTO usage VALUES ({', '.join('?' * (6 + len(counted)))}) "  # noqa: S608 - names are constants
            f"ON CONFLICT (run_id, day, purpose, model, reservation) DO UPDATE SET {sums}",
            (*place, reservation, expires, *counted.values()),
        )
        return cost

    def describe_left(self, run_id: str) -> str | None:
        """Describe what is left of the budgets, such as ``run: 12 calls; day: 0.40 USD``; None without a budget."""
        left: dict[str, list[str]] = {}
        with self._state.reading() as session:
            for account in self._accounts(session, run_id, self.today()):
                rest = max(account.limit - account.spent - account.held, 0)
                left.setdefault(account.period, []).append(self._show(account.unit, rest))
        return "; ".join(f"{period}: {', '.join(parts)}" for period, parts in left.items()) or None

    def _find_room(self, session: Session, place: Place, wanted: Usage) -> bool:
        """Return whether there is room now; if not, there may be when other calls have been settled.

        If there will be none, it raises ``BudgetExhaustedError``.
        """
        cost = self._price(place.model, wanted) or 0.0
        asked = {"calls": wanted.calls, "tokens": wanted.tokens, "money": cost}
        room = True
        for account in self._accounts(session, place.run_id, place.day):
            needed = asked[account.unit]
            if account.spent + needed > account.limit + _ROUNDING:
                raise BudgetExhaustedError(self._describe_end(account, needed, place.day))
            room = room and account.spent + account.held + needed <= account.limit + _ROUNDING
        return room

    def _accounts(self, session: Session, run_id: str, day: str) -> Iterator[_Account]:
        """Read what counts against each limit of a run and of a day; calls outside of runs have no budget of a run."""
        periods = [("run", self.settings.run, "run_id", run_id)] if run_id != OUTSIDE_RUNS else []
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
            again = f"from {date.fromisoformat(day) + timedelta(days=1)} 00:00 {self._zone} on"
        return (
            f"the budget of {whole}, {limit} (costs.{account.period}.{account.unit}), is used up: {spent} are used, "
            f"and the next step may need {next_step}; finished work is kept, so run the same command again {again}, or "
            "raise the budget"
        )

    def _show(self, unit: str, amount: float) -> str:
        return f"{amount:.6g} {self.settings.currency}" if unit == "money" else f"{int(amount):,} {unit}"

    def _price(self, model: str, used: Usage) -> float | None:
        return estimate_cost(find_price(self.settings, model), used)


@dataclass(frozen=True)
class ModelMeter:
    """Counts the calls of one model; ``place`` gives where, since runs and days go on."""

    spending: Spending
    place: Callable[[], Place]

    def require_room(self, needed: Usage) -> None:
        """Raise unless calls would be within the budgets now."""
        self.spending.require_room(self.place(), needed)

    def reserve(self, most: Usage, *, seconds: float) -> Settle:
        """Reserve what a call may use, before it is sent."""
        return self.spending.reserve(self.place(), most, seconds=seconds)


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
