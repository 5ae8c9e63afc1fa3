"""Language detection for texts, windows, conversations and documents, by py3langid."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from backstory.base.wording import LANGUAGE_NAMES

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

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
# A run of more characters without a blank is cut. No paragraph is as long, even in a language written without blanks.
_WORD: Final = re.compile(r"\S{1,10000}")
# More of a long text would cost time without changing the result.
_MOST_TEXTS: Final = 2000
_MOST_RUNS: Final = 250
# Below one half, no language is the main one. Made-up words reach a share of .44 of a window; real chats begin at .83.
_LEAST_SHARE: Final = 0.5


def detect_language(texts: Iterable[str | None]) -> str | None:
    """Find the ISO 639-1 code of the main language of texts that belong together, always in the same way.

    It is None for too little text, or if no language or group of similar ones has half of the text, weighted by bytes
    and the detector's certainty. Addresses, mentions, code, tags and media placeholders are skipped, and of long texts
    an evenly spaced sample is read.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    total = 0
    for run in _thin(list(_cut_runs(texts)), _MOST_RUNS):
        (first, _), *_ = ranked = _load_detector().rank(run)
        if first == _NO_LANGUAGE:
            continue
        size = len(run.encode(errors="replace"))
        total += size
        for language, certainty in ranked:
            weights[language] += size * certainty
    together = dict(weights)
    for group in _ALIKE:
        together |= dict.fromkeys(group, sum(weights[each] for each in group))
    main = max(LANGUAGE_NAMES, key=lambda code: (together.get(code, 0), weights[code]))
    return main if total and together[main] >= _LEAST_SHARE * total else None


def rank_languages(text: str) -> list[tuple[str, float]]:
    """Rank the languages of a short text, ISO 639-1, with probabilities; empty if nothing of it is in a language."""
    said = _FOREIGN_MATTER.sub(" ", text).strip()
    ranked = _load_detector().rank(said) if said else []
    return [(language, share) for language, share in ranked if language != _NO_LANGUAGE]


def detect_languages(rows: pl.DataFrame, *, by: str, text: str = "text") -> pl.DataFrame:
    """Find the main language of each group of rows, in their order."""
    groups = rows.group_by(by, maintain_order=True).agg(pl.col(text))
    found = pl.Series("language", map(detect_language, groups[text]), pl.String)
    return groups.select(by, found)


def is_known(language: str | None, known: Collection[str] | None) -> bool:
    """Return whether a model knows a language or a similar one, as is assumed of a model that states no languages."""
    if language is None or known is None:
        return True
    alike = next((group for group in _ALIKE if language in group), {language})
    return not alike.isdisjoint(known)


def name_language(code: str) -> str:
    """Return the English name of a language, or the code itself if the name is not known."""
    return LANGUAGE_NAMES.get(code, code)


def english_name(code: pl.Expr) -> pl.Expr:
    """Return the English names of a column of codes; null for an unknown code."""
    return code.replace_strict(dict(LANGUAGE_NAMES), default=None, return_dtype=pl.String)


@cache
def _load_detector() -> LanguageIdentifier:
    """Load the detector of the languages that have a name, once in a process, which takes half a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detector.set_languages([*LANGUAGE_NAMES, _NO_LANGUAGE])
    return detector


def _cut_runs(texts: Iterable[str | None]) -> Iterator[str]:
    """Cut texts at white space into runs of about eighty bytes, across messages; the remainder is a run as well."""
    words: list[str] = []
    size = 0
    for text in _thin([text for text in texts if text], _MOST_TEXTS):
        for word in _WORD.findall(_FOREIGN_MATTER.sub(" ", text)):
            words.append(word)
            size += len(word.encode(errors="replace"))
            if size >= _RUN_BYTES:
                yield " ".join(words)
                words, size = [], 0
    if words:
        yield " ".join(words)


def _thin(items: list[str], most: int) -> list[str]:
    """Keep at most ``most`` items of a list, evenly spaced."""
    return items[:: -(-len(items) // most)] if items else items
