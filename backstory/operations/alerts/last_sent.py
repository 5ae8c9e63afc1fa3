"""Alerts already sent to each hook, in the state of the workspace."""

from __future__ import annotations

from pydantic import BaseModel, Field

from backstory.operations.alerts.problems import Problem
from backstory.storage.schema import ALERTS
from backstory.storage.state import State


class SentAlerts(BaseModel):
    """The alerts already sent to one hook.

    Attributes:
        problems: The open problems in the last alert, by identity.
        time: Time of the last alert, ISO 8601; None before the first.
    """

    problems: dict[str, Problem] = Field(default_factory=dict)
    time: str | None = None


def read_sent(state: State, hook: str) -> SentAlerts:
    """Read what a hook was sent last; nothing if it never was."""
    with state.reading() as session:
        row = session.execute("SELECT sent FROM alerts WHERE hook = ?", (hook,)).fetchone()
    return SentAlerts() if row is None else SentAlerts.model_validate_json(row[0])


def record_sent(state: State, hook: str, sent: SentAlerts) -> None:
    """Record what a hook was sent."""
    with state.begin() as session:
        state.upsert(session, ALERTS, [(hook, sent.model_dump_json(exclude_defaults=True))])
