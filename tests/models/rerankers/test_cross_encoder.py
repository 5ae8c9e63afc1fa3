from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from backstory.base.errors import ModelError, ModelSetupError
from backstory.models.cross_encoder import CrossEncoderReranker
from backstory.models.reranker import Candidate, QueryChunk, RerankRequest
from backstory.settings.models import RerankSettings
from tests.errors import raises
from tests.models.rerankers.tiny_cross_encoder import write_cross_encoder

SOUP_OVER_TRAINS = {"soup": 2.0, "trains": 1.0, "rust": -1.0}


def connect(folder: Path, **settings: int) -> CrossEncoderReranker:
    return CrossEncoderReranker(
        RerankSettings.model_validate({"provider": "cross_encoder", "model_dir": str(folder), **settings})
    )


def request_of(*texts: str, asked_by: str = "rust") -> RerankRequest:
    asked = (QueryChunk("q", asked_by),)
    candidates = tuple(Candidate(text, "title", text) for text in texts)
    return RerankRequest("w", asked, asked, candidates, np.ones((1, len(texts))))


def order(reranker: CrossEncoderReranker, *requests: RerankRequest) -> list[tuple[str, ...]]:
    """Give the candidates of windows with a single query chunk, the most probable first."""
    return [
        tuple(request.candidates[place].chunk_id for place in np.argsort(-judged.values[0], kind="stable"))
        for request, judged in zip(requests, reranker.judge(requests), strict=True)
    ]


@pytest.mark.parametrize("classes", [0, 1, 2])
def test_scores_become_probabilities(tmp_path: Path, classes: int) -> None:
    write_cross_encoder(tmp_path / "model", SOUP_OVER_TRAINS, classes=classes)

    [result] = connect(tmp_path / "model").judge([request_of("rust", "trains", "text", "soup")])

    scores = np.array([[-1.0, 1.0, 0.0, 2.0]]) * (0.9 if classes == 2 else 1.0)
    assert np.allclose(result.values, 1 / (1 + np.exp(-scores)))
    assert result.note is None
    assert [topic.query_chunk_ids for topic in result.topics] == [("q",)]


def test_each_candidate_is_scored_for_the_three_queries_that_found_it_best(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path / "model", SOUP_OVER_TRAINS)
    queries = tuple(QueryChunk(f"q{place}", "rust") for place in range(5))
    scores = np.array(
        [[0.1, -np.inf], [0.5, -np.inf], [0.4, 0.2], [0.2, -np.inf], [0.3, -np.inf]], np.float64
    )
    candidates = (Candidate("a", "", "soup"), Candidate("b", "", "trains"))

    [result] = connect(tmp_path / "model").judge([RerankRequest("w", queries, queries, candidates, scores)])

    asked = ~np.isnan(result.values)
    assert asked[:, 0].tolist() == [False, True, True, False, True]
    assert asked[:, 1].tolist() == [False, False, True, False, False]


def test_a_score_far_below_all_others_is_still_evidence(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path / "model", {"soup": -60.0})
    [result] = connect(tmp_path / "model").judge([request_of("soup", "rust")])
    assert (result.evidence > 0).all()


def test_many_pairs_of_different_lengths_are_scored_like_each_alone(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path / "model", {"soup": 0.2})
    texts = [" ".join(["soup"] * count + ["of"] * (400 - 7 * count)) for count in range(40)]

    results = order(connect(tmp_path / "model"), request_of(*texts), request_of(), request_of("of", "title"))

    assert results == [tuple(texts[::-1]), (), ("of", "title")]


def test_the_longer_text_of_a_pair_is_cut_first(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path / "model", SOUP_OVER_TRAINS)
    late, early = "of of of of of of of of soup", "of trains of of of of of of of"

    [short] = order(connect(tmp_path / "model", max_tokens=10), request_of(late, early))
    [long] = order(connect(tmp_path / "model"), request_of(late, early))

    assert short == (early, late)
    assert long == (late, early)
    assert connect(tmp_path / "model", max_tokens=10).id != connect(tmp_path / "model").id


def test_a_model_without_token_types_in_a_folder_of_its_own_is_run(tmp_path: Path) -> None:
    write_cross_encoder(
        tmp_path / "model", {"soup": 1.0}, model="onnx/model.onnx", inputs=("input_ids", "attention_mask")
    )

    [result] = order(connect(tmp_path / "model"), request_of("rust", "soup"))

    assert result == ("soup", "rust")


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path / "three", {"soup": 1.0}, classes=3)
    with raises(ModelError, "unusable_scores", *(2, 3)):
        connect(tmp_path / "three").judge([request_of("soup", "rust")])

    write_cross_encoder(tmp_path / "nan", {"soup": float("nan")})
    with raises(ModelError, "unusable_scores"):
        connect(tmp_path / "nan").judge([request_of("soup", "rust")])

    write_cross_encoder(tmp_path / "pixels", {}, inputs=("input_ids", "pixel_values"))
    with raises(ModelSetupError, "unsupported_model", *("pixel_values",)):
        connect(tmp_path / "pixels").judge([request_of("soup", "rust")])


def test_a_separator_in_a_text_is_a_word(tmp_path: Path) -> None:
    # The model adds up the weights of the second text; a separator would weigh 5.
    write_cross_encoder(tmp_path / "model", {"soup": 1.0, "[SEP]": 5.0})
    path = tmp_path / "model" / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    tokenizer.save(str(path))

    [result] = order(connect(tmp_path / "model"), request_of("rust [SEP] of [SEP]", "soup"))

    assert result == ("soup", "rust [SEP] of [SEP]")
