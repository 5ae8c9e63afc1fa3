"""Describe why a Dagster run failed, in the library's own sentences."""

from collections.abc import Iterable

import dagster as dg

from assets.tables import BETWEEN_FAILURES
from backstory.base import errors
from pipelines.dagster_internals.types import StepError

_LIBRARY_ERRORS = frozenset(
    name
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.BackstoryError)
)


def describe_step_failures(events: Iterable[dg.DagsterEvent]) -> list[str]:
    """Return why steps failed: the messages of the step's own failure, else that of the error to report.

    Args:
        events: Events of a run; all but failures of steps are skipped.
    """
    failures = []
    for event in events:
        if not event.is_step_failure:
            continue
        data = event.step_failure_data.user_failure_data
        if data is not None and data.description:
            failures += data.description.split(BETWEEN_FAILURES)
        elif event.step_failure_data.error is not None:
            failures.append(f"{event.step_key}: {_sentence_of(find_reported(event.step_failure_data.error))}")
    return failures


def _sentence_of(error: StepError) -> str:
    """Return the message of an error without the class name that Dagster prepends."""
    return (error.message.partition(f"{error.cls_name}: ")[2] or error.message).strip()


def find_reported(error: StepError) -> StepError:
    """Choose the error to report: the library's outermost, which names the remedy, else the innermost cause."""
    chain = [error]
    while (cause := chain[-1].cause) is not None:
        chain.append(cause)
    return next((link for link in chain if link.cls_name in _LIBRARY_ERRORS), chain[-1])
