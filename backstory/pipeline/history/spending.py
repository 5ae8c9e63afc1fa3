"""Spending on calls, and the budgets of a run and of a day that all processes of a workspace share.

A call is reserved before it is sent, in one transaction with the check of the budgets, and settled when it has ended.
So rival processes together never pass a budget. A reservation that is never settled, because its process was killed,
counts as spent in full once it has expired.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as day_time
from types import MappingProxyType
from typing import Final
from uuid import uuid4
from zoneinfo import ZoneInfo

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BudgetExhaustedError, SettingsError
from backstory.models.usage import Settle, Usage
from backstory.settings.models import BudgetSettings, CostSettings, ModelPrice
from backstory.storage.state import Session, State

OUTSIDE_RUNS: Final = ""
"""Run id of calls that belong to no run, such as those of a query."""

_UNITS: Final = ("calls", "tokens", "money")
_SUMS = "coalesce(sum(calls), 0), coalesce(sum(tokens_in + tokens_out), 0), coalesce(sum(cost), 0.0)"
_ROUNDING = 1e-9
_POLL_SECONDS = 0.02

Amounts = Mapping[str, float]


@dataclass(frozen=True)
class Place:
    """Where usage is counted.

    Attributes:
        run_id: The run, or :data:`OUTSIDE_RUNS`.
        day: Day in the zone of the budgets, YYYY-MM-DD.
        purpose: What the model is used for, such as ``embedding``.
        model: Name of the model.
    """

    run_id: str
    day: str
    purpose: str
    model: str


class Spending:
    """Counts the usage of one workspace, and keeps it within the budgets."""

    def __init__(self, state: State, settings: CostSettings, zone: str) -> None:
        """Set the budgets.

        Args:
            state: What the history lies in.
            settings: Prices and budgets.
            zone: Time zone of the days.
        """
        self.settings = settings
        self._state = state
        self._zone = zone
        self._lock = threading.Lock()
        self._cost = 0.0
        self._calls = 0
        self._unpriced: Counter[str] = Counter()

    def today(self) -> str:
        """Return the current day of the budgets."""
        return datetime.now(ZoneInfo(self._zone)).date().isoformat()

    def tally(self) -> tuple[int, float, Counter[str]]:
        """Return the calls and their cost of this process so far, and the calls of models that have no price."""
        with self._lock:
            return self._calls, self._cost, self._unpriced.copy()

    def require_room(self, place: Place, needed: Usage) -> None:
        """Raise :class:`BudgetExhaustedError` unless calls would be within the budgets now."""
        if self._is_limited():
            with self._state.begin() as session:
                self._find_room(session, place, needed)

    def reserve(self, place: Place, most: Usage, *, seconds: float) -> Settle:
        """Reserve what a call may use; see :class:`backstory.models.usage.CallMeter`.

        If only the reservations of other calls are in the way, it waits until those calls have ended.
        """
        reservation = uuid4().hex
        while not self._try_to_reserve(reservation, place, most, seconds):
            threading.Event().wait(_POLL_SECONDS)

        def settle(used: Usage) -> None:
            with self._state.begin() as session:
                session.execute("DELETE FROM reservations WHERE reservation_id = ?", (reservation,))
                self.add(session, place, used)
            self._count(place.model, used)

        return settle

    def add(self, session: Session, place: Place, used: Usage, *, cached: int = 0) -> None:
        """Add usage to that of a place."""
        cost, unpriced = self._price(place.model, used)
        _add_usage(session, place, used, cached, cost, unpriced)

    def describe_left(self, run_id: str) -> str | None:
        """Describe what is left of the budgets, such as ``run: 12 calls; day: 0.40 USD``; None without a budget."""
        if not self._is_limited():
            return None
        with self._state.begin() as session:
            expire_reservations(session)
            parts = []
            for name, budget, used, held in self._periods(session, run_id, self.today()):
                left = [
                    self._show(unit, max(limit - used[unit] - held[unit], 0), digits=4)
                    for unit, limit in _limits(budget).items()
                ]
                parts += [f"{name}: {', '.join(left)}"] if left else []
        return "; ".join(parts)

    def _is_limited(self) -> bool:
        return bool(_limits(self.settings.run) or _limits(self.settings.day))

    def _try_to_reserve(self, reservation: str, place: Place, most: Usage, seconds: float) -> bool:
        cost, unpriced = self._price(place.model, most)
        with self._state.begin() as session:
            if self._is_limited() and not self._find_room(session, place, most):
                return False
            session.execute(
                "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(reservation, place.run_id, place.day, place.purpose, place.model),
                    *(most.calls, most.texts, most.tokens_in, most.tokens_out, cost, unpriced),
                    time.time() + seconds,
                ),
            )
        return True

    def _find_room(self, session: Session, place: Place, wanted: Usage) -> bool:
        """Check the budgets.

        Returns:
            Whether there is room now; if not, there may be when other calls have been settled.

        Raises:
            BudgetExhaustedError: There will be no room.
        """
        expire_reservations(session)
        asked = {
            "calls": wanted.calls,
            "tokens": wanted.tokens,
            "money": self._price(place.model, wanted)[0],
        }
        room = True
        for name, budget, used, held in self._periods(session, place.run_id, place.day):
            for unit, limit in _limits(budget).items():
                if used[unit] + asked[unit] > limit + _ROUNDING:
                    raise BudgetExhaustedError(
                        self._describe_end(name, unit, limit, used[unit], asked[unit], place.day)
                    )
                room = room and used[unit] + held[unit] + asked[unit] <= limit + _ROUNDING
        return room

    def _periods(
        self, session: Session, run_id: str, day: str
    ) -> list[tuple[str, BudgetSettings, Amounts, Amounts]]:
        """Return the name, the budget, the settled and the reserved amounts of each period."""
        periods = [("day", self.settings.day, "day", day)]
        if run_id != OUTSIDE_RUNS:
            periods.insert(0, ("run", self.settings.run, "run_id", run_id))
        return [
            (
                name,
                budget,
                _sum(session, "usage", column, value),
                _sum(session, "reservations", column, value),
            )
            for name, budget, column, value in periods
        ]

    def _describe_end(self, name: str, unit: str, limit: float, used: float, asked: float, day: str) -> str:
        whole, needed = self._show(unit, limit), self._show(unit, asked)
        so_far = f"{self._show(unit, used)} are used, and the next step may need {needed}"
        if asked > limit + _ROUNDING:
            so_far = f"the next step alone may need {needed}, more than the whole budget"
        kept = "finished work is kept"
        if name == "run":
            return (
                f"the budget of a run, {whole} (costs.run.{unit}), is used up: {so_far}; {kept}, so run the same "
                "command again to go on, or raise the budget"
            )
        renewed = _next_midnight(day, self._zone)
        return (
            f"the budget of the day {day}, {whole} (costs.day.{unit}), is used up: {so_far}; {kept}, so run the same "
            f"command again from {renewed:%Y-%m-%d %H:%M} {self._zone} on, or raise the budget"
        )

    def _show(self, unit: str, amount: float, digits: int = 6) -> str:
        if unit == "money":
            return f"{round(amount, digits):g} {self.settings.currency}"
        return f"{int(amount):,} {unit}"

    def _price(self, model: str, used: Usage) -> tuple[float, int]:
        cost = estimate_cost(find_price(self.settings, model), used)
        return (0.0, used.calls) if cost is None else (cost, 0)

    def _count(self, model: str, used: Usage) -> None:
        cost, unpriced = self._price(model, used)
        with self._lock:
            self._calls += used.calls
            self._cost += cost
            if unpriced:
                self._unpriced[model] += unpriced


@dataclass(frozen=True)
class ModelMeter:
    """Counts the calls of one model for whichever run is under way.

    Attributes:
        spending: Where they are counted.
        purpose: What the model is used for.
        model: Its name.
        current_run: Gives the id of the run that is under way.
    """

    spending: Spending
    purpose: str
    model: str
    current_run: Callable[[], str]

    def require_room(self, needed: Usage) -> None:
        """Raise unless calls would be within the budgets now."""
        self.spending.require_room(self._place(), needed)

    def reserve(self, most: Usage, *, seconds: float) -> Settle:
        """Reserve what a call may use, before it is sent."""
        return self.spending.reserve(self._place(), most, seconds=seconds)

    def _place(self) -> Place:
        return Place(self.current_run(), self.spending.today(), self.purpose, self.model)


def _limits(budget: BudgetSettings) -> dict[str, float]:
    limits = {unit: getattr(budget, unit) for unit in _UNITS}
    return {unit: limit for unit, limit in limits.items() if limit is not None}


def _sum(session: Session, table: str, column: str, value: str) -> Amounts:
    query = f"SELECT {_SUMS} FROM {table} WHERE {column} = ?"  # noqa: S608 - names are constants of this module
    return dict(zip(_UNITS, session.execute(query, (value,)).fetchone(), strict=True))


def expire_reservations(session: Session) -> None:
    """Count expired reservations as spent in full: their calls may have been billed."""
    now = time.time()
    expired = session.execute(
        "SELECT run_id, day, purpose, model, calls, texts, tokens_in, tokens_out, cost, unpriced "
        "FROM reservations WHERE expires_at <= ?",
        (now,),
    ).fetchall()
    for run_id, day, purpose, model, calls, texts, tokens_in, tokens_out, cost, unpriced in expired:
        used = Usage(calls, texts, tokens_in, tokens_out)
        _add_usage(session, Place(run_id, day, purpose, model), used, 0, cost, unpriced)
    if expired:
        session.execute("DELETE FROM reservations WHERE expires_at <= ?", (now,))


def _add_usage(session: Session, place: Place, used: Usage, cached: int, cost: float, unpriced: int) -> None:
    session.execute(
        "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (run_id, day, purpose, model) DO UPDATE SET calls = usage.calls + excluded.calls, "
        "texts = usage.texts + excluded.texts, tokens_in = usage.tokens_in + excluded.tokens_in, "
        "tokens_out = usage.tokens_out + excluded.tokens_out, cached = usage.cached + excluded.cached, "
        "cost = usage.cost + excluded.cost, unpriced = usage.unpriced + excluded.unpriced",
        (
            *(place.run_id, place.day, place.purpose, place.model),
            *(used.calls, used.texts, used.tokens_in, used.tokens_out, cached, cost, unpriced),
        ),
    )


def _next_midnight(day: str, zone: str) -> datetime:
    following = datetime.fromisoformat(day).date() + timedelta(days=1)
    return datetime.combine(following, day_time(0), ZoneInfo(zone))


SHIPPED_CURRENCY: Final = "USD"

# Paid tier, text, as of April 2026: https://ai.google.dev/gemini-api/docs/pricing
SHIPPED_PRICES: Final[Mapping[str, ModelPrice]] = MappingProxyType(
    {
        "gemini-embedding-001": ModelPrice(input=0.15),
        "gemini-2.5-flash": ModelPrice(input=0.30, output=2.50),
    }
)

_MILLION = 1_000_000


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
    """Check that a budget of money can be kept.

    Raises:
        SettingsError: There is such a budget, and the model has no price.
    """
    budgets: Mapping[str, BudgetSettings] = {"run": settings.run, "day": settings.day}
    limited = [f"costs.{name}.money" for name, budget in budgets.items() if budget.money is not None]
    if limited and find_price(settings, model) is None:
        raise SettingsError(
            f"{SETTINGS_FILE}: {' and '.join(limited)} cannot be kept, since {model} has no price in "
            f"{settings.currency}; write `costs: {{prices: {{{model}: {{input: ..., output: ...}}}}}}` (per million "
            "tokens), or limit calls or tokens instead",
            code="no_price",
        )
