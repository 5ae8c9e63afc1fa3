"""Kept chunks x the query chunks that found them -> the passage of each document that serves a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from backstory.base.ids import WHOLE_WINDOW
from backstory.retrieval.passages.choice import Offer, choose_units, count_tokens
from backstory.retrieval.passages.units import Surroundings, find_runs, join_chunks, join_runs
from backstory.settings.models import ContextSettings
from backstory.text.chunking.units import Range, estimate_tokens
from backstory.text.people import ShowText
from backstory.text.prompts.entries import count_frames, count_longest, count_passages, cut_snippet

TermsOf = Callable[[Sequence[str]], pl.DataFrame]

_LEAST_TOKENS: Final = 24
"""Tokens that each passage gets before the rest of the budget is divided."""
_ATTEMPTS: Final = 3
_SLACK_TOKENS: Final = 64
"""Tokens of the budget that may be left over."""
_RARITY_DECIMALS: Final = 1
"""Coarse, so that a passage does not change with each document that is added elsewhere in the corpus."""
_SCHEMA: Final = {"passage": pl.String, "passage_start": pl.Int64, "passage_end": pl.Int64}


@dataclass(frozen=True)
class _Passage:
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Window:
    """The kept chunks of a window.

    Attributes:
        records: Rows of table ``contexts``, by rank.
        weights: Weight of each in the division of the budget.
        offers: What each chunk offers, by its id.
        query_words: The query words of a chunk with their rarity, by window and chunk.
    """

    records: Sequence[Mapping[str, Any]]
    weights: Sequence[int]
    offers: Mapping[str, Offer]
    query_words: Mapping[tuple[str, str], Mapping[int, float]]


def make_passages(
    rows: pl.DataFrame,
    served: Mapping[tuple[str, str], int],
    around: pl.DataFrame,
    window_chunks: pl.DataFrame,
    terms_of: TermsOf,
    settings: ContextSettings,
    show: ShowText,
) -> pl.DataFrame:
    """Choose the passage of each kept chunk.

    Args:
        rows: Table ``contexts`` without the passages, by window and rank.
        served: Number of query chunks for which a chunk is the best of its window, by window and chunk.
        around: Chunks beside the kept ones, :meth:`backstory.index.search.SearchIndex.read_around`.
        window_chunks: Table ``window_chunks`` of these windows.
        terms_of: Gives the known words of texts and their rarity, :meth:`backstory.index.search.SearchIndex.terms_of`.
        settings: The budget of a window, divided among its chunks by ``served``.
        show: Shows a passage as readers see it.

    Returns:
        ``rows`` with ``passage``, ``passage_start`` and ``passage_end``.
    """
    offers = _make_offers(rows, around, terms_of)
    query_words = _weigh_questions(rows, window_chunks, terms_of)
    passages: list[_Passage] = []
    for (window_id,), group in rows.group_by("window_id", maintain_order=True):
        records = group.to_dicts()
        weights = [1 + served.get((str(window_id), row["chunk_id"]), 0) for row in records]
        passages += _fill(_Window(records, weights, offers, query_words), settings, show)
    return rows.hstack(
        pl.DataFrame(
            [(passage.text, passage.start, passage.end) for passage in passages], _SCHEMA, orient="row"
        )
    )


def _fill(window: _Window, settings: ContextSettings, show: ShowText) -> list[_Passage]:
    """Choose the passages of a window so that they fill its budget in the format that writes them longest."""
    records = window.records
    room = settings.max_tokens - count_longest([]) - int(count_frames(records).sum())
    best: list[_Passage] | None = None
    for _ in range(_ATTEMPTS):
        passages = [
            replace(passage, text=show(row["window_id"], row["document_id"], passage.text))
            for row, passage in zip(
                records, _choose_window(window, _divide(window, settings, room)), strict=True
            )
        ]
        left = settings.max_tokens - count_longest(_join(records, passages))
        if left >= 0:
            best = passages
        elif best is not None:
            return best
        if 0 <= left < _SLACK_TOKENS:
            return passages
        # The frames and the quotation marks of no single format are the longest of all, so that some room is left.
        room += left
    return best or passages


def _join(records: Sequence[Mapping[str, Any]], passages: Sequence[_Passage]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "passage": passage.text,
            "passage_start": passage.start,
            "passage_end": passage.end,
        }
        for row, passage in zip(records, passages, strict=True)
    ]


def _divide(window: _Window, settings: ContextSettings, room: int) -> list[int]:
    """Divide the tokens that the frames leave among the chunks of a window."""
    # The decisions leave room for the beginning of each chunk, however small the budget.
    heads = estimate_tokens(
        [cut_snippet(row["content"], settings.snippet_characters) for row in window.records]
    )
    wants = [sum(window.offers[row["chunk_id"]].tokens) + _LEAST_TOKENS for row in window.records]
    return share_budget(room, window.weights, wants, np.minimum(heads, _LEAST_TOKENS).tolist())


def _choose_window(window: _Window, budgets: Sequence[int]) -> list[_Passage]:
    """Choose the passages of one window. No sentence is shown twice where chunks of one document overlap."""
    spans: dict[str, list[tuple[str, Range]]] = {}
    for row in window.records:
        spans.setdefault(row["document_id"], []).append(
            (row["chunk_id"], (row["char_start"], row["char_end"]))
        )
    shown: dict[str, list[Range]] = {}
    passages = []
    left_over = 0
    for row, share in zip(window.records, budgets, strict=True):
        budget = share + left_over
        offer = window.offers[row["chunk_id"]]
        others = [span for chunk_id, span in spans[row["document_id"]] if chunk_id != row["chunk_id"]]
        taken = shown.setdefault(row["document_id"], [])
        open_ = {
            place
            for place, unit in enumerate(offer.surroundings.units)
            if not _overlaps((unit.start, unit.end), taken)
            and (unit.is_own or not _overlaps((unit.start, unit.end), others))
        }
        chosen = choose_units(offer, open_, window.query_words[row["window_id"], row["chunk_id"]], budget)
        if not chosen:
            passages.append(
                _cut(row, offer, open_, window.query_words[row["window_id"], row["chunk_id"]], share)
            )
            continue
        runs = find_runs(offer.surroundings, chosen)
        passages.append(_Passage(join_runs(offer.surroundings, runs), runs[0][0], runs[-1][1]))
        taken += runs
        # Whole sentences seldom fill a share to the last token.
        left_over = max(budget - count_tokens(offer, chosen), 0)
    return passages


def _cut(
    row: Mapping[str, Any], offer: Offer, open_: set[int], weights: Mapping[int, float], budget: int
) -> _Passage:
    """Shorten the best sentence of a chunk, where no whole one fits."""
    units = offer.surroundings.units
    own = [place for place in sorted(open_) if units[place].is_own] or [
        place for place, unit in enumerate(units) if unit.is_own
    ]
    start, end = row["char_start"], row["char_end"]
    if own:
        best = max(own, key=lambda place: (_weigh(offer, place, weights), -place))
        start, end = units[best].start, units[best].end
    text = offer.surroundings.read(start, end).strip()
    characters = len(text)
    while characters > 1 and count_passages([cut_snippet(text, characters)])[0] > budget:
        characters = characters * 3 // 4
    shown = cut_snippet(text, characters)
    return _Passage(shown, start, start + len(shown.removesuffix("…")) if shown != text else end)


def _weigh(offer: Offer, place: int, weights: Mapping[int, float]) -> float:
    # Rarities have one decimal, so that sums of tenths are exact.
    return float(sum(round(10 * weights[word]) for word in offer.words[place] if word in weights))


def _overlaps(span: Range, others: Sequence[Range]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)


def _make_offers(rows: pl.DataFrame, around: pl.DataFrame, terms_of: TermsOf) -> dict[str, Offer]:
    """Divide each distinct chunk and those beside it into units, with their words and tokens."""
    chunks: dict[str, list[tuple[int, str]]] = {}
    for chunk_id, start, text in around.select("chunk_id", "char_start", "text").iter_rows():
        chunks.setdefault(chunk_id, []).append((start, text))
    places = {
        chunk_id: join_chunks(chunks[chunk_id], (start, end), title)
        for chunk_id, start, end, title in rows.select("chunk_id", "char_start", "char_end", "title")
        .unique(maintain_order=True)
        .iter_rows()
    }
    texts: list[str] = []
    spaced: list[str] = []
    for found in places.values():
        texts += [found.read(unit.start, unit.end) for unit in found.units]
        spaced += [_with_space(found, place) for place in range(len(found.units))]
    words: list[list[int]] = [[] for _ in texts]
    for text, term, _ in terms_of(texts).iter_rows():
        words[text].append(term)
    tokens = count_passages(spaced).tolist()
    bounds = [0]
    for found in places.values():
        bounds.append(bounds[-1] + len(found.units))
    return {
        chunk_id: Offer(found, words[first:last], tokens[first:last])
        for (chunk_id, found), (first, last) in zip(places.items(), pairwise(bounds), strict=True)
    }


def _with_space(found: Surroundings, place: int) -> str:
    unit = found.units[place]
    before = found.units[place - 1].end if place else unit.start
    return found.read(min(before, unit.start), unit.end)


def _weigh_questions(
    rows: pl.DataFrame, window_chunks: pl.DataFrame, terms_of: TermsOf
) -> dict[tuple[str, str], dict[int, float]]:
    """Return the query words of each kept chunk, with their rarity."""
    texts = window_chunks.select("window_id", "chunk_id", "text").with_row_index("place")
    known: dict[int, dict[int, float]] = {}
    for place, term, rarity in terms_of(texts["text"].to_list()).iter_rows():
        known.setdefault(place, {})[term] = round(rarity, _RARITY_DECIMALS)
    by_chunk = dict(texts.select("chunk_id", "place").iter_rows())
    by_window: dict[str, list[int]] = {}
    for window_id, place in texts.select("window_id", "place").iter_rows():
        by_window.setdefault(window_id, []).append(place)
    query_words: dict[tuple[str, str], dict[int, float]] = {}
    for window_id, chunk_id, matched in rows.select(
        "window_id", "chunk_id", "matched_query_chunks"
    ).iter_rows():
        words = query_words.setdefault((window_id, chunk_id), {})
        for query in matched:
            whole = query == f"{window_id}#{WHOLE_WINDOW}"
            for place in by_window.get(window_id, []) if whole else [by_chunk[query]]:
                words |= known.get(place, {})
    return query_words


def share_budget(room: int, weights: Sequence[int], wants: Sequence[int], floors: Sequence[int]) -> list[int]:
    """Divide tokens by weight; what one cannot use goes to the others.

    Args:
        room: Tokens to divide; may be below the sum of the floors.
        weights: Weight of each, at least 1.
        wants: Most tokens that each can use.
        floors: Fewest tokens of each, given even where there is no room.

    Returns:
        Tokens of each: from its floor to its want. They add up to at most ``room``, or to the floors.
    """
    shares = [min(floor, want) for floor, want in zip(floors, wants, strict=True)]
    left = room - sum(shares)
    hungry = [place for place, want in enumerate(wants) if want > shares[place]]
    while left > 0 and hungry:
        total = sum(weights[place] for place in hungry)
        grants = {
            place: min(wants[place] - shares[place], left * weights[place] // total) for place in hungry
        }
        if not any(grants.values()):
            grants = dict.fromkeys(hungry[:left], 1)
        for place, tokens in grants.items():
            shares[place] += tokens
        left -= sum(grants.values())
        hungry = [place for place in hungry if wants[place] > shares[place]]
    return shares
