"""Counters of tokens for tests: some that can be worked out by hand, and the tokenizer of the default model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backstory.models.onnx_text import TextTokenizer
from backstory.text.chunking.units import CountTokens, TokenCounter


@dataclass(frozen=True)
class PatternCounter:
    """One token for each match of a pattern, by default for each word; ``count`` may say that there are others."""

    pattern: str = r"\S+"
    count: CountTokens | None = None

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        if self.count is not None:
            return self.count(texts)
        return np.array([len(re.findall(self.pattern, text)) for text in texts], np.int64)

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [
            np.array([found.end() for found in re.finditer(self.pattern, text)], np.int64) for text in texts
        ]


@dataclass(frozen=True)
class ModelCounter:
    """The tokens of a model, special tokens included."""

    tokenizer: TextTokenizer

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return self.tokenizer.count(texts)

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return self.tokenizer.find_ends(texts)


WORDS: TokenCounter = PatternCounter()
CHARACTERS: TokenCounter = PatternCounter("(?s).")
