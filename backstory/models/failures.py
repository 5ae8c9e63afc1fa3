"""Failed calls of services, classified: retry, stop for today, or give up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from backstory.base.environment import KEY_VARIABLES, OPENAI_KEY_VARIABLE
from backstory.base.errors import (
    BackstoryError,
    BudgetExhaustedError,
    ModelError,
    ModelSetupError,
    TransientError,
)

if TYPE_CHECKING:
    from backstory.settings.groups import ServiceSettings

_LONGEST_DELAY_SECONDS: Final = 900.0
_QUOTA_DELAY_SECONDS: Final = 60.0
_MESSAGE_CHARACTERS: Final = 300
_TRANSIENT_CODES: Final = (408, 409, 425, 429)
_CONTENT_CODES: Final = (400, 413, 422)
_KEY_CODES: Final = (401, 403)
_EXHAUSTED: Final = ("insufficient_quota", "billing_hard_limit_reached")
_GOOGLE_KEY: Final = re.compile(r"AIza[\w-]{30,}")
_QUOTED: Final = re.compile("“[^”]*(?:”|$)")


class Failure(NamedTuple):
    """A call that the service answered with an error, which it does not bill: status, headers and JSON, if any."""

    status: int
    headers: Mapping[str, str]
    body: Any


def explain_failure(
    failure: Failure, service: str, settings: ServiceSettings, key: str | None
) -> BackstoryError:
    """Convert the error of a service into one of this library without the key; a transient one may be retried."""
    status = failure.status
    if 300 <= status < 400:
        # Without path and query, which may repeat the request.
        parts = urlsplit(failure.headers.get("Location", ""))
        host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "another path"
        return ModelError(
            f"{service} redirects to {host} (HTTP {status}). Backstory does not follow it: it would send "
            f"{settings.sent} there. If you trust that address, set it as base_url of the service (services in "
            "backstory.yaml)",
            code="redirected",
        )
    kind, answered, details = _read_error(failure.body)
    said = redact(" ".join(answered.split()), key)[:_MESSAGE_CHARACTERS]  # it may repeat a text that was sent
    said = quote(said) if said else "no message"
    message = f"HTTP {status}: {said}"
    is_gemini = settings.provider == "gemini"
    blames_key = "API key" in answered or any(part.get("reason") == "API_KEY_INVALID" for part in details)
    if status in _KEY_CODES or (is_gemini and status == 400 and blames_key):
        variables = KEY_VARIABLES if is_gemini else (settings.key_variable, OPENAI_KEY_VARIABLE)
        return ModelSetupError(
            f"{service} refused the key ({message}); check {' or '.join(variables)}, and that the key may use the API",
            code="refused_key",
        )
    delay = _read_delay(failure.headers, details)
    violations = [entry for part in details for entry in part.get("violations") or ()]
    is_daily = any(
        "PerDay" in str(entry.get("quotaId")) for entry in violations if isinstance(entry, Mapping)
    )
    is_spent = status == 402 or kind in _EXHAUSTED or is_daily
    if is_spent or (status == 429 and (delay or 0) > _LONGEST_DELAY_SECONDS):
        return BudgetExhaustedError(
            f"the quota or credit at {service} is used up ({message}); finished work is kept, so run the same command "
            "again when it has been renewed",
            code="quota_exhausted",
        )
    if status == 429:
        return TransientError(message, _QUOTA_DELAY_SECONDS if delay is None else delay)
    if status in _TRANSIENT_CODES or status >= 500:
        return TransientError(message, None if delay is None else min(delay, _LONGEST_DELAY_SECONDS))
    refusal = ModelError(f"{service} refused the request ({message}); a retry would not help", code="refused")
    refusal.blames_content = status in _CONTENT_CODES
    return refusal


def redact(text: str, key: str | None) -> str:
    """Replace the key, and everything that looks like a Google key, by ``[key]``."""
    if key:
        text = text.replace(key, "[key]")
    return _GOOGLE_KEY.sub("[key]", text)


def quote(text: str) -> str:
    """Put what may be a part of a chat or document between the marks by which :func:`hide_quotes` finds it."""
    plain = text.replace("“", '"').replace("”", '"')
    return f"“{plain}”"


def hide_quotes(sentence: str) -> str:
    """Replace whatever :func:`quote` put into a sentence, also if the sentence was cut inside of it."""
    return _QUOTED.sub("[quoted in the output of the run]", sentence)


def _read_error(body: Any) -> tuple[str, str, Sequence[Mapping[str, Any]]]:
    """Read the kind, the message and Gemini's details of an error, which services put in different places."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return "", "" if error is None else str(error), ()
    details = error.get("details")
    parts = [part for part in details if isinstance(part, Mapping)] if isinstance(details, list) else []
    return str(error.get("code") or error.get("type") or ""), str(error.get("message") or ""), parts


def _read_delay(headers: Mapping[str, str], details: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the seconds to wait, by the header or by the details."""
    said = [str(part["retryDelay"]).removesuffix("s") for part in details if "retryDelay" in part]
    delays = [_parse_delay(text) for text in (*said, headers.get("Retry-After", ""))]
    return max((delay for delay in delays if delay is not None), default=None)


def _parse_delay(text: str) -> float | None:
    """Read seconds, or the moment when they end; None of any other text."""
    with suppress(ValueError):
        seconds = float(text)
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    with suppress(ValueError):
        moment = parsedate_to_datetime(text)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None
