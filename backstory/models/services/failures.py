"""Failed calls of services, classified: retry, stop for today, or give up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backstory.base.environment import KEY_VARIABLES
from backstory.base.errors import AuthenticationError, ModelError, QuotaExhaustedError
from backstory.base.retry import TransientError

if TYPE_CHECKING:
    from google.genai.errors import APIError

LONGEST_DELAY_SECONDS = 900.0

_QUOTA_DELAY_SECONDS = 60.0
_MESSAGE_CHARACTERS = 300
_TRANSIENT_CODES = (408, 425, 429)
_CONTENT_CODES = (400, 413, 422)
_KEY_CODES = (401, 403)
_GOOGLE_KEY = re.compile(r"AIza[\w-]{30,}")
_QUOTED = re.compile("“[^”]*(?:”|$)")


def interpret_api_error(error: APIError, api_key: str | None, failure: type[ModelError]) -> ModelError:
    """Convert an HTTP error of the API into an error of this library.

    Args:
        error: Error that the SDK raised.
        api_key: The key, which is removed from the message if the server repeats it.
        failure: Type of the error for a request that the API refuses whenever it is sent.

    Returns:
        A :class:`TransientError` for timeouts, server errors and per-minute quota; an error that must not be
        retried for everything else, redirects included.
    """
    if 300 <= error.code < 400:
        target = _read_redirect(error)
        return failure(
            f"Gemini's address redirects to {target or 'another path'} (HTTP {error.code}). Backstory does not follow "
            "it, since it would send the key there. If you trust that address, set it as base_url of the "
            "service (services in backstory.yaml)",
            code="redirected",
            status=error.code,
            target=target,
            setting="base_url",
        )
    details = _read_details(error.details)
    message = " ".join(f"HTTP {error.code} {error.status or ''}".split())
    said = quote_service(error.message or "", api_key)
    message += f": {said}"
    delay = _read_delay(error, details)
    if error.code in _KEY_CODES or (error.code == 400 and _blames_key(error, details)):
        return AuthenticationError(
            f"Gemini refused the key ({message}); check {' or '.join(KEY_VARIABLES)}, "
            "and that the key may use the API",
            code="refused_key",
            status=error.code,
            said=said,
            variables=KEY_VARIABLES,
        )
    if error.code == 429 and (_is_daily(details) or (delay or 0) > LONGEST_DELAY_SECONDS):
        return QuotaExhaustedError(
            f"Gemini's daily quota is used up ({message}); finished work is kept, "
            "so run the same command again when the quota has been renewed",
            status=error.code,
            said=said,
        )
    if error.code == 429:
        quota_wait = _QUOTA_DELAY_SECONDS if delay is None else delay
        return TransientError(message, quota_wait, status=error.code, said=said)
    if error.code in _TRANSIENT_CODES or error.code >= 500:
        wait = None if delay is None else min(delay, LONGEST_DELAY_SECONDS)
        return TransientError(message, wait, status=error.code, said=said)
    refusal = failure(
        f"Gemini refused the request ({message}); a retry would not help",
        code="refused",
        status=error.code,
        said=said,
    )
    return mark_refused_content(refusal, error.code)


def mark_refused_content(refusal: ModelError, code: int) -> ModelError:
    """Note on a refusal whether its HTTP status blames what the request holds, and return it."""
    refusal.blames_content = code in _CONTENT_CODES
    return refusal


def redact(text: str, api_key: str | None) -> str:
    """Replace the key, and everything that looks like a Google key, by ``[key]``."""
    if api_key:
        text = text.replace(api_key, "[key]")
    return _GOOGLE_KEY.sub("[key]", text)


def quote_service(said: str, api_key: str | None) -> str:
    """Quote what a service said, on one line, shortened, and without the key; it may repeat a text that was sent."""
    message = redact(" ".join(said.split()), api_key)[:_MESSAGE_CHARACTERS]
    return quote(message) if message else "no message"


def quote(text: str) -> str:
    """Put what may be a part of a chat or document between the marks by which :func:`hide_quotes` finds it."""
    plain = text.replace("“", '"').replace("”", '"')
    return f"“{plain}”"


def hide_quotes(sentence: str) -> str:
    """Replace whatever :func:`quote` put into a sentence, also if the sentence was cut inside of it."""
    return _QUOTED.sub("[quoted in the output of the run]", sentence)


def _read_details(body: Any) -> list[Mapping[str, Any]]:
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    return [part for part in details if isinstance(part, Mapping)] if isinstance(details, list) else []


def _blames_key(error: APIError, details: list[Mapping[str, Any]]) -> bool:
    reasons = {part.get("reason") for part in details}
    return "API_KEY_INVALID" in reasons or "API key" in str(error.message)


def _is_daily(details: list[Mapping[str, Any]]) -> bool:
    violations = [
        entry for part in details for entry in part.get("violations") or () if isinstance(entry, Mapping)
    ]
    return any("PerDay" in str(entry.get("quotaId")) for entry in violations)


def _read_delay(error: APIError, details: list[Mapping[str, Any]]) -> float | None:
    delays = [
        _parse_seconds(str(part["retryDelay"]).removesuffix("s")) for part in details if "retryDelay" in part
    ]
    headers = getattr(error.response, "headers", None) or {}
    if header := headers.get("Retry-After"):
        delays.append(parse_retry_after(header))
    return max((delay for delay in delays if delay is not None), default=None)


def _read_redirect(error: APIError) -> str | None:
    """Return the scheme and host of the target without path and query, which may repeat the request; None: no host."""
    headers = getattr(error.response, "headers", None) or {}
    target = urlsplit(headers.get("Location", ""))
    return f"{target.scheme}://{target.netloc.rpartition('@')[2]}" if target.netloc else None


def parse_retry_after(header: str) -> float | None:
    """Read the seconds to wait from a header ``Retry-After``, which holds seconds or a date; None for anything else."""
    seconds = _parse_seconds(header)
    if seconds is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _parse_seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
