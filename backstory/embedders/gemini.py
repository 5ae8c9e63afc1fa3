"""Gemini's embedding models, through the google-genai SDK.

The SDK sends any number of texts in one request, waits for ever by default, ignores the delay that a server
asks for, does not repeat dropped connections, and passes on missing or invalid vectors; all of that is dealt
with here.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tenacity
from numpy.typing import NDArray

from backstory.embedders.batching import group_in_order
from backstory.embedders.checks import require_text, require_within_limit
from backstory.embedders.gemini_failures import TransientError, interpret_api_error, redact
from backstory.embedders.protocol import Task, Vectors
from backstory.embedders.rate_limit import RateLimiter
from backstory.errors import EmbeddingError, EmbeddingInputError
from backstory.settings import EmbeddingSettings, read_api_key
from backstory.tokens import estimate_tokens

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import EmbedContentResponse
    from pydantic import SecretStr

logger = logging.getLogger(__name__)

MAX_TEXTS = 100
MAX_BATCH_TOKENS = 20_000
MAX_INPUT_TOKENS = 2048

_MIN_SIMILARITY = 0.7  # the original design's threshold, chosen for this model
_TASK_TYPES: dict[Task, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}
_HTTP_CLIENTS = ("httpx2", "httpx")


class GeminiEmbedder:
    """Calls the Gemini API from any number of threads, within limits that they share."""

    def __init__(
        self,
        settings: EmbeddingSettings,
        *,
        api_key: SecretStr | None = None,
        client: genai.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        """Prepare calls; the key is read and the SDK loaded by the first of them.

        Args:
            settings: Model, width, limits, time-out and number of attempts.
            api_key: The key; None reads it from the environment.
            client: A client to use instead of one made from the key.
            clock: Monotonic seconds.
            wait: Blocks the calling thread for a number of seconds; None waits in real time.
        """
        self._settings = settings
        self._model = settings.model.removeprefix("models/")
        self.dimension = settings.dimension
        self.id = f"gemini:{self._model}:{self.dimension}"
        self.max_input_tokens = MAX_INPUT_TOKENS
        self.default_min_similarity = _MIN_SIMILARITY
        self.workers = settings.threads
        self._api_key = api_key
        self._client = client
        self._connecting = threading.Lock()
        self._wait = wait or _wait_in_real_time
        self._limiter = RateLimiter(
            texts_per_minute=settings.texts_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
            clock=clock,
            wait=self._wait,
        )

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Estimate the tokens, since the model's tokenizer is not at hand; errs towards too many."""
        require_text(texts)
        return estimate_tokens(texts)

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into requests within the API's and the settings' limits."""
        return group_in_order(
            token_counts,
            max_texts=min(MAX_TEXTS, self._settings.texts_per_minute),
            max_tokens=min(MAX_BATCH_TOKENS, self._settings.tokens_per_minute),
        )

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed texts; more than one request takes are sent request by request.

        Args:
            texts: Any number of texts, none of them blank.
            task: Whether the texts are queries or documents.

        Returns:
            Unit rows, shape ``(len(texts), dimension)``, in the order of the texts.

        Raises:
            EmbeddingInputError: A text is blank or over ``max_input_tokens``.
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A daily quota is used up.
            EmbeddingError: The service did not answer with usable vectors in all attempts.
        """
        counts = self.count_tokens(texts)
        require_within_limit(counts, MAX_INPUT_TOKENS, self.id)
        blank = next((position for position, text in enumerate(texts) if not text.strip()), None)
        if blank is not None:
            raise EmbeddingInputError(f"text {blank} is blank, which {self.id} refuses; drop blank texts")
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for batch in self.plan_batches(counts):
            vectors[batch] = self._embed_batch([texts[at] for at in batch], int(counts[batch].sum()), task)
        return vectors

    def _embed_batch(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            stop=tenacity.stop_after_attempt(self._settings.max_attempts),
            wait=_choose_delay,
            sleep=self._wait,
            before_sleep=self._prepare_retry,
            reraise=True,
        )
        try:
            return retrying(self._request, texts, tokens, task)
        except TransientError as error:
            raise EmbeddingError(
                f"Gemini gave no usable answer in {self._settings.max_attempts} attempts; "
                f"the last one: {error}. What was embedded is kept, so the same command can be run again"
            ) from error

    def _request(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        client = self._connect()
        self._limiter.acquire(len(texts), tokens)
        # Nothing raised by the SDK is chained: it may carry the request's headers, and with them the key.
        from google.genai import types
        from google.genai.errors import APIError

        started = time.perf_counter()
        try:
            response = client.models.embed_content(
                model=self._model,
                # One Content per text: some models merge a bare list of strings into a single vector.
                contents=[types.Content(role="user", parts=[types.Part(text=text)]) for text in texts],
                config=types.EmbedContentConfig(
                    task_type=_TASK_TYPES[task],
                    output_dimensionality=self.dimension,
                    http_options=types.HttpOptions(
                        timeout=round(self._settings.timeout_seconds * 1000),
                        retry_options=types.HttpRetryOptions(attempts=1),
                    ),
                ),
            )
        except APIError as error:
            raise interpret_api_error(error, self._key_text()) from None
        except _transport_errors() as error:
            message = redact(str(error), self._key_text())
            raise TransientError(f"{type(error).__name__}: {message or 'connection lost'}") from None
        except ValueError as error:
            raise TransientError(f"the answer is not the JSON of the API ({type(error).__name__})") from None
        vectors = self._read_vectors(response, len(texts))
        logger.debug("gemini answered texts=%d seconds=%.2f", len(texts), time.perf_counter() - started)
        return vectors

    def _read_vectors(self, response: EmbedContentResponse, count: int) -> Vectors:
        if not response.embeddings:
            raise TransientError("the answer holds no vectors")
        values = [embedding.values or [] for embedding in response.embeddings]
        widths = sorted({len(row) for row in values})
        if len(values) != count or widths != [self.dimension]:
            raise EmbeddingError(
                f"{self.id} answered {count} texts with {len(values)} vectors of width "
                f"{' and '.join(map(str, widths))} instead of {count} of width {self.dimension}"
            )
        rows = np.array(values, np.float64)
        norms = np.linalg.norm(rows, axis=1)
        unusable = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
        if len(unusable):
            raise EmbeddingError(
                f"{self.id} answered {len(unusable)} of {count} texts with vectors that are zero or not "
                f"finite; the first is text {unusable[0]} of the request"
            )
        vectors: Vectors = (rows / norms[:, None]).astype(np.float32)
        return vectors

    def _connect(self) -> genai.Client:
        from google import genai
        from google.genai.types import HttpOptions

        with self._connecting:
            if self._client is None:
                self._api_key = self._api_key or read_api_key()
                self._client = genai.Client(
                    api_key=self._api_key.get_secret_value(),
                    vertexai=False,
                    http_options=HttpOptions(base_url=self._settings.base_url),
                )
            return self._client

    def _key_text(self) -> str | None:
        return self._api_key.get_secret_value() if self._api_key else None

    def _prepare_retry(self, state: tenacity.RetryCallState) -> None:
        error = _failure_of(state)
        delay = state.upcoming_sleep
        logger.warning(
            "gemini call failed attempt=%d retry_in=%.1fs cause=%s", state.attempt_number, delay, error
        )
        if error.delay is not None:
            self._limiter.pause(delay)  # the other threads would be refused as well


def _wait_in_real_time(seconds: float) -> None:
    threading.Event().wait(seconds)


_backoff = tenacity.wait_exponential_jitter(initial=1, max=60, jitter=1)


def _choose_delay(state: tenacity.RetryCallState) -> float:
    return _failure_of(state).delay or _backoff(state)


def _failure_of(state: tenacity.RetryCallState) -> TransientError:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, TransientError):
        raise TypeError(f"only transient errors are repeated, not {type(error).__name__}")
    return error


def _transport_errors() -> tuple[type[Exception], ...]:
    """Give the base of connection errors of every HTTP client that the SDK may use."""
    modules: list[Any] = [
        importlib.import_module(name) for name in _HTTP_CLIENTS if importlib.util.find_spec(name)
    ]
    return tuple(module.TransportError for module in modules)
