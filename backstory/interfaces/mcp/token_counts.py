"""Counts tokens as the tokenizer of granite-embedding-30m-english does, word by word, so that known words are free.

That tokenizer is always installed: a byte-level BPE vocabulary of 50,265 entries, that of GPT-2 and RoBERTa. No token
of it holds a space after a character that is no white space, or a quotation mark beside a letter or digit. So the count
of a text is the sum over its words and the keys and values of its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from backstory.text.chunking.tokens import estimate_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MOST_WORDS: Final = 50_000
"""Words that are remembered before all are forgotten."""
# A word begins with the spaces before it, and a run of white space belongs to one word as a whole. It ends between a
# letter or digit and a quotation mark, whichever comes first. Nothing follows the pattern, so that nothing is tried
# twice; possessive quantifiers, which say so, err in Python 3.11.2.
_WORDS: Final = re.compile(r""" *(?:[A-Za-z0-9]+|"+)?(?:(?:[^ A-Za-z0-9"]|(?<=\s) )+(?:[A-Za-z0-9]+|"+)?)*""")


class TokenCounter:
    """Counts tokens, and remembers the counts of words. It serves any number of threads."""

    def __init__(self) -> None:
        """Remember nothing yet. The tokenizer is loaded for the first text that must be counted."""
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Count the tokens of a text; a lone surrogate of a hostile file name counts as a question mark."""
        words = _split(text)
        known = self._learn(words)
        return sum(map(known.__getitem__, words))

    def is_within(self, text: str, most: int) -> bool:
        """Return whether a text has at most a number of tokens.

        Words whose counts are not known are estimated first, rarely too low. They are counted if that is too many.
        """
        if _estimate([text]) <= most:
            return True
        words = _split(text)
        counts = list(map(self._known.get, words))
        total = sum(filter(None, counts))
        if total > most or None not in counts:
            return total <= most
        unknown = [word for word, known in zip(words, counts, strict=True) if known is None]
        if len(unknown) < len(words) and total + _estimate(unknown) <= most:
            return True
        known = self._learn(unknown)
        return total + sum(map(known.__getitem__, unknown)) <= most

    def _learn(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the counts of words; those that are not known are counted in one batch."""
        if len(self._known) > _MOST_WORDS:
            self._known = {}
        # Another thread may forget all words: this one keeps those that it looks at.
        known = self._known
        unknown = [word for word in dict.fromkeys(words) if word not in known]
        if unknown:
            encoded = _tokenizer().encode_batch_fast(unknown, add_special_tokens=False)
            known.update(zip(unknown, map(len, encoded), strict=True))
        return known


def _split(text: str) -> list[str]:
    return _WORDS.findall(text.encode("utf-8", "replace").decode())


def _estimate(texts: Sequence[str]) -> int:
    return int(estimate_tokens(["".join(texts)])[0])


@cache
def _tokenizer() -> Tokenizer:
    # Loaded late: most results are small enough by the estimate.
    from tokenizers import Tokenizer

    from backstory.models.embeddings.local.granite_pack import read_granite_pack

    tokenizer = Tokenizer.from_buffer(read_granite_pack().read_tokenizer())
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer
