"""Measures what contexts claim: which documents serve which parts, which parts nothing serves, and the verdict.

Every claim is compared with the labels under up to four conditions: with all documents; without the documents of half
of each window's topics, which must be said to be missing; with the documents of another set alone; and with windows of
small talk, which ask for nothing. Run it with
``python -m benchmarks.claims SET [--unrelated SET] [--small-talk FILE] [--workspace DIR]``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from backstory.base.environment import cache_folder
from backstory.index.search import SearchIndex
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache
from backstory.models.embeddings.protocol import Embedder, Vectors
from backstory.operations.evaluation import (
    LabelledSet,
    embed_windows,
    index_documents,
    make_windows,
    read_labelled_set,
)
from backstory.operations.scoring import resample_windows
from backstory.pipeline.workspace import open_workspace
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.assessment import evaluate_retrieval, judge_parts
from backstory.retrieval.evidence.pair_model import is_served_by_chosen
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from benchmarks.part_labels import (
    NOTHING_HIDDEN,
    PartLabels,
    choose_half,
    find_hits_without,
    label_parts,
    list_hidden,
)
from benchmarks.reliability import list_columns, measure_calibration_error, sum_bins

ALL_DOCUMENTS: Final = "all documents"
HALF_OF_TOPICS: Final = "without the documents of half of the topics"
OTHER_DOCUMENTS: Final = "documents of another set"
SMALL_TALK: Final = "windows of small talk"

_SMALL_TALK_MESSAGES: Final = 5
"""Messages of a window of small talk."""
_SHOWN, _FOUND = "shown", "found"
"""Names of the pairs of a part with a document of its context, and with any document that it found."""
_SHARE_OF_TOPIC: Final = 0.5
"""A topic counts as named uncovered, or as served, if so many of its parts are."""


@dataclass(frozen=True)
class Claims:
    """What the contexts of one set claimed, and how much of it the labels confirm.

    Attributes:
        name: Name of the set.
        by_message: Whether messages have topics. If not, a document counts as serving each part of a window that it is
            relevant to, no part is known to be uncovered, and no probability of a part can be compared with labels.
        table: ``condition``, ``measure``, ``windows``, ``mean``, and the 95 % bootstrap interval over windows, ``low``
            to ``high``.
        embedder: Name of the embedding space.
    """

    name: str
    by_message: bool
    table: pl.DataFrame
    embedder: str

    def as_record(self) -> dict[str, Any]:
        """Return the claims as JSON-serializable data."""
        return {
            "set": self.name,
            "embedder": self.embedder,
            "by_message": self.by_message,
            "claims": self.table.to_dicts(),
        }


@dataclass(frozen=True)
class _Windows:
    """The windows of the set, cut and embedded."""

    labelled: LabelledSet
    chunks: pl.DataFrame
    vectors: Vectors
    labels: PartLabels
    settings: Settings
    embedder: Embedder


def measure_claims(
    folder: Path, settings: Settings, unrelated: Path | None = None, small_talk: Path | None = None
) -> Claims:
    """Measure the claims of a labelled set.

    Args:
        folder: The set.
        settings: The settings to measure.
        unrelated: Another set, whose documents tell nothing about the windows; None to leave that condition out.
        small_talk: A text file with a message of small talk on each line; None to leave that condition out.
    """
    labelled = read_labelled_set(folder)
    text = "" if small_talk is None else small_talk.read_text(encoding="utf-8")
    talk = [line for line in text.splitlines() if line.strip()]
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    chunks, vectors = embed_windows(labelled, settings, embedder, cache)
    windows = _Windows(labelled, chunks, vectors, label_parts(labelled, chunks), settings, embedder)
    with tempfile.TemporaryDirectory(prefix="backstory-claims-") as scratch:
        index, _ = index_documents(Path(scratch) / "own", labelled, settings, embedder, cache)
        with index:
            rows = _measure_own(windows, index)
            if talk:
                rows.append(_measure_small_talk(windows, index, talk, cache))
        if unrelated is not None:
            other = read_labelled_set(unrelated)
            index, _ = index_documents(Path(scratch) / "other", other, settings, embedder, cache)
            with index:
                rows.append(_measure_unrelated(windows, index))
    return Claims(labelled.name, windows.labels.by_message, _tabulate(pl.concat(rows)), embedder.id)


def _measure_own(windows: _Windows, index: SearchIndex) -> list[pl.DataFrame]:
    removed = choose_half(windows.labelled)
    rows = [_measure_condition(windows, index, ALL_DOCUMENTS, removed.clear())]
    if windows.labels.by_message:
        rows.append(_measure_condition(windows, index, HALF_OF_TOPICS, removed))
    return rows


def _measure_condition(
    windows: _Windows, index: SearchIndex, condition: str, removed: pl.DataFrame
) -> pl.DataFrame:
    """Measure the windows with all documents, or without those of some topics."""
    labelled = windows.labelled
    hidden = list_hidden(labelled, removed)
    decisions, parts = _find(windows, index, hidden)
    found = _list_pairs(decisions)
    pairs = found.with_columns(true=windows.labels.serves(labelled, found))
    claims, served = pairs.filter("kept"), pl.col("claimed")
    said = claims.group_by("window_id").agg(
        claimed=served.sum(), confirmed=(served & pl.col("true")).sum(), true=pl.col("true").sum()
    )
    bins = [sum_bins(claims, _SHOWN), sum_bins(pairs, _FOUND)] if windows.labels.by_message else []
    keys = ["window_id", "document_id"]
    left = labelled.qrels.rename({"doc_id": "document_id"}).join(hidden, on=keys, how="anti")
    named = _name_topics(windows, parts, removed, left)
    return _join(windows, index, parts, condition, said, *bins, named)


def _list_pairs(decisions: pl.DataFrame) -> pl.DataFrame:
    """List the parts and the documents that they found, with the best probability of each pair.

    Column ``claimed`` tells whether a document of the context serves the part; ``kept``, whether it is one.
    """
    return (
        decisions.with_columns(
            claimed=is_served_by_chosen(), kept=pl.col("kept").any().over("window_id", "document_id")
        )
        .group_by("window_id", "query_chunk_id", "document_id", maintain_order=True)
        .agg(pl.col("probability").max(), pl.col("claimed", "kept").any())
    )


def _name_topics(
    windows: _Windows, parts: pl.DataFrame, removed: pl.DataFrame, left: pl.DataFrame
) -> pl.DataFrame:
    """Count per window the topics that lost all of their documents and the others, and those named uncovered or served.

    ``removed`` are the topics whose documents are hidden, ``left`` the judgements of the documents that are not.
    """
    if not windows.labels.by_message:
        return pl.DataFrame(schema={"window_id": pl.String})
    asked = parts.filter(pl.col("state") != "not_asked")
    topics = (
        windows.labels.topics.join(asked, on=["window_id", "query_chunk_id"])
        .group_by("window_id", "topic")
        .agg(
            uncovered=(pl.col("state") == "uncovered").mean() >= _SHARE_OF_TOPIC,
            served=pl.col("state").is_in(["served", "beyond_limit"]).mean() >= _SHARE_OF_TOPIC,
        )
    )
    keys = ["window_id", "topic"]
    known = left.select(keys).unique()
    gone = topics.join(removed, on=keys, how="semi").join(known, on=keys, how="anti")
    present = topics.join(known, on=keys, how="semi")
    return (
        windows.labelled.windows.select("window_id")
        .join(_count_named(gone, "gone"), on="window_id", how="left")
        .join(_count_named(present, "present"), on="window_id", how="left")
    )


def _count_named(topics: pl.DataFrame, name: str) -> pl.DataFrame:
    counts = {
        f"{name}_topics": pl.len(),
        f"{name}_uncovered": pl.col("uncovered").sum(),
        f"{name}_served": pl.col("served").sum(),
    }
    return topics.group_by("window_id").agg(**counts)


def _measure_unrelated(windows: _Windows, index: SearchIndex) -> pl.DataFrame:
    _, parts = _find(windows, index, NOTHING_HIDDEN, as_of=False)
    return _join(windows, index, parts, OTHER_DOCUMENTS)


def _measure_small_talk(
    windows: _Windows, index: SearchIndex, talk: list[str], cache: EmbeddingCache
) -> pl.DataFrame:
    """Measure windows of messages that ask for nothing, with all documents."""
    place = pl.int_range(pl.len())
    rows = pl.DataFrame({"message": talk}).select(
        window_id=pl.format("small-talk-{}", place // _SMALL_TALK_MESSAGES),
        msg_no=place,
        timestamp=pl.lit(datetime(2000, 1, 1, tzinfo=UTC), dtype=pl.Datetime("us", "UTC")),
        author=pl.lit("someone"),
        message="message",
    )
    messages, table = make_windows(rows)
    labelled = replace(windows.labelled, messages=messages, windows=table)
    chunks, vectors = embed_windows(labelled, windows.settings, windows.embedder, cache)
    small = replace(windows, labelled=labelled, chunks=chunks, vectors=vectors)
    _, parts = _find(small, index, NOTHING_HIDDEN, as_of=False)
    return _join(small, index, parts, SMALL_TALK)


def _count_states(parts: pl.DataFrame, labels: PartLabels) -> pl.DataFrame:
    """Count per window the parts, those held for small talk, those uncovered, and those with a topic."""
    keys = ["window_id", "query_chunk_id"]
    named = labels.topics.filter((pl.col("topic") != "") & labels.by_message)
    is_small, has_topic = pl.col("state") == "not_asked", pl.col("has_topic").fill_null(value=False)
    topics = named.select(*keys, has_topic=True).unique()
    return (
        parts.join(topics, on=keys, how="left")
        .group_by("window_id")
        .agg(
            all_parts=pl.len(),
            small_talk=is_small.sum(),
            uncovered=(pl.col("state") == "uncovered").sum(),
            with_topic=has_topic.sum(),
            topic_dropped=(is_small & has_topic).sum(),
        )
    )


def _find(
    windows: _Windows, index: SearchIndex, hidden: pl.DataFrame, *, as_of: bool | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Find the decisions and the parts of all windows, without the hidden documents of each."""
    retrieval = Retrieval.from_settings(windows.settings, index)
    if as_of is not None:
        retrieval = replace(retrieval, rag=retrieval.rag.model_copy(update={"as_of": as_of}))
    queries, hits = find_hits_without(
        hidden, retrieval, windows.labelled.windows, windows.chunks, windows.vectors
    )
    decisions = retrieval.judge(hits, windows.chunks, queries.vectors_of).frame
    return decisions, judge_parts(windows.chunks, decisions)


def _join(
    windows: _Windows,
    index: SearchIndex,
    parts: pl.DataFrame,
    condition: str,
    *counts: pl.DataFrame,
) -> pl.DataFrame:
    """Put the counts of each window beside its verdict."""
    assessed = evaluate_retrieval(
        windows.labelled.windows,
        windows.chunks,
        parts,
        settings=windows.settings.rag,
        searchable=index.manifest.rows > 0,
        embedder_id=windows.embedder.id,
        known_languages=windows.embedder.languages,
    ).select("window_id", "verdict", "part_count", "served_count", "unsure_count")
    table = assessed.with_columns(condition=pl.lit(condition))
    for each in (_count_states(parts, windows.labels), *counts):
        table = table.join(each, on="window_id", how="left", maintain_order="left")
    columns = [*_COUNTS, *list_columns(_SHOWN), *list_columns(_FOUND)]
    absent = [column for column in columns if column not in table.columns]
    return table.with_columns(pl.lit(0.0).alias(column) for column in absent).select(
        "condition", "window_id", "verdict", pl.col(columns).fill_null(0).cast(pl.Float64)
    )


_COUNTS = (
    *("part_count", "served_count", "unsure_count", "claimed", "confirmed", "true"),
    *(
        "gone_topics",
        "gone_uncovered",
        "gone_served",
        "present_topics",
        "present_uncovered",
        "present_served",
    ),
    *("all_parts", "small_talk", "uncovered", "with_topic", "topic_dropped"),
)

Sums = Mapping[str, float]


def _divide(numerator: str, denominator: str) -> Callable[[Sums], float | None]:
    return lambda sums: sums[numerator] / sums[denominator] if sums[denominator] else None


MEASURES: Mapping[str, Callable[[Sums], float | None]] = {
    "precision of claims": _divide("confirmed", "claimed"),
    "recall of claims": _divide("confirmed", "true"),
    "calibration error": measure_calibration_error(_SHOWN),
    "calibration error of all that was found": measure_calibration_error(_FOUND),
    "parts served": _divide("served_count", "part_count"),
    "parts unsure": _divide("unsure_count", "part_count"),
    "parts named uncovered": _divide("uncovered", "all_parts"),
    "parts held for small talk": _divide("small_talk", "all_parts"),
    "parts with a topic held for small talk": _divide("topic_dropped", "with_topic"),
    "removed topics named uncovered": _divide("gone_uncovered", "gone_topics"),
    "removed topics said to be served": _divide("gone_served", "gone_topics"),
    "other topics named uncovered": _divide("present_uncovered", "present_topics"),
    "other topics said to be served": _divide("present_served", "present_topics"),
}
"""What is measured of each condition, from sums over windows; beside these, the share of windows with each verdict."""


def _tabulate(rows: pl.DataFrame) -> pl.DataFrame:
    """Average the measures over the windows of each condition, with bootstrap intervals over windows."""
    table: list[dict[str, object]] = []
    for (condition,), group in rows.group_by("condition", maintain_order=True):
        verdicts = group["verdict"].unique().sort().to_list()
        numbers = group.select(
            *(each for each in group.columns if each not in ("condition", "window_id", "verdict")),
            *((pl.col("verdict") == each).cast(pl.Float64).alias(f"verdict {each}") for each in verdicts),
            windows=pl.lit(1.0),
        )
        values = numbers.to_numpy()
        drawn = np.stack(
            [np.bincount(sample, minlength=len(group)) for sample in resample_windows(len(group))]
        )
        sums = pl.DataFrame(
            np.vstack([values.sum(axis=0), drawn @ values]), schema=numbers.columns
        ).to_dicts()
        measures = dict(MEASURES) | {
            f"verdict {each}": _divide(f"verdict {each}", "windows") for each in verdicts
        }
        for name, measure in measures.items():
            mean, *others = map(measure, sums)
            if mean is None:
                continue
            known = np.array([each for each in others if each is not None])
            low, high = np.quantile(known, [0.025, 0.975]).tolist()
            table.append(
                {
                    "condition": condition,
                    "measure": name,
                    "windows": len(group),
                    "mean": mean,
                    "low": low,
                    "high": high,
                }
            )
    return pl.DataFrame(table)


def main() -> None:
    """Measure a set, and print the claims as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", type=Path, help="folder with docs.parquet, windows.parquet and qrels.parquet")
    parser.add_argument("--unrelated", type=Path, help="another set, whose documents serve nothing")
    parser.add_argument(
        "--small-talk", type=Path, help="text file of messages that ask for nothing, one a line"
    )
    parser.add_argument("--workspace", type=Path, help="measure the settings of this workspace")
    given = parser.parse_args()
    settings = Settings() if given.workspace is None else open_workspace(given.workspace).located_settings
    claims = measure_claims(given.set, settings, given.unrelated, given.small_talk)
    print(json.dumps(claims.as_record(), indent=1))


if __name__ == "__main__":
    main()
