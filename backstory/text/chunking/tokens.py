"""Tokens: what counts them, and an estimate for models without an available tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Offsets: TypeAlias = NDArray[np.int64]
CountTokens: TypeAlias = Callable[[Sequence[str]], Offsets]


class TokenCounter(Protocol):
    """Counts the tokens of texts, and finds where each ends."""

    def count_tokens(self, texts: Sequence[str]) -> Offsets:
        """Count the tokens of each text, special tokens included."""
        ...

    def find_token_ends(self, texts: Sequence[str]) -> list[Offsets]:
        """Find the offset after each token of each text, in order; it is 0 for special tokens."""
        ...


_SPECIAL_TOKENS = 2
_UNITS_PER_TOKEN = 32
_SPACE = ord(" ")
_REPEATED_SPACE_UNITS = 18
_SEPARATOR = b"\xc0"  # never part of UTF-8, so it can separate texts
_BLOCK_CHARACTERS = 200_000  # a block and its weights stay in the processor's cache


def _weigh_bytes() -> bytes:
    """Return the weight of every byte in 1/32 tokens.

    The weights are an upper bound, fitted by linear programming to the counts of a byte-level BPE vocabulary of 50,000
    entries over prose, chats, code, hashes, base64, URLs and several scripts. Outside ASCII only the continuation bytes
    of UTF-8 have a weight: the more there are, the rarer the character.
    """
    weights = np.full(256, 52, np.uint8)  # symbols and control characters
    weights[ord("a") : ord("z") + 1] = 5
    weights[ord("A") : ord("Z") + 1] = 46
    weights[ord("0") : ord("9") + 1] = 33
    weights[_SPACE] = 16
    weights[[ord("\t"), ord("\n"), ord("\r")]] = 26
    weights[0x80:0xC0] = 45
    weights[0xC0:] = 0
    return weights.tobytes()


_WEIGHTS = _weigh_bytes()


def estimate_tokens(texts: Sequence[str]) -> NDArray[np.int64]:
    """Estimate the tokens of each text without a tokenizer, rather too high than too low.

    For English prose it is about 1.4 times the count of a byte-level BPE tokenizer. The usual rule of four characters
    per token is too low for hexadecimal digits, base64, URLs, code, Chinese and emoji; this estimate is not. It may be
    too low for words of other languages in plain Latin letters, and for random letters. Two are special tokens.
    """
    estimates = [np.zeros(0, np.int64)]
    average = sum(map(len, texts)) // max(len(texts), 1)
    block = max(1, _BLOCK_CHARACTERS // (average + 1))
    for start in range(0, len(texts), block):
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts[start : start + block]]
        ends = np.cumsum([len(each) + 1 for each in encoded])
        weights = _weigh(_SEPARATOR.join(encoded) + _SEPARATOR)
        sums = np.add.reduceat(weights, np.append(0, ends[:-1]), dtype=np.int64)
        estimates.append(_SPECIAL_TOKENS - (-sums // _UNITS_PER_TOKEN))
    return np.concatenate(estimates)


def find_estimated_ends(texts: Sequence[str]) -> list[Offsets]:
    """Find where the tokens of each text end if they are as many as :func:`estimate_tokens` says."""
    found = []
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        tokens = -(-_weigh(encoded).cumsum(dtype=np.int64) // _UNITS_PER_TOKEN)
        begins = (np.frombuffer(encoded, np.uint8) & 0xC0) != 0x80
        ends = np.repeat(begins.cumsum(dtype=np.int64), np.diff(tokens, prepend=0))
        found.append(np.concatenate([np.zeros(_SPECIAL_TOKENS, np.int64), ends]))
    return found


class _EstimatedTokens:
    count_tokens = staticmethod(estimate_tokens)
    find_token_ends = staticmethod(find_estimated_ends)


ESTIMATED_TOKENS: Final[TokenCounter] = _EstimatedTokens()
"""Counts by :func:`estimate_tokens`."""


def _weigh(encoded: bytes) -> NDArray[np.uint8]:
    """Return the weight of each byte; a space after a space weighs more than the first."""
    weights = np.frombuffer(encoded.translate(_WEIGHTS), np.uint8)
    spaces = np.frombuffer(encoded, np.uint8) == _SPACE
    repeated = np.zeros(len(encoded), np.uint8)
    repeated[1:] = spaces[1:] & spaces[:-1]
    if repeated.any():
        weights = weights + repeated * np.uint8(_REPEATED_SPACE_UNITS)
    return weights
