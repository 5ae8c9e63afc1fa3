"""Marks pieces of work: their fields are added to log records, and become the attributes of spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from backstory.base.telemetry import traces

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Value: TypeAlias = bool | int | float | str
"""A count, a duration, a date, or the name of a table, model or setting; never a text of a chat or document."""

Result = TypeVar("Result")

_RUN_ID: Final = "run_id"
_fields: ContextVar[Mapping[str, Value]] = ContextVar("fields", default={})  # noqa: B039 - it is never changed


class Work:
    """A piece of work under way."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def add(self, **figures: Value) -> None:
        """Add figures that are known only at the end, as attributes of the span."""
        if self._span is not None:
            self._span.set_attributes(traces.name_attributes(figures))


def current_fields() -> Mapping[str, Value]:
    """Return the fields of all work under way in this thread; inner work overrides outer work."""
    return _fields.get()


def current_run() -> str | None:
    """Return the id of the run under way in this thread, or None."""
    found = _fields.get().get(_RUN_ID)
    return None if found is None else str(found)


@contextmanager
def observe(name: str, **fields: Value) -> Iterator[Work]:
    """Mark a piece of work.

    Args:
        name: Kind of the work, such as ``stage``; the name of the span.
        fields: What identifies it. They are added to every log record written inside, and to the span.

    Yields:
        The work, to which figures can be added. If the block raises, the span has the status of an error and the
        name of the exception's class. The message is left out, since it may quote an input.
    """
    reset = _fields.set({**_fields.get(), **fields})
    try:
        with traces.span(name, fields) as span:
            yield Work(span)
    finally:
        _fields.reset(reset)


@contextmanager
def observe_run(partitions: Sequence[str], run_id: str | None = None) -> Iterator[str]:
    """Mark a run, and export its spans if the environment asks for it. Inside another run this does nothing.

    Args:
        partitions: Keys of the wanted partitions; empty if only tables without partitions are built.
        run_id: Id of the run; None to make one.

    Yields:
        The id of the run.
    """
    if outer := current_run():
        yield outer
        return
    chosen = run_id or str(uuid4())
    wanted = describe_range(partitions) | {"partitions": len(partitions)}
    with traces.export_spans(), observe("run", run_id=chosen, **wanted):
        yield chosen


def describe_range(partitions: Sequence[str]) -> dict[str, Value]:
    """Return the first and last of some partitions as fields; no fields if there are none."""
    return {"first": partitions[0], "last": partitions[-1]} if partitions else {}


def bind(work: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function as one to call in another thread, where it keeps the fields and the span of this one."""
    context = copy_context()

    def run(*arguments: Any) -> Result:
        return context.copy().run(work, *arguments)

    return run
