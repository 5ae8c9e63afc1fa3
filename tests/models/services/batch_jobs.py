"""The batch jobs of the loopback server: as the SDK creates, lists and gets them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EmbedEntry = Callable[[dict[str, Any]], list[float]]


@dataclass
class BatchJob:
    """One job: what was sent, and what the service says of it."""

    name: str
    label: str
    entries: list[dict[str, Any]]
    state: str = "BATCH_STATE_PENDING"
    results: list[dict[str, Any]] | None = None

    @property
    def texts(self) -> list[str]:
        return [entry["content"]["parts"][0]["text"] for entry in self.entries]

    def describe(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"displayName": self.label, "state": self.state}
        if self.results is not None:
            metadata["output"] = {"inlinedEmbedContentResponses": {"inlinedResponses": self.results}}
        return {"name": self.name, "metadata": metadata}


class BatchJobs:
    """Keeps jobs until a test finishes them, fails them or lets them vanish."""

    def __init__(self, embed: EmbedEntry) -> None:
        self.all: list[BatchJob] = []
        self.page_size = 2
        self._embed = embed
        self._lock = threading.Lock()

    @property
    def open(self) -> list[BatchJob]:
        return [job for job in self.all if job.state == "BATCH_STATE_PENDING"]

    @property
    def texts(self) -> list[str]:
        return [text for job in self.all for text in job.texts]

    def create(self, body: dict[str, Any]) -> bytes:
        batch = body["batch"]
        entries = [item["request"] for item in batch["inputConfig"]["requests"]["requests"]]
        with self._lock:
            job = BatchJob(f"batches/job-{len(self.all)}", batch["displayName"], entries)
            self.all.append(job)
        return json.dumps(job.describe()).encode()

    def get(self, name: str) -> bytes | None:
        found = next((job for job in self.all if job.name == f"batches/{name}"), None)
        return json.dumps(found.describe()).encode() if found else None

    def list_page(self, token: str) -> bytes:
        start = int(token or 0)
        page = self.all[start : start + self.page_size]
        body: dict[str, Any] = {"operations": [job.describe() for job in page]}
        if start + self.page_size < len(self.all):
            body["nextPageToken"] = str(start + self.page_size)
        return json.dumps(body).encode()

    def finish(self, errors: dict[str, str] | None = None) -> None:
        """Finish all open jobs.

        Args:
            errors: What the service answers instead of a vector, by text.
        """
        for job in self.open:
            job.results = [
                {"error": {"code": 13, "message": (errors or {})[text]}}
                if text in (errors or {})
                else {"response": {"embedding": {"values": self._embed(entry)}}}
                for text, entry in zip(job.texts, job.entries, strict=True)
            ]
            job.state = "BATCH_STATE_SUCCEEDED"

    def end(self, state: str) -> None:
        """End all open jobs without results, in a state such as ``BATCH_STATE_EXPIRED``."""
        for job in self.open:
            job.state = state
