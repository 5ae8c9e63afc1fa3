"""OpenTelemetry spans over OTLP/HTTP. Nothing of OpenTelemetry is imported unless the environment names a collector."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from backstory.base.environment import COLLECTOR_VARIABLE, names_collector
from backstory.base.errors import MissingExtraError
from backstory.base.extras import require_extra
from backstory.base.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger(__name__)

_PREFIX: Final = "backstory."


class _Export:
    """The tracer of this process while spans are exported, and whether its absence was reported."""

    tracer: Tracer | None = None
    was_reported: bool = False


@contextmanager
def export_spans() -> Iterator[None]:
    """Export the spans of a block to the collector that the environment names, if it names one.

    The remaining spans are sent at the end of the block. A collector that does not answer is logged by the exporter
    and changes nothing else. If the packages are not installed, this is logged once.
    """
    if not names_collector() or _Export.tracer is not None or not _is_installed():
        yield
        return
    provider = _make_provider()
    _Export.tracer = provider.get_tracer("backstory", VERSION)
    try:
        yield
    finally:
        _Export.tracer = None
        provider.shutdown()


def _is_installed() -> bool:
    try:
        require_extra("otel", f"Exporting traces, which {COLLECTOR_VARIABLE} asks for,", "unset the variable")
    except MissingExtraError as error:
        if not _Export.was_reported:
            logger.warning("%s", error)
        _Export.was_reported = True
        return False
    return True


def _make_provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = Resource({SERVICE_NAME: "backstory", SERVICE_VERSION: VERSION})
    provider = TracerProvider(
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before the names given here.
        resource=ours.merge(OTELResourceDetector().detect()),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


@contextmanager
def span(name: str, attributes: Mapping[str, bool | int | float | str]) -> Iterator[Span | None]:
    """Start a span if spans are exported.

    Args:
        name: Name of the span.
        attributes: Its attributes; ``backstory.`` is put before each name.

    Yields:
        The span, or None.
    """
    tracer = _Export.tracer
    if tracer is None:
        yield None
        return
    from opentelemetry.trace import Status, StatusCode

    with tracer.start_as_current_span(
        name,
        attributes=name_attributes(attributes),
        # A message or a traceback may quote an input, so only the class of an error is exported.
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except BaseException as error:
            started.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def name_attributes(figures: Mapping[str, bool | int | float | str]) -> dict[str, bool | int | float | str]:
    """Put ``backstory.`` before the names of figures, so that they collide with no attribute of a convention."""
    return {f"{_PREFIX}{name}": value for name, value in figures.items()}
