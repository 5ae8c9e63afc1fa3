"""Marks pieces of work: their fields are added to log records, and become the attributes of OpenTelemetry's spans.

Nothing of OpenTelemetry is imported unless the environment names a collector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from backstory.base.environment import COLLECTOR_VARIABLE, names_collector
from backstory.base.errors import MissingExtraError
from backstory.base.extras import require_extra
from backstory.base.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger(__name__)

Value: TypeAlias = bool | int | float | str
"""A count, a duration, a date, or the name of a table, model or setting; never a text of a chat or document."""

Result = TypeVar("Result")

_RUN_ID: Final = "run_id"
_PREFIX: Final = "backstory."
"""Put before the names of attributes, so that they collide with none of a convention."""
_fields: ContextVar[Mapping[str, Value]] = ContextVar("fields", default={})  # noqa: B039 - it is never changed


_tracers: Final[list[Tracer]] = []
"""The tracer of this process while spans are exported."""


class Work:
    """A piece of work under way."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def add(self, **figures: Value) -> None:
        """Add figures that are known only at the end, as attributes of the span."""
        if self._span is not None:
            self._span.set_attributes(_name_attributes(figures))


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
        with _span(name, fields) as span:
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
    with _export_spans(), observe("run", run_id=chosen, **wanted):
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


@contextmanager
def _span(name: str, attributes: Mapping[str, Value]) -> Iterator[Span | None]:
    """Start a span if spans are exported."""
    if not _tracers:
        yield None
        return
    from opentelemetry.trace import Status, StatusCode

    with _tracers[0].start_as_current_span(
        name,
        attributes=_name_attributes(attributes),
        # A message or a traceback may quote an input, so only the class of an error is exported.
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except BaseException as error:
            started.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def _name_attributes(figures: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{_PREFIX}{name}": value for name, value in figures.items()}


@contextmanager
def _export_spans() -> Iterator[None]:
    """Export the spans of a block to the collector that the environment names, the remaining ones at its end.

    A collector that does not answer is logged by the exporter and changes nothing else.
    """
    if not names_collector() or _tracers or not _can_export():
        yield
        return
    provider = _make_provider()
    _tracers.append(provider.get_tracer("backstory", VERSION))
    try:
        yield
    finally:
        _tracers.clear()
        provider.shutdown()


@cache
def _can_export() -> bool:
    """Return whether the packages are installed; that they are not is logged once."""
    try:
        require_extra("otel", f"Exporting traces, which {COLLECTOR_VARIABLE} asks for,", "unset the variable")
    except MissingExtraError as error:
        logger.warning("%s", error)
        return False
    return True


def _make_provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = Resource({SERVICE_NAME: "backstory", SERVICE_VERSION: VERSION})
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before the names given here.
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
