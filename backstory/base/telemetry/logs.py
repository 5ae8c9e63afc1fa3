"""Log output on standard error: text by default, or one JSON object per line.

:func:`log_event` writes an event with its fields. Any other record is a sentence, and has the event ``message``.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, TypeAlias, get_args

from backstory.base.environment import LOG_FORMAT_VARIABLE, read_log_format
from backstory.base.errors import InputError
from backstory.base.telemetry.scope import current_fields

LogFormat: TypeAlias = Literal["text", "json"]
LOG_FORMATS: Final[tuple[LogFormat, ...]] = get_args(LogFormat)

PRINTED: Final = {"printed": True}
"""``extra`` of a warning that the summary of ``backstory run`` prints, too; the text format leaves it out."""

_LOGGERS: Final = ("backstory", "pipelines", "opentelemetry")
_SERVING: Final = ("mcp", "uvicorn")
"""Libraries of servers whose warnings alone are shown."""
_SENTENCE: Final = "message"


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
    """Log an event, such as ``built index rows=3 seconds=0.12``.

    Args:
        logger: The logger of the module.
        event: What happened, in words that stay the same.
        figures: Fields that are known by their names.
        level: The level.
        extra: Further attributes of the record, such as :data:`PRINTED`.
        exc_info: An error whose traceback is logged.
        fields: Further fields. JSON holds them one by one.
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
    """Send the log records of this process to standard error.

    Text shows warnings, except the :data:`PRINTED` ones. JSON shows every event of Backstory at level INFO and above.

    Args:
        chosen: The format; None takes that of ``BACKSTORY_LOG_FORMAT``, else text.

    Raises:
        InputError: The variable names no format.
    """
    chosen = chosen or _read_format()
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


def _read_format() -> LogFormat:
    named = read_log_format()
    for known in LOG_FORMATS:
        if named == known:
            return known
    raise InputError(
        f"{LOG_FORMAT_VARIABLE} is {named!r}; set it to {' or '.join(LOG_FORMATS)}, or unset it",
        code="unknown_value",
    )


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, event, message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII, so that no text can break it."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", _SENTENCE),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        others = {**current_fields(), **getattr(record, "fields", {})}
        line.update({name: _plain(value) for name, value in others.items() if name not in line})
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


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
