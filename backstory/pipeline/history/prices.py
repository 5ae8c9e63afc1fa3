"""Prices of models, and the cost of calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import SettingsError
from backstory.models.usage import Usage
from backstory.settings.models import BudgetSettings, CostSettings, ModelPrice

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
