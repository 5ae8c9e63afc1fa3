"""The history of runs: where each stands, how it ended, what it cost, and the budgets that stop it."""

from backstory.runs.ends import RunEnd, describe_error
from backstory.runs.history import BY_COMMAND, BY_DAGSTER, BY_LIBRARY, RunHistory
from backstory.runs.record import RunRecord

__all__ = ["BY_COMMAND", "BY_DAGSTER", "BY_LIBRARY", "RunEnd", "RunHistory", "RunRecord", "describe_error"]
