"""Counts tokens as the tokenizer of granite-embedding-30m-english does, so that what is known is not counted again.

That tokenizer is always installed: a byte-level BPE vocabulary of 50,265 entries, that of GPT-2 and RoBERTa. No token
of it holds a space after a character that is no white space, or a quotation mark beside a letter or digit. So the count
of a text is the sum over its words and the keys and values of its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from backstory.text.chunking.units import estimate_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MOST_WORDS: Final = 50_000
"""Words that are remembered before all are forgotten."""
_MOST_CHARACTERS: Final = 5_000_000
"""Characters of pieces that are remembered before all are forgotten."""
# A piece ends after a quotation mark that a letter or digit follows, where a word ends as well. In JSON, a piece is a
# key, or a value with what stands before the next key.
_PIECES: Final = re.compile(r"""[^"]*(?:"+(?![A-Za-z0-9"])[^"]*)*"*""")
# A word begins with the spaces before it, and a run of white space belongs to one word as a whole. It ends between a
# letter or digit and a quotation mark, whichever comes first. Nothing follows the pattern, so that nothing is tried
# twice; possessive quantifiers, which say so, err in Python 3.11.2.
_WORDS: Final = re.compile(r""" *(?:[A-Za-z0-9]+|"+)?(?:(?:[^ A-Za-z0-9"]|(?<=\s) )+(?:[A-Za-z0-9]+|"+)?)*""")


class TokenCounter:
    """Counts tokens, and remembers the counts of words and of pieces. It serves any number of threads.

    The same passages are in many results, so what is counted is first cut into pieces between quotation marks, and
    only pieces that are not known are cut into words.
    """

    def __init__(self) -> None:
        """Remember nothing yet. The tokenizer is loaded for the first text that must be counted."""
        self._words: dict[str, int] = {}
        self._pieces: dict[str, int] = {}
        self._room = _MOST_CHARACTERS

    def count(self, text: str) -> int:
        """Count the tokens of a text; a lone surrogate of a hostile file name counts as a question mark."""
        pieces = _split(text)
        known = self._count_pieces(pieces)
        return sum(map(known.__getitem__, pieces))

    def is_within(self, text: str, most: int) -> bool:
        """Return whether a text has at most a number of tokens.

        Pieces whose counts are not known are estimated first, rarely too low. They are counted if that is too many.
        """
        if _estimate([text]) <= most:
            return True
        pieces = _split(text)
        counts = list(map(self._pieces.get, pieces))
        total = sum(filter(None, counts))
        if total > most or None not in counts:
            return total <= most
        unknown = [piece for piece, known in zip(pieces, counts, strict=True) if known is None]
        if len(unknown) < len(pieces) and total + _estimate(unknown) <= most:
            return True
        known = self._count_pieces(unknown)
        return total + sum(map(known.__getitem__, unknown)) <= most

    def _count_pieces(self, pieces: Sequence[str]) -> Mapping[str, int]:
        """Return the counts of pieces; those that are not known are counted word by word."""
        if self._room < 0:
            self._pieces, self._room = {}, _MOST_CHARACTERS
        # Another thread may forget all pieces: this one keeps those that it looks at.
        known = self._pieces
        unknown = [piece for piece in dict.fromkeys(pieces) if piece not in known]
        words = [_WORDS.findall(piece) for piece in unknown]
        counts = self._count_words(list(chain.from_iterable(words)))
        known.update(
            (piece, sum(map(counts.__getitem__, each))) for piece, each in zip(unknown, words, strict=True)
        )
        self._room -= sum(map(len, unknown))
        return known

    def _count_words(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the counts of words; those that are not known are counted in one batch."""
        if len(self._words) > _MOST_WORDS:
            self._words = {}
        known = self._words
        unknown = [word for word in dict.fromkeys(words) if word not in known]
        if unknown:
            encoded = _tokenizer().encode_batch_fast(unknown, add_special_tokens=False)
            known.update(zip(unknown, map(len, encoded), strict=True))
        return known


def _split(text: str) -> list[str]:
    return _PIECES.findall(text.encode("utf-8", "replace").decode())


def _estimate(texts: Sequence[str]) -> int:
    return int(estimate_tokens(["".join(texts)])[0])


@cache
def _tokenizer() -> Tokenizer:
    # Loaded late: most results are small enough by the estimate.
    from tokenizers import Tokenizer

    from backstory.models.embeddings.packs import read_granite_pack

    tokenizer = Tokenizer.from_buffer(read_granite_pack().read_tokenizer())
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer
