"""Batch jobs of Gemini's embedding models: start, find and look at one.

The service answers within a day, at half the price. It knows no idempotent submission. So a job carries a label, and
one that may have been received is looked for by its label before it is sent again.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from backstory.base.errors import EmbeddingError
from backstory.models.embeddings.batch_job_store import Job
from backstory.models.embeddings.checks import make_unit_rows
from backstory.models.embeddings.gemini import TASK_TYPES, GeminiEmbedder
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.models.services.failures import quote_service
from backstory.models.services.gemini import TimedClient
from backstory.models.services.meter import Usage

if TYPE_CHECKING:
    from google.genai.types import BatchJob

_PAGE = 100
_LOST_STATES = {"FAILED": "failed", "CANCELLED": "was cancelled", "EXPIRED": "expired"}
_DONE_STATES = ("SUCCEEDED", "PARTIALLY_SUCCEEDED")
_NOT_FOUND = 404


@dataclass(frozen=True)
class JobAnswer:
    """What the service says of a job.

    Attributes:
        state: ``open``; ``done``; or ``lost``, which is over without vectors.
        reason: Why it is lost.
        vectors: By position in the job, the vector of each embedded text, shape ``(dimension,)``.
        failures: By position in the job, why a text was not embedded.
    """

    state: Literal["open", "done", "lost"]
    reason: str = ""
    vectors: dict[int, Vectors] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)


class GeminiJobs:
    """Calls the batch API with the connection of an embedder, within its rate limits and with its retries."""

    def __init__(self, embedder: GeminiEmbedder) -> None:
        self.embedder = embedder

    def require_room(self, texts: Sequence[str]) -> None:
        """Raise unless a job of these texts would be within the budgets now.

        Raises:
            BudgetExhaustedError: It would exceed a budget.
        """
        self.embedder.connection.meter.require_room(self._estimate(texts))

    def start(self, texts: Sequence[str], task: Task, label: str) -> str:
        """Submit a job once, however often the call is repeated after a failure.

        Args:
            texts: Its texts, in order.
            task: Whether they are queries or documents.
            label: A display name that no other job has.

        Returns:
            The job's name at the service.

        Raises:
            BudgetExhaustedError: The job would exceed a budget.
            ModelError: The service refused the job, or gave no usable answer.
        """
        sent = found = False
        whole = self._estimate(texts)

        def send(timed: TimedClient) -> str | None:
            from google.genai import errors, types

            nonlocal sent, found
            if sent and (name := _find(timed, label)):
                found = True
                return name
            sent = True
            contents: Any = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
            batch = types.EmbedContentBatch(
                contents=contents,
                config=types.EmbedContentConfig(
                    task_type=TASK_TYPES[task], output_dimensionality=self.embedder.dimension
                ),
            )
            # The SDK calls the method experimental at every call. A filter for a while would be one of all threads.
            warnings.simplefilter("ignore", errors.ExperimentalWarning)
            job = timed.client.batches.create_embeddings(
                model=self.embedder.model,
                src=types.EmbeddingsBatchJobSource(inlined_requests=batch),
                config=types.CreateEmbeddingsBatchJobConfig(display_name=label, http_options=timed.options),
            )
            return job.name

        def read(name: str | None) -> str:
            if not name:
                raise EmbeddingError(f"{self.embedder.id} took a batch job and gave it no name")
            return name

        def read_usage(_: str | None) -> Usage:
            return Usage() if found else whole  # the attempt that sent a found job is counted already

        return self.embedder.connection.call(send, read, units=1, tokens=0, most=whole, read_usage=read_usage)

    def _estimate(self, texts: Sequence[str]) -> Usage:
        return Usage(1, len(texts), int(self.embedder.count_tokens(texts).sum()), batch=True)

    def find(self, label: str) -> str | None:
        """Return the name of the job with a label; None if the service received none.

        Raises:
            ModelError: The service gave no usable answer.
        """
        return self.embedder.connection.call(
            lambda timed: _find(timed, label),
            lambda name: name,
            units=1,
            tokens=0,
            most=None,
        )

    def look(self, job: Job) -> JobAnswer:
        """Ask how far a job is, and read its vectors if it is done.

        Args:
            job: A job that the service has named.

        Returns:
            Its state and results. A job that the service does not know any more is lost.

        Raises:
            ModelError: The service gave no usable answer.
        """

        def send(timed: TimedClient) -> BatchJob | None:
            from google.genai import types
            from google.genai.errors import APIError

            try:
                return timed.client.batches.get(
                    name=str(job.name), config=types.GetBatchJobConfig(http_options=timed.options)
                )
            except APIError as error:
                if error.code == _NOT_FOUND:
                    return None
                raise

        return self.embedder.connection.call(
            send, lambda found: _read_answer(found, job), units=1, tokens=0, most=None
        )


def _find(timed: TimedClient, label: str) -> str | None:
    from google.genai import types

    listed = timed.client.batches.list(
        config=types.ListBatchJobsConfig(page_size=_PAGE, http_options=timed.options)
    )
    return next((job.name for job in listed if job.display_name == label), None)


def _read_answer(found: BatchJob | None, job: Job) -> JobAnswer:
    if found is None:
        return JobAnswer("lost", "the service does not know the batch job any more")
    state = (found.state.name if found.state else "").removeprefix("JOB_STATE_")
    if state in _LOST_STATES:
        return JobAnswer("lost", f"the batch job {_LOST_STATES[state]}")
    if state not in _DONE_STATES:
        return JobAnswer("open")
    responses: list[Any] = []
    if found.dest:
        # The SDK takes a list without a single vector for that of another kind of job.
        responses = list(found.dest.inlined_embed_content_responses or found.dest.inlined_responses or [])
    if len(responses) != job.texts:
        return JobAnswer("lost", f"the batch job answered {job.texts} texts with {len(responses)} results")
    answer = JobAnswer("done")
    for position, response in enumerate(responses):
        embedding = getattr(response.response, "embedding", None)
        if response.error is not None or embedding is None:
            message = quote_service((response.error.message if response.error else None) or "no vector", None)
            answer.failures[position] = f"the service answered: {message}"
            continue
        try:
            answer.vectors[position] = make_unit_rows(
                [embedding.values or []], (1, job.dimension), job.embedder_id
            )[0]
        except EmbeddingError as error:
            answer.failures[position] = str(error)
    return answer
