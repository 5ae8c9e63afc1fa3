"""Telemetry: log lines of events with their fields, and OpenTelemetry's spans.

:func:`log_event` writes an event with its fields. Any other record is a sentence, and has the event ``message``.
:func:`observe` marks a piece of work, such as a stage: every record that is written inside carries the fields of the
work, and the work is a span if the environment names a collector. Else nothing of OpenTelemetry is imported.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias, TypeVar, get_args
from uuid import uuid4

from backstory.base import VERSION
from backstory.base.environment import COLLECTOR_VARIABLE, LOG_FORMAT_VARIABLE, read_variable
from backstory.base.errors import InputError, MissingExtraError
from backstory.base.extras import require_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

logger = logging.getLogger(__name__)

LogFormat: TypeAlias = Literal["text", "json"]
LOG_FORMATS: Final[tuple[LogFormat, ...]] = get_args(LogFormat)

PRINTED: Final = {"printed": True}
"""``extra`` of a warning that the summary of ``backstory run`` prints, too; the text format leaves it out."""

Value: TypeAlias = bool | int | float | str
"""A count, a duration, a date, or the name of a table, model or setting; never a text of a chat or document."""

Result = TypeVar("Result")

_LOGGERS: Final = ("backstory", "pipelines", "opentelemetry")
_SERVING: Final = ("mcp", "uvicorn")
"""Libraries of servers whose warnings alone are shown."""
_RUN_ID: Final = "run_id"
_PREFIX: Final = "backstory."
"""Put before the names of attributes, so that they collide with none of a convention."""
_fields: ContextVar[Mapping[str, Value]] = ContextVar("fields", default={})  # noqa: B039 - it is never changed


def log_event(
    logger: logging.Logger,
    event: str,
    figures: Mapping[str, object] | None = None,
    *,
    level: int = logging.INFO,
    extra: Mapping[str, object] | None = None,
    exc_info: BaseException | None = None,
    **fields: object,
) -> None:
    """Log an event with its fields, such as ``built index rows=3 seconds=0.12``; JSON holds them one by one.

    ``figures`` are fields that are known by their names, ``extra`` further attributes such as :data:`PRINTED`.
    """
    if logger.isEnabledFor(level):
        named = {**(figures or {}), **fields}
        shown = (
            f"{name}={value:.3f}" if isinstance(value, float) else f"{name}={value}"
            for name, value in named.items()
        )
        found = {**(extra or {}), "event": event, "fields": named}
        logger.log(level, "%s", " ".join([event, *shown]), exc_info=exc_info, extra=found, stacklevel=2)


def configure_logs(chosen: LogFormat | None = None) -> None:
    """Send the log records of this process to standard error, in a format or that of ``BACKSTORY_LOG_FORMAT``.

    Text shows warnings, except the :data:`PRINTED` ones. JSON shows every event of Backstory at level INFO and above.
    """
    if chosen is None:
        named = read_variable(LOG_FORMAT_VARIABLE) or "text"
        if named not in LOG_FORMATS:
            raise InputError(
                f"{LOG_FORMAT_VARIABLE} is {named!r}; set it to {' or '.join(LOG_FORMATS)}, or unset it",
                code="unknown_value",
            )
        chosen = "json" if named == "json" else "text"
    handler = _StandardError()
    handler.setLevel(logging.INFO if chosen == "json" else logging.WARNING)
    handler.setFormatter(JsonLines() if chosen == "json" else _TextLines("%(message)s"))
    if chosen == "text":
        handler.addFilter(lambda record: not getattr(record, "printed", False))
    for name in (*_LOGGERS, *_SERVING):
        logger = logging.getLogger(name)
        for earlier in [known for known in logger.handlers if isinstance(known, _StandardError)]:
            logger.removeHandler(earlier)
        logger.addHandler(handler)
        if chosen == "json":
            logger.setLevel(logging.INFO if name in _LOGGERS else logging.WARNING)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, event, message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII, so that no text can break it."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", "message"),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        for name, value in {**_fields.get(), **getattr(record, "fields", {})}.items():
            line.setdefault(name, None if isinstance(value, float) and not math.isfinite(value) else value)
        return json.dumps(line, default=str, allow_nan=False)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {super().format(record)}"


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to the present standard error, which may be another stream than at the start."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def current_run() -> str | None:
    """Return the id of the run under way in this thread, or None."""
    found = _fields.get().get(_RUN_ID)
    return None if found is None else str(found)


@contextmanager
def observe(name: str, **fields: Value) -> Iterator[Callable[[Mapping[str, Value]], None]]:
    """Mark a piece of work, such as a ``stage``, and yield a function that adds figures to its span at the end.

    If the block raises, the span names the class of the error, and not its message, which may quote an input.
    """
    reset = _fields.set({**_fields.get(), **fields})
    try:
        provider = _open_provider()
        if provider is None:
            yield lambda _: None
            return
        from opentelemetry.trace import Status, StatusCode

        with provider.get_tracer("backstory", VERSION).start_as_current_span(
            name,
            attributes=_name_attributes(fields),
            # A message or a traceback may quote an input, so only the class of an error is exported.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield lambda figures: span.set_attributes(_name_attributes(figures))
            except BaseException as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise
    finally:
        _fields.reset(reset)


@contextmanager
def observe_run(partitions: Sequence[str], run_id: str | None = None) -> Iterator[str]:
    """Mark a run, and yield its id, which is made unless it is given.

    Inside another run this does nothing but yield the id of that.
    """
    if outer := current_run():
        yield outer
        return
    chosen = run_id or str(uuid4())
    wanted = describe_range(partitions) | {"partitions": len(partitions)}
    try:
        with observe("run", run_id=chosen, **wanted):
            yield chosen
    finally:
        if provider := _open_provider():
            provider.force_flush()


def describe_range(partitions: Sequence[str]) -> dict[str, Value]:
    """Return the first and last of some partitions as fields; no fields if there are none."""
    return {"first": partitions[0], "last": partitions[-1]} if partitions else {}


def bind(work: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function as one to call in another thread, where it keeps the fields and the span of this one."""
    context = copy_context()

    def run(*arguments: Any) -> Result:
        return context.copy().run(work, *arguments)

    return run


def _name_attributes(figures: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{_PREFIX}{name}": value for name, value in figures.items()}


@cache
def _open_provider() -> TracerProvider | None:
    """Open what exports spans until the process ends; None without a collector in the environment, or the packages."""
    if not read_variable(COLLECTOR_VARIABLE):
        return None
    try:
        require_extra("otel", f"Exporting traces, which {COLLECTOR_VARIABLE} asks for,", "unset the variable")
    except MissingExtraError as error:
        logger.warning("%s", error)
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = Resource({SERVICE_NAME: "backstory", SERVICE_VERSION: VERSION})
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before the names given here.
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
