"""Throughput of an embedder: measured on a few texts, or set by the limits of a service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import Embedder
from backstory.settings.embedding import EmbeddingSettings

ON_THIS_MACHINE = ("local", "hashing")
"""Providers that call no service."""

_SAMPLE_TOKENS = 4000
_SAMPLE_TEXTS = 32
_SECONDS_PER_MINUTE = 60


@dataclass(frozen=True)
class Pace:
    """How long texts take: the seconds, and where the figure comes from, for a reader."""

    seconds: float
    basis: str


def predict_pace(
    embedder: Embedder, settings: EmbeddingSettings, texts: Sequence[str], counts: NDArray[np.int64]
) -> Pace:
    """Predict how long texts take, by the tokens of each.

    A model on this machine embeds a sample of them, which takes a second or two. For a service the time follows
    from the limits in the settings, and no call is made; without limits it is the least time that can be.
    """
    if not texts:
        return Pace(0.0, "nothing to embed")
    if settings.provider not in ON_THIS_MACHINE:
        most_texts, most_tokens = settings.per_minute
        minutes = max(len(texts) / most_texts, float(counts.sum()) / most_tokens)
        return Pace(minutes * _SECONDS_PER_MINUTE, _describe_limits(settings))
    sample = _choose_sample(counts)
    sampled = [texts[row] for row in sample]
    embedder.embed(sampled[:1], task="document")  # loads the model
    started = time.perf_counter()
    embedder.embed(sampled, task="document")
    elapsed = time.perf_counter() - started
    seconds = elapsed * float(counts.sum()) / float(counts[sample].sum())
    return Pace(seconds, f"measured now on {len(sampled)} of these texts, at this machine's present load")


def _describe_limits(settings: EmbeddingSettings) -> str:
    # Gemini's defaults are its quota; those of other servers say nothing about their speed.
    limited = settings.texts_per_minute is not None or settings.tokens_per_minute is not None
    if settings.provider == "openai" and not limited:
        return "at best: your server's speed is not known"
    return "from the limits per minute in the settings"


def _choose_sample(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose texts of all lengths, evenly, up to a number of tokens."""
    order = np.argsort(counts, kind="stable")
    wanted = min(_SAMPLE_TEXTS, len(order), max(1, int(_SAMPLE_TOKENS / counts.mean())))
    places = (np.arange(wanted) * 2 + 1) * len(order) // (2 * wanted)
    chosen: NDArray[np.int64] = order[places]
    return chosen
