"""``embedding.precision: int8``: near float32, and the same vector in every batch."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from backstory.models.choice import make_embedder
from backstory.models.embeddings.local_embedder import LocalEmbedder, open_pack
from backstory.models.embeddings.packs import read_granite_pack
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import refuses
from tests.models.embeddings.local.test_embedder import TEXTS


@pytest.fixture(scope="module")
def int8(model_cache: Path) -> LocalEmbedder:
    return open_pack(read_granite_pack(), model_cache / "models", int8=True)


def test_vectors_are_near_those_of_float32_in_another_space(
    int8: LocalEmbedder, granite: LocalEmbedder
) -> None:
    cosines = (int8.embed(TEXTS, task="document") * granite.embed(TEXTS, task="document")).sum(axis=1)
    assert cosines.min() > 0.98
    assert int8.id.startswith(f"{granite.id}:int8-")
    assert int8.onnx.path != granite.onnx.path


def test_a_text_has_the_same_vector_in_every_batch(int8: LocalEmbedder) -> None:
    together = int8.embed([*TEXTS, *reversed(TEXTS)], task="query")
    alone = np.concatenate([int8.embed([text], task="query") for text in TEXTS])
    assert np.array_equal(together, np.concatenate([alone, alone[::-1]]))


def test_sums_are_exact_on_processors_that_add_two_products_in_16_bits(int8: LocalEmbedder) -> None:
    int8.embed(["ok"], task="document")  # builds the graph
    tensors = [numpy_helper.to_array(tensor) for tensor in onnx.load(int8.onnx.path).graph.initializer]
    heaviest = [np.abs(tensor.astype(int)).max() for tensor in tensors if tensor.dtype == np.int8]
    assert heaviest
    assert 2 * 255 * max(heaviest) < 2**15


def test_the_setting_chooses_it_and_is_refused_where_it_cannot_act() -> None:
    embedder = make_embedder(EmbeddingSettings(precision="int8"))
    assert ":int8-" in embedder.id
    for other in (
        {"provider": "hashing"},
        {"model_dir": "m"},
        {"runtime": "cuda"},
    ):
        with refuses("unusable_precision"):
            EmbeddingSettings.model_validate({"precision": "int8", **other})
