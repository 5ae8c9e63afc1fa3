"""Pairs of a part of a window and a stored chunk -> features, relative to the window and to the corpus.

No feature is a cosine by itself: each is compared with what the part, the chunk or the window finds elsewhere, in the
spread or the temperature of the embedding space. So one model of pairs serves several embedders. ``part_share``
and ``part_words`` tell of parts that are one short message, which ``is_single`` marks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from backstory.retrieval.evidence.pairs import Pairs, compare_rows
from backstory.retrieval.evidence.shared_words import Rows, Values, weigh_shared

_TINY: Final = 1e-6
_OF_NEIGHBOURS: Final = ("neighbour_deviations", "neighbours_above_window", "neighbour_words")


def measure_pairs(pairs: Pairs) -> dict[str, Values]:
    """Measure pairs.

    Args:
        pairs: The pairs of whole windows.

    Returns:
        The values of each feature, in the order of the pairs, shape ``(pairs,)``.
    """
    share = _share(pairs)
    return {
        **_measure_similarity(pairs, share),
        **_measure_words(pairs),
        **_measure_neighbours(pairs),
        **_measure_documents(pairs, share),
        "is_single": pairs.single[pairs.part].astype(np.float64),
    }


def _measure_similarity(pairs: Pairs, share: Values) -> dict[str, Values]:
    """Compare the cosine and the score of each pair with what its part finds elsewhere."""
    count = len(pairs.part_vectors)
    found = np.maximum(np.bincount(pairs.part, minlength=count), 1)
    mean = np.bincount(pairs.part, weights=pairs.score, minlength=count) / found
    return {
        "part_deviations": pairs.standardize(pairs.cosine),
        "gap_to_mean": (pairs.score - mean[pairs.part]) / pairs.temperature,
        "log_share": np.log(share + _TINY),
        "keywords": np.sqrt(pairs.keywords),
    }


def _share(pairs: Pairs) -> Values:
    """Return the share of each pair in the evidence of its part, a softmax of the scores."""
    count = len(pairs.part_vectors)
    best = _find_most(pairs.part, pairs.score, count)
    evidence = np.exp((pairs.score - best[pairs.part]) / pairs.temperature)
    share: Values = evidence / np.bincount(pairs.part, weights=evidence, minlength=count)[pairs.part]
    return share


def _find_most(group: Rows, values: Values, groups: int) -> Values:
    """Return the highest value of each group."""
    most = np.full(groups, -np.inf)
    np.maximum.at(most, group, values)
    return most


def _measure_words(pairs: Pairs) -> dict[str, Values]:
    """Measure the words and phrases that part and chunk share, weighted by rarity."""
    shared, rarest = weigh_shared(pairs.part_words, pairs.part, pairs.chunk_words, pairs.chunk)
    own = pairs.part_words.sum_rarity()[pairs.part]
    phrases, _ = weigh_shared(pairs.part_phrases, pairs.part, pairs.chunk_phrases, pairs.chunk)
    titles, _ = weigh_shared(pairs.part_words, pairs.part, pairs.title_words, pairs.chunk)
    return {
        "rarest_shared_word": rarest,
        "part_share": shared / np.maximum(own, _TINY),
        "part_words": np.log1p(own),
        "shared_phrases": np.log1p(phrases),
        "title_share": titles / np.maximum(pairs.title_words.sum_rarity()[pairs.chunk], _TINY),
    }


def _measure_neighbours(pairs: Pairs) -> dict[str, Values]:
    """Measure what the parts beside a part, and its whole window, have in common with the chunk."""
    if not (np.any(pairs.before >= 0) or np.any(pairs.after >= 0)):
        return {name: np.zeros(len(pairs.part)) for name in _OF_NEIGHBOURS}
    cosines, words = [], np.zeros(len(pairs.part))
    for beside in (pairs.before[pairs.part], pairs.after[pairs.part]):
        cosines.append(np.where(beside >= 0, pairs.compare(np.maximum(beside, 0)), np.nan))
        words += weigh_shared(pairs.part_words, beside, pairs.chunk_words, pairs.chunk)[0]
    count = np.isfinite(cosines).sum(axis=0)
    alone = count == 0
    mean = np.nansum(cosines, axis=0) / np.maximum(count, 1)
    window = _compare_window(pairs)
    return {
        "neighbour_deviations": np.where(alone, 0.0, pairs.standardize(mean)),
        "neighbours_above_window": np.where(alone, 0.0, (mean - window) / pairs.temperature),
        "neighbour_words": np.log1p(words),
    }


def _compare_window(pairs: Pairs) -> Values:
    """Return the cosine of the chunk of each pair with the mean of its window's parts."""
    windows = int(pairs.window.max(initial=-1)) + 1
    sums = np.zeros((windows, pairs.part_vectors.shape[1]), np.float32)
    np.add.at(sums, pairs.window, pairs.part_vectors)
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _TINY)
    return compare_rows(means, pairs.window[pairs.part], pairs.chunk_vectors, pairs.chunk)


def _measure_documents(pairs: Pairs, share: Values) -> dict[str, Values]:
    """Measure how much of the window finds the document of each pair, and how well."""
    parts, documents = len(pairs.part_vectors), int(pairs.document.max(initial=-1)) + 1
    # A document in a window, then in a part of it.
    found, of_pair = np.unique(pairs.window[pairs.part] * documents + pairs.document, return_inverse=True)
    by_part, of_finding = np.unique(of_pair * parts + pairs.part, return_inverse=True)
    owner = by_part // max(parts, 1)
    score = _find_most(of_finding, pairs.score, len(by_part))
    mass = np.bincount(owner, weights=np.bincount(of_finding, weights=share), minlength=len(found))
    count = np.bincount(owner, minlength=len(found))
    order = np.lexsort((-score, owner))
    best = np.cumsum(count) - count
    second = score[order][best + (count > 1)]
    asked = np.bincount(pairs.window[np.unique(pairs.part)])[pairs.window[pairs.part]].astype(np.float64)
    of_part = _find_most(pairs.part, pairs.score, parts)[pairs.part]
    return {
        "document_above_part": (score[order][best][of_pair] - of_part) / pairs.temperature,
        "document_second": pairs.standardize(second[of_pair]),
        "document_mass": np.log(mass[of_pair] / asked + 1e-4),
        "document_found": np.log(count[of_pair] / asked),
        "parts": np.log(asked),
    }
