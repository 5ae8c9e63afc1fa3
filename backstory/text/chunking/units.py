"""Pages, sentences, words, grapheme clusters and tokens of a text, as character offsets.

What splits takes a range of a text and returns the ranges of its units in order. Only whitespace between the units is
omitted.

A full stop may end an abbreviation, an initial, an ordinal or an item's number, and no sentence. A chunk is cut before
its language is known, and a chat mixes languages, so the abbreviations of all languages count together. One that is
also a word of another language is in the list that claims less. Tokens are those of a model, or an estimate.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import numpy as np
import regex
from numpy.typing import NDArray

from backstory.text.words import list_all_stop_words

Range: TypeAlias = tuple[int, int]
Offsets: TypeAlias = NDArray[np.int64]
CountTokens: TypeAlias = Callable[[Sequence[str]], Offsets]

_WORD = re.compile(r"\S+")
_BODY = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_GRAPHEME = regex.compile(r"\X")
_LINE_ENDS = "\n\r\v\f\x85\u2028\u2029"
_SENTENCE_BREAK = re.compile(
    r"""
      [\n\r\v\f\x85\u2028\u2029]\s*                         # a line end
    | (?<=[.!?…。！？｡])\s+
    | (?<=[.!?…。！？｡]["'”’»)\]」』】）])\s+
    # no space follows in Chinese and Japanese
    | (?<=[。！？｡])(?![。！？｡"'”’»)\]」』】）\s\u0300-\u036f\ufe00-\ufe0f])
    | (?<=[。！？｡][”’」』】）])(?!\s)
    """,
    re.VERBOSE,
)
_ENDS_A_SENTENCE = re.compile(r"[.!?…。！？｡:：;|][\"'”’»)\]」』】）*_`]*\Z")
_BEGINS_A_LINE = re.compile(r"[-+*•>|]|\d{1,9}[.)]\s|#{1,6}\s|`{3}|~{3}")
ROW: Final = re.compile(r"[^\n:;|]{1,80}: [^\n;]*; [^\n:;]{1,80}: |[^\n|]*[^\s|] \| [^\s|]")
"""Beginning of a row of a table, as CSV and JSON (``name: Ann; city: Riga``) or a sheet (``Ann | Riga``) are read."""
_WORDS_BEFORE: Final = regex.compile(
    r"(?<![\p{L}\p{M}\p{N}])(?:ad )?(?:[\p{L}\p{M}ªº\-]{1,6}\.[ \u00a0\u202f]?){0,4}[\p{L}\p{M}ªº§№\-]{1,8}\Z"
)
_ORDINAL: Final = regex.compile(r"(?<![\p{L}\p{N}.,:])\p{Nd}{1,2}\Z")
_ITEM_NUMBER: Final = regex.compile(r"(?:\A|\n)[ \t>]*\p{Nd}{1,9}\Z")
_PART_AFTER: Final = regex.compile(r"([\p{L}\p{M}ªº\-]{1,6})\.")
_WORD_AFTER: Final = regex.compile(r"[\p{L}\p{M}'’]+")
_SPACES: Final = regex.compile(r"[ \u00a0\u202f]")
_OPENING: Final = "\"'“”‘’„«»([*_"
_LONGEST: Final = 48
"""Characters before a full stop that can belong to an abbreviation."""


@dataclass(frozen=True)
class Pages:
    """The pages of one text, of which each begins at one of ``starts``, the first at 0.

    A page without text begins where the next one does. ``confidences`` has those of pages whose text was recognised in
    an image, else None; it is empty if none was.
    """

    starts: Sequence[int] = ()
    confidences: Sequence[float | None] = ()

    def split(self, length: int) -> list[Range]:
        """Return start and end of every page of a text of some length; of the whole text if it has no pages."""
        return list(pairwise([0, *self.starts[1:], length]))

    def find(self, start: int, end: int) -> tuple[int, int] | None:
        """Find the first and the last page of a range of characters, from 1; None without pages."""
        if not self.starts:
            return None
        return bisect_right(self.starts, start), bisect_right(self.starts, max(start, end - 1))

    def find_confidence(self, first: int, last: int) -> float | None:
        """Return the least confidence of the pages ``first`` to ``last``, from 1; None if none was recognised."""
        known = [value for value in self.confidences[first - 1 : last] if value is not None]
        return min(known, default=None)


def split_sentences(text: str, start: int, end: int) -> list[Range]:
    """Split a range at the ends of sentences and lines."""
    return _strip(text, start, end, find_sentence_starts(text, start, end))


def find_sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Find where each sentence or line of a range begins that is not its first."""
    for match in _SENTENCE_BREAK.finditer(text, start, end):
        stop, after = match.span()
        is_inside_line = start < stop < after < end and text[stop] not in _LINE_ENDS
        if not (is_inside_line and _goes_on_after_stop(text, stop, after)):
            yield after


def join_wrapped(text: str, sentences: Iterable[Range]) -> list[Range]:
    """Join the lines of a sentence that goes on after a line end, and the sentences of a row of a table."""
    joined: list[Range] = []
    for start, end in sentences:
        if joined and _goes_on(text, joined[-1], start):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _goes_on(text: str, before: Range, start: int) -> bool:
    gap = text[before[1] : start]
    sentence = text[before[0] : before[1]]
    if sentence.startswith("|"):
        return "\n" not in gap
    return (
        gap.count("\n") == 1
        and not _ENDS_A_SENTENCE.search(sentence)
        and not sentence.startswith("#")
        and not _BEGINS_A_LINE.match(text, start)
        and not ROW.match(text, start)
    )


def split_words(text: str, start: int, end: int) -> list[Range]:
    """Split a range at its whitespace."""
    return [match.span() for match in _WORD.finditer(text, start, end)]


def split_graphemes(text: str, start: int, end: int, parts: int) -> list[Range]:
    """Split a range into parts of about the same length, never inside a grapheme cluster (Unicode Annex 29)."""
    boundaries = np.fromiter((match.start() for match in _GRAPHEME.finditer(text, start, end)), np.int64)
    wanted = start + (end - start) * np.arange(1, parts) // parts
    places = np.minimum(boundaries.searchsorted(wanted), len(boundaries) - 1)
    return _strip(text, start, end, boundaries[places].tolist())


def _strip(text: str, start: int, end: int, cuts: Iterable[int]) -> list[Range]:
    edges = pairwise(chain([start], cuts, [end]))
    return [body.span() for left, right in edges if (body := _BODY.search(text, left, right))]


def _goes_on_after_stop(text: str, stop: int, after: int) -> bool:
    """Return whether a sentence goes on after its mark before ``stop``; only spaces lie between it and ``after``."""
    mark = text[stop - 1]
    following = text[after : after + 3].lstrip(_OPENING)[:1]
    if mark != "." or text[stop - 2 : stop] == "..":
        # As in: “No way!” said Ann. Without quotation marks it does not: many chats have no capital letters.
        return mark not in "!?" and following.islower()
    before = text[max(stop - _LONGEST, 0) : stop - 1]
    words = _WORDS_BEFORE.search(before)
    if words is not None:
        return _abbreviates(_SPACES.sub("", words[0]).split("."), following, text, after)
    is_within = following.islower() or _read_word(text, after) in _read_abbreviations()["after_ordinal"]
    return _ITEM_NUMBER.search(before) is not None or (is_within and _ORDINAL.search(before) is not None)


def _abbreviates(written: Sequence[str], following: str, text: str, after: int) -> bool:
    """Return whether the words before a full stop are an abbreviation with which the sentence goes on."""
    parts = [part.casefold() for part in written]
    names = {".".join(parts[place:]) for place in range(len(parts))}
    lists = _read_abbreviations()
    kinds = {kind for kind, known in lists.items() if not names.isdisjoint(known)}
    rest = _PART_AFTER.match(text, after)
    is_initial = len(parts[-1]) == 1
    is_small = following.islower() or following.isdecimal()
    may_be_name = following.isupper() and (
        text[after + 1 : after + 2] == "." or _read_word(text, after) not in list_all_stop_words()
    )
    if "never_last" in kinds:
        return True
    if "before_name" in kinds and written[-1][0].isupper():
        return may_be_name
    if "before_number" in kinds and following.isdecimal():
        return True
    if rest and _begins_abbreviation(f"{parts[-1]}.{rest[1].casefold()}"):
        return True
    if "rarely_last" in kinds or (len(parts) > 1 and max(map(len, parts)) == 1 and is_small):
        return is_small
    return is_initial and may_be_name and written[-1].isupper() and written != ["I"]


@lru_cache(maxsize=1024)
def _begins_abbreviation(parts: str) -> bool:
    lists = _read_abbreviations()
    return any(known.startswith(parts) for known in lists["never_last"] | lists["rarely_last"])


def _read_word(text: str, after: int) -> str:
    word = _WORD_AFTER.match(text, after)
    return word[0].casefold() if word else ""


@cache
def _read_abbreviations() -> dict[str, frozenset[str]]:
    """Read the lists of all languages in small letters; the parts of an abbreviation are joined by full stops.

    The sentence goes on after those that are ``never_last``, whatever comes next; after those that are ``rarely_last``,
    with a small letter or a number. ``before_name`` stands before a name, if it begins with a capital letter: in small
    letters most are words. A number after ``before_number`` belongs to the sentence. Words ``after_ordinal`` may follow
    an ordinal with a full stop in spite of a capital letter, such as "3. Mai".
    """
    record = json.loads(Path(__file__).with_name("abbreviations.json").read_text(encoding="utf-8"))
    return {
        kind: frozenset(_SPACES.sub("", "|".join(languages.values())).split("|"))
        for kind, languages in record.items()
    }


class TokenCounter(Protocol):
    """Counts the tokens of texts, and finds where each ends."""

    def count_tokens(self, texts: Sequence[str]) -> Offsets:
        """Count the tokens of each text, special tokens included."""
        ...

    def find_token_ends(self, texts: Sequence[str]) -> list[Offsets]:
        """Find the offset after each token of each text, in order; it is 0 for special tokens."""
        ...


_SPECIAL_TOKENS: Final = 2
_UNITS_PER_TOKEN: Final = 32
_REPEATED_SPACE: Final = re.compile(rb"(?<= ) ")
_REPEATED_MARK: Final = b"\xc1"  # never part of UTF-8


def _weigh_bytes() -> bytes:
    """Return the weight of every byte in 1/32 tokens.

    The weights are an upper bound, fitted by linear programming to the counts of a byte-level BPE vocabulary of 50,000
    entries over prose, chats, code, hashes, base64, URLs and several scripts. Outside ASCII only the continuation bytes
    of UTF-8 have a weight: the more there are, the rarer the character. A space after a space weighs more than the
    first.
    """
    weights = np.full(256, 52, np.uint8)  # symbols and control characters
    weights[ord("a") : ord("z") + 1] = 5
    weights[ord("A") : ord("Z") + 1] = 46
    weights[ord("0") : ord("9") + 1] = 33
    weights[ord(" ")] = 16
    weights[[ord("\t"), ord("\n"), ord("\r")]] = 26
    weights[0x80:0xC0] = 45
    weights[0xC0:] = 0
    weights[ord(_REPEATED_MARK)] = 34
    return weights.tobytes()


_WEIGHTS: Final = _weigh_bytes()


def _weigh(encoded: bytes) -> NDArray[np.uint8]:
    """Return the weight of each byte."""
    return np.frombuffer(_REPEATED_SPACE.sub(_REPEATED_MARK, encoded).translate(_WEIGHTS), np.uint8)


def estimate_tokens(texts: Sequence[str]) -> Offsets:
    """Estimate the tokens of each text without a tokenizer, rather too high than too low.

    For English prose it is about 1.4 times the count of a byte-level BPE tokenizer. The usual rule of four characters
    per token is too low for hexadecimal digits, base64, URLs, code, Chinese and emoji; this estimate is not. It may be
    too low for words of other languages in plain Latin letters, and for random letters. Two are special tokens.
    """
    sums = [int(_weigh(text.encode("utf-8", "surrogatepass")).sum()) for text in texts]
    return _SPECIAL_TOKENS - (-np.array(sums, np.int64) // _UNITS_PER_TOKEN)


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
