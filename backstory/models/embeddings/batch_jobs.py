"""Batch mode of embedding: a run submits missing vectors as batch jobs, and a later run finds them in the cache.

Order of the steps, so that a process may be killed between any two of them: a job is written down under its label,
submitted, and its name written down; when it is done, its vectors are stored, and then it is removed from the
record. A job without a name is looked for by its label, and taken up or forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import numpy as np

from backstory.base.errors import BatchesPendingError, EmbeddingError, QuotaExhaustedError
from backstory.base.files.atomic import exclusive_temporary
from backstory.models.embeddings.batch_job_store import HOW_TO_GO_ON, BatchJobStore, Job, describe_jobs
from backstory.models.embeddings.batches import group_in_order
from backstory.models.embeddings.cache import EmbeddingCache, embedding_key
from backstory.models.embeddings.gemini_jobs import GeminiJobs, JobAnswer
from backstory.models.embeddings.protocol import Task

MAX_JOB_TEXTS = 2000
"""Most texts of a job: its answer holds some 30 MB of numbers."""

MAX_JOB_BYTES = 10_000_000
"""Most bytes of a job's texts; the service takes 20 MB in one request."""

MAX_JOBS_PER_TEXT = 3
"""Number of jobs that may hold a text before it is named in an error."""

logger = logging.getLogger(__name__)


class EmbeddingJobs:
    """Orders vectors of one workspace as batch jobs, and stores those of finished jobs in its cache.

    Processes take turns: submitting and collecting are locked.

    Attributes:
        book: The record of the jobs.
    """

    def __init__(
        self,
        service: GeminiJobs,
        book: BatchJobStore,
        cache: EmbeddingCache,
        *,
        submits: bool,
        min_texts: int,
        max_texts: int = MAX_JOB_TEXTS,
    ) -> None:
        """Set service and files.

        Args:
            service: Starts jobs and looks at them.
            book: The record of the jobs.
            cache: Receives the vectors.
            submits: Whether jobs are submitted; if not, only the open ones are collected.
            min_texts: Fewest missing texts for which a job is submitted.
            max_texts: Most texts of a job.
        """
        self.book = book
        self._service = service
        self._embedder = service.embedder
        self._cache = cache
        self._submits = submits
        self._min_texts = min_texts
        self._max_texts = max_texts

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do: no jobs are submitted, and none is open."""
        return not self._submits and not self.book.list_jobs()

    def require(self, texts: Sequence[str], task: Task) -> None:
        """Return if all vectors are in the cache, or may be computed by normal calls; else order what is missing.

        Args:
            texts: Texts whose vectors are needed now.
            task: Whether they are queries or documents.

        Raises:
            BatchesPendingError: Texts are in batch jobs that are not done. The message says how many, and what to do.
            EmbeddingError: The service refused a job, or a text failed in :data:`MAX_JOBS_PER_TEXT` jobs.
        """
        refusal = self.order(texts, task)
        if not self._submits or not any(self.find_ordered(texts, task)):
            return
        note = f"; {refusal}" if refusal else ""
        jobs = self.book.list_jobs()
        raise BatchesPendingError(
            f"{describe_jobs(jobs)}{note}. {HOW_TO_GO_ON}",
            jobs=len(jobs),
            texts=sum(job.texts for job in jobs),
            refusal=refusal,
        )

    def find_ordered(self, texts: Sequence[str], task: Task) -> list[bool]:
        """Return for each text whether it is in a job that is not over."""
        ordered = self.book.open_keys()
        return [embedding_key(self._embedder.id, task, text) in ordered for text in texts]

    def order(self, texts: Sequence[str], task: Task) -> str:
        """Collect finished jobs, and submit the texts whose vectors are missing and not ordered yet.

        Args:
            texts: Any number of texts.
            task: Whether they are queries or documents.

        Returns:
            Why the service took no further job while others are open, in a sentence; empty if all were taken.

        Raises:
            EmbeddingError: The service refused the first job, or a text failed in :data:`MAX_JOBS_PER_TEXT` jobs.
        """
        if self.idle:
            return ""
        with exclusive_temporary(self.book.path):
            still_open = self._collect()
            if self._submits:
                return self._submit(list(dict.fromkeys(texts)), task)
        if still_open:
            logger.warning(
                "embedding.batch is off: texts of %d open batch jobs are embedded by normal calls, too",
                still_open,
            )
        return ""

    def collect(self) -> int:
        """Store the vectors of finished jobs, and close jobs that are lost.

        Returns:
            Number of jobs that are still open.

        Raises:
            ModelError: The service gave no usable answer.
        """
        if not self.book.list_jobs():
            return 0
        with exclusive_temporary(self.book.path):
            return self._collect()

    def _collect(self) -> int:
        still_open = 0
        for job in self.book.list_jobs():
            if job.name is None:
                name = self._service.find(job.label)
                if name is None:
                    logger.warning(
                        "batch job %s was never received; its texts are submitted again", job.label
                    )
                    self.book.close(job.label, {})
                    continue
                self.book.name(job.label, name)
                job = replace(job, name=name)
            answer = self._service.look(job)
            if answer.state == "open":
                still_open += 1
            else:
                self._close(job, answer)
        return still_open

    def _close(self, job: Job, answer: JobAnswer) -> None:
        keys = self.book.keys_of(job.label)
        failures = {key: answer.failures.get(at, answer.reason) for at, key in enumerate(keys) if key}
        done = [(key, answer.vectors[at]) for at, key in enumerate(keys) if key and at in answer.vectors]
        if done:
            self._cache.put(job.embedder_id, [key for key, _ in done], np.stack([row for _, row in done]))
        for key, _ in done:
            del failures[key]
        self.book.close(job.label, failures, done=[key for key, _ in done])
        if failures:
            logger.warning(
                "batch job %s: %d of %d texts have no vector; the first: %s",
                job.name,
                len(failures),
                job.texts,
                next(iter(failures.values())),
            )
        else:
            logger.info("batch job %s is done texts=%d", job.name, job.texts)

    def _submit(self, texts: list[str], task: Task) -> str:
        missing, keys = self._find_missing(texts, task)
        if len(missing) < max(1, self._min_texts):
            return ""
        self._require_attempts(keys)
        self._embedder.count_accepted_tokens(missing)
        sizes = np.array([len(text.encode()) for text in missing], np.int64)
        for group in group_in_order(sizes, max_texts=self._max_texts, max_tokens=MAX_JOB_BYTES):
            job = Job(
                label=f"backstory-{uuid4().hex}",
                embedder_id=self._embedder.id,
                dimension=self._embedder.dimension,
                task=task,
                planned=datetime.now(UTC).isoformat(timespec="seconds"),
                name=None,
                texts=len(group),
            )
            batch = [missing[at] for at in group]
            # Before the job is recorded, so that none is looked for in vain.
            self._service.require_room(batch)
            self.book.plan(job, [keys[at] for at in group])
            try:
                self.book.name(job.label, self._service.start(batch, task, job.label))
            except (EmbeddingError, QuotaExhaustedError) as error:
                # An open job will make room for the next one. The refused job is looked for by its label first.
                if not any(known.name for known in self.book.list_jobs()):
                    raise
                return f"the service took no further job: {error}"
        return ""

    def _find_missing(self, texts: list[str], task: Task) -> tuple[list[str], list[bytes]]:
        keys = [embedding_key(self._embedder.id, task, text) for text in texts]
        known, _ = self._cache.get(keys, self._embedder.dimension)
        ordered = self.book.open_keys()
        wanted = [at for at, key in enumerate(keys) if not known[at] and key not in ordered]
        return [texts[at] for at in wanted], [keys[at] for at in wanted]

    def _require_attempts(self, keys: Sequence[bytes]) -> None:
        """Raise if a text failed too often, and let the next run start from the beginning."""
        failures = self.book.failures()
        spent = [
            at
            for at, key in enumerate(keys)
            if key in failures and failures[key].attempts >= MAX_JOBS_PER_TEXT
        ]
        if not spent:
            return
        self.book.forgive([keys[at] for at in spent])
        raise EmbeddingError(
            f"{len(spent)} of {len(keys)} missing texts have no vector after {MAX_JOBS_PER_TEXT} batch jobs; the first "
            f"is text {spent[0]} of them: {failures[keys[spent[0]]].reason}. Run again to submit them from the start, "
            "or set `embedding: {batch: false}` to embed them by normal calls, whose errors are more exact",
            code="spent_texts",
            texts=len(spent),
            of=len(keys),
            attempts=MAX_JOBS_PER_TEXT,
            reason=failures[keys[spent[0]]].reason,
        )
