"""The fitted prior of documents: what it compares, and which windows it weighs."""

import random
from collections.abc import Sequence

import polars as pl
import pytest

from backstory.retrieval.evidence.document_fit import (
    FEATURES,
    VALUES,
    DocumentFit,
    compare_documents,
)
from backstory.retrieval.evidence.document_prior import LEAST_PARTS, weigh_documents
from backstory.retrieval.evidence.pair_model import OF_PARTS

FIT = DocumentFit(dict.fromkeys(FEATURES, 0.0) | {"shared_phrases": -0.5}, intercept=-1.0)


def make_measured(phrases: Sequence[float], parts: int = LEAST_PARTS, window: str = "w") -> pl.DataFrame:
    """Make hits of documents that differ only in the phrases that they share; each part finds all."""
    names = ("score", "probability", *OF_PARTS)
    return pl.DataFrame(
        [
            {
                "window_id": window,
                "query_chunk_id": f"{window}-q{part}",
                "document_id": f"d{place}",
                **dict.fromkeys(names, 0.5),
                "probability": 0.2,
                "shared_phrases": shared,
            }
            for part in range(parts)
            for place, shared in enumerate(phrases)
        ]
    )


def test_equal_values_share_a_rank_whatever_the_ids() -> None:
    compared = compare_documents(make_measured([1.0, 3.0, 1.0, 2.0]))
    assert compared.columns == ["window_id", "document_id", *FEATURES]
    ranks = compared["rank_of_shared_phrases"].exp().to_list()
    assert ranks == pytest.approx([3.5, 1.0, 3.5, 2.0])
    for name in set(VALUES) - {"shared_phrases"}:
        assert set(compared[name]) == {0.0}
        assert compared[f"rank_of_{name}"].n_unique() == 1


def test_every_feature_is_relative_to_the_window() -> None:
    source = random.Random(3)
    hits = make_measured([source.random() for _ in range(6)])
    other = hits.with_columns(window_id=pl.lit("x"), shared_phrases=pl.col("shared_phrases") * 7 + 100)
    together = compare_documents(pl.concat([hits, other]).sample(fraction=1, shuffle=True, seed=5))
    first, second = (
        together.filter(window_id=window).sort("document_id").select(FEATURES) for window in ("w", "x")
    )
    for name in FEATURES:
        assert first[name].to_list() == pytest.approx(second[name].to_list(), abs=1e-4), name


def test_a_fit_takes_the_place_of_the_phrases_but_not_in_short_windows() -> None:
    hits = make_measured([2.0, 0.0, 0.0])
    without, fitted = weigh_documents(hits).to_list()[:3], weigh_documents(hits, FIT).to_list()[:3]
    assert without[0] > without[1]
    assert fitted[0] < fitted[1] == fitted[2]
    short = make_measured([2.0, 0.0, 0.0], parts=LEAST_PARTS - 1)
    assert weigh_documents(short, FIT).to_list() == weigh_documents(short).to_list()


def test_the_prior_of_a_window_does_not_depend_on_the_windows_beside_it() -> None:
    hits, beside = make_measured([2.0, 1.0, 0.0]), make_measured([9.0, 1.0, 0.0, 5.0], window="v")
    alone = weigh_documents(hits, FIT).to_list()
    assert weigh_documents(pl.concat([beside, hits]), FIT).to_list()[len(beside) :] == alone
