"""The languages of a keyword index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageTerms:
    """The part of a keyword index that is in one language.

    Attributes:
        stemmer: Name of the Snowball stemmer, or ``none``.
        rows: Number of counted rows.
        terms: Number of distinct terms of these rows.
    """

    stemmer: str
    rows: int
    terms: int
