"""Settings of what runs may cost: prices of models, budgets of calls, and limits of a run."""

from __future__ import annotations

from pydantic import Field

from backstory.settings.groups import SettingsGroup


class ModelPrice(SettingsGroup):
    """Price of one model, per million tokens."""

    input: float = Field(ge=0)
    """Price of a million tokens that are sent."""
    output: float = Field(default=0.0, ge=0)
    """Price of a million tokens that the model writes, its thoughts included."""
    batch: float = Field(default=1.0, ge=0)
    """Share of these prices that batch jobs cost, such as 0.5."""


class BudgetSettings(SettingsGroup):
    """Most that may be used of a paid service; null for no limit."""

    calls: int | None = Field(default=None, ge=0)
    """Most calls, retries included."""
    tokens: int | None = Field(default=None, ge=0)
    """Most tokens, sent and written."""
    money: float | None = Field(default=None, ge=0)
    """Most money, in `costs.currency`, by the prices of `costs.prices`."""


class CostSettings(SettingsGroup):
    """What calls of a paid service cost, and the budgets at which a run stops."""

    currency: str = Field(default="USD", min_length=1)
    """Currency of all prices and budgets; the shipped prices are in USD and serve no other currency."""
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """Prices per million tokens, such as `{gemini-2.5-flash: {input: 0.3, output: 2.5}}`; they replace shipped ones."""
    run: BudgetSettings = BudgetSettings()
    """Budget of one run: `calls`, `tokens` and `money`; null for no limit."""
    day: BudgetSettings = BudgetSettings()
    """Budget of a day in `conversations.timezone`, for all processes of the workspace together."""


class RunSettings(SettingsGroup):
    """The limit of a run, and how long its record is kept."""

    max_minutes: int | None = Field(default=720, ge=1)
    """Minutes after which a run stops before its next group of partitions; null for no limit."""
    keep_months: int = Field(default=24, ge=1)
    """Months for which the table `runs` keeps a run."""
