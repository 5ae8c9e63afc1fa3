"""Language detection for texts, windows, conversations and documents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
import polars as pl

from backstory.base.wording import LANGUAGE_NAMES
from backstory.text.language_detector import LanguageDetector, load_detector

# Languages so similar in writing that the detector often splits a chat between them. Each group counts as one.
_ALIKE: Final = (frozenset({"bs", "hr", "sr"}), frozenset({"id", "ms"}), frozenset({"nn", "no"}))

# The detector's label for numbers, markup and other text that is in no language.
_NO_LANGUAGE: Final = "zxx"

# Text that is the same in every language, or that nobody typed. An address is sought only where a word begins: from
# each letter of a text without blanks, such as a Chinese one, the search would read the whole text.
_FOREIGN_MATTER: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`"  # code
    r"|<[^<>\n]{1,200}>"  # tags, and placeholders of media
    r"|(?:https?://|www\.)\S+|(?<!\S)[^\s@]+@\S+\.\w+|@\S+"  # addresses and mentions
    r"|\bmember-[0-9a-f]{10}\b",  # pseudonyms
    re.DOTALL,
)

# The detector often errs on a single short message, but rarely on a run of this many bytes. The unit is bytes of
# UTF-8, since a Japanese character carries about as much as three Latin letters.
_RUN_BYTES: Final = 80
# Characters of a run in which no blank is. No paragraph is as long, even in a language that is written without blanks.
_LONGEST_WORD: Final = 10_000
# More of a long text would cost time without changing the result.
_MOST_TEXTS: Final = 2000
_MOST_RUNS: Final = 250
# Below one half, no language is the main one. Made-up words reach a share of .44 of a window; real chats begin at .83.
_LEAST_SHARE: Final = 0.5


@dataclass(frozen=True)
class LanguageShare:
    """The main language of some texts, and its share of them.

    Attributes:
        language: ISO 639-1 code. None if the language cannot be detected: too little text, no language with a share
            of one half, or nothing but addresses, numbers and emoji.
        share: Share of the text in this language or a similar one, 0 to 1, weighted by bytes and the detector's
            certainty. If ``language`` is None, the share of the most probable language.
    """

    language: str | None
    share: float


def measure_language(texts: Iterable[str | None]) -> LanguageShare:
    """Find the main language of texts that belong together.

    Addresses, mentions, code, tags and media placeholders are skipped. Of long texts, an evenly spaced sample is
    read. The same texts always give the same result.
    """
    runs = _thin(list(_cut_runs(texts)), _MOST_RUNS)
    if not runs:
        return LanguageShare(None, 0.0)
    detector = _load_detector()
    certainties = detector.measure(runs)
    is_said = certainties.argmax(axis=1) != detector.labels.index(_NO_LANGUAGE)
    sizes = np.array([_count_bytes(run) for run in runs])[is_said]
    total = int(sizes.sum())
    if not total:
        return LanguageShare(None, 0.0)
    weighted = sizes[:, np.newaxis] * certainties[is_said].astype(np.float64)
    weights = dict(zip(detector.labels, weighted.cumsum(axis=0)[-1].tolist(), strict=True))
    together = dict(weights)
    for group in _ALIKE:
        together |= dict.fromkeys(group, sum(weights[each] for each in group))
    main = max(LANGUAGE_NAMES, key=lambda code: (together.get(code, 0.0), weights[code]))
    share = together[main] / total
    return LanguageShare(main if share >= _LEAST_SHARE else None, share)


def detect_language(texts: Iterable[str | None]) -> str | None:
    """Find the main language of texts that belong together, by :func:`measure_language`.

    It returns the ISO 639-1 code, or None if the language cannot be detected.
    """
    return measure_language(texts).language


def rank_languages(text: str) -> list[tuple[str, float]]:
    """Rank the languages that a single short text may be in; :func:`detect_language` is for longer ones.

    It returns ISO 639-1 codes with probabilities, which add up to at most 1, the most probable first; empty if nothing
    of the text is in a language.
    """
    said = _FOREIGN_MATTER.sub(" ", text).strip()
    if not said:
        return []
    detector = _load_detector()
    shares = zip(detector.labels, detector.measure([said])[0].tolist(), strict=True)
    ranked = sorted(shares, key=itemgetter(1), reverse=True)
    return [(language, share) for language, share in ranked if language != _NO_LANGUAGE]


def detect_languages(rows: pl.DataFrame, *, by: str, text: str = "text") -> pl.DataFrame:
    """Find the main language of each group of rows, such as each window, conversation, export or document.

    It returns one row per group, in the order of their first rows: the column ``by``, ``language`` and ``share`` as in
    :class:`LanguageShare`.
    """
    groups = rows.group_by(by, maintain_order=True).agg(pl.col(text))
    found = [measure_language(texts) for texts in groups[text]]
    return groups.select(
        by,
        language=pl.Series([each.language for each in found], dtype=pl.String),
        share=pl.Series([each.share for each in found], dtype=pl.Float64),
    )


def is_known(language: str | None, known: Collection[str] | None) -> bool:
    """Return whether a model knows a language.

    It returns False only if the language was detected, the model states its languages, and neither this language nor a
    similar one is among them.
    """
    return language is None or known is None or not _alike(language).isdisjoint(known)


def name_language(code: str) -> str:
    """Return the English name of a language, or the code itself if the name is not known."""
    return LANGUAGE_NAMES.get(code, code)


def english_name(code: pl.Expr) -> pl.Expr:
    """Return the English names of a column of codes; null for an unknown code."""
    return code.replace_strict(dict(LANGUAGE_NAMES), default=None, return_dtype=pl.String)


def _load_detector() -> LanguageDetector:
    return load_detector((*LANGUAGE_NAMES, _NO_LANGUAGE))


def _alike(code: str) -> frozenset[str]:
    """Return the group of similar languages that this language belongs to, itself included."""
    return next((group for group in _ALIKE if code in group), frozenset({code}))


def _cut_runs(texts: Iterable[str | None]) -> Iterator[str]:
    """Cut texts at white space into runs of about eighty bytes, across messages; the remainder is a run as well."""
    words: list[str] = []
    size = 0
    for text in _thin([text for text in texts if text], _MOST_TEXTS):
        for word in _cut_long(_FOREIGN_MATTER.sub(" ", text).split()):
            words.append(word)
            size += _count_bytes(word)
            if size >= _RUN_BYTES:
                yield " ".join(words)
                words, size = [], 0
    if words:
        yield " ".join(words)


def _cut_long(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        for start in range(0, len(word), _LONGEST_WORD):
            yield word[start : start + _LONGEST_WORD]


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


def _thin(items: list[str], most: int) -> list[str]:
    """Keep at most ``most`` items of a list, evenly spaced."""
    return items[:: -(-len(items) // most)] if items else items
