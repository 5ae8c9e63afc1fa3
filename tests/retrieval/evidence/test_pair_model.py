"""The model of pairs, its prior of documents, and the parts that ask for nothing."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from backstory.retrieval.evidence.asking_parts import find_small_talk_parts
from backstory.retrieval.evidence.document_prior import weigh_documents
from backstory.retrieval.evidence.logistic import LogisticModel
from backstory.retrieval.evidence.pair_model import MAY_SERVE, OF_PARTS, OF_SINGLE, SERVES, read_pair_model


def test_a_model_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    model = read_pair_model()
    model.write(tmp_path / "model.json")
    assert read_pair_model(tmp_path / "model.json") == model


def test_another_weight_is_another_digest() -> None:
    model = read_pair_model()
    for kind in ("parts", "single"):
        fitted: LogisticModel = getattr(model, kind)
        name = next(iter(fitted.weights))
        weights = {**fitted.weights, name: fitted.weights[name] + 1e-6}
        changed = replace(model, **{kind: replace(fitted, weights=weights)})
        assert changed.digest != model.digest


def test_probabilities_lie_between_0_and_1_however_far_the_features_are() -> None:
    model = read_pair_model()
    for value, single in product((-1e9, 0.0, 1e9), (0.0, 1.0)):
        features = {name: np.array([value]) for name in (*OF_PARTS, *OF_SINGLE)}
        features["is_single"] = np.array([single])
        [probability] = model.estimate(features).tolist()
        assert 0 < probability < 1


def test_what_only_the_neighbours_speak_for_is_never_claimed() -> None:
    model = read_pair_model()
    weights = {**model.parts.weights, **model.single.weights, "is_single": 1.0}
    best = {name: np.array([1e9 if weight > 0 else -1e9]) for name, weight in weights.items()}
    best["is_single"] = np.ones(1)
    own = {"part_deviations": np.array([1.4]), "rarest_shared_word": np.array([0.6])}
    assert model.estimate({**best, **own}).item() < MAY_SERVE
    for name in own:
        assert model.estimate({**best, **own, name: best[name]}).item() > SERVES


def make_found(parts: int, titles: Sequence[float] = (0.0, 0.0, 0.0, 0.0)) -> pl.DataFrame:
    """Make hits of four documents, of which the first shares a phrase with every part."""
    return pl.DataFrame(
        [
            {
                "window_id": "w",
                "query_chunk_id": f"q{part}",
                "document_id": f"d{place}",
                "score": 0.7,
                "probability": 0.8 if place == 0 else 0.2,
                "shared_phrases": 1.0 if place == 0 else 0.0,
                "title_share": titles[place],
                "document_mass": 0.0,
            }
            for part in range(parts)
            for place in range(4)
        ]
    )


def test_a_document_whose_phrases_the_window_repeats_weighs_more() -> None:
    prior = weigh_documents(make_found(10)).to_list()[:4]
    assert prior[0] > 1 > prior[1] == prior[2] == prior[3]


def test_where_many_titles_are_named_nothing_is_weighed() -> None:
    assert set(weigh_documents(make_found(10, (1.0, 0.0, 0.0, 0.0)))) == {1.0}


def test_where_many_documents_tell_something_nothing_is_weighed() -> None:
    tells = pl.when(pl.col("document_id") == "d1").then(0.6).otherwise("probability")
    assert set(weigh_documents(make_found(10).with_columns(probability=tells))) == {1.0}


def test_in_a_short_window_the_odds_weigh() -> None:
    prior = weigh_documents(make_found(9)).to_list()[:4]
    assert prior == pytest.approx([2.0, 0.5, 0.5, 0.5], rel=1e-4)


def test_a_part_is_small_talk_if_all_of_its_messages_are() -> None:
    texts = ["thanks!\n\nok see you", "thanks!\n\nthe blight is back", "the blight is back"]
    assert find_small_talk_parts(texts) == [True, False, False]
