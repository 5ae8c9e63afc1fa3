"""The ranges of the shipped model's activations, which a graph of whole numbers needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from backstory.base.files.arrays import read_arrays

RANGES_FILE = "granite_activation_ranges.npz"
OFFSET = "offset"
"""Name of the offset in the file, next to the projections."""


@dataclass(frozen=True)
class ActivationRanges:
    """The least and the largest value of every channel of the inputs of a model's projections.

    Attributes:
        limits: By the name of the projection, shape ``(2, channels)``; query, key and value share the name of their
            attention.
        offset: By how much the pooled row of whole numbers exceeds that of float32 on average, shape
            ``(channels,)``.
        checksum: SHA-256 of the file, hexadecimal: other ranges give other vectors.
    """

    limits: Mapping[str, NDArray[np.float32]]
    offset: NDArray[np.float32]
    checksum: str


def read_granite_ranges() -> ActivationRanges:
    """Read the ranges of the shipped model, which ``python -m benchmarks.activation_ranges`` measured."""
    content = (files("backstory.models.embeddings.local") / RANGES_FILE).read_bytes()
    limits = {name: stored.astype(np.float32) for name, stored in read_arrays(content).items()}
    return ActivationRanges(limits, limits.pop(OFFSET), hashlib.sha256(content).hexdigest())
