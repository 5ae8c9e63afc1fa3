"""A folder of the user's own with an ONNX model and its tokenizer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from backstory.base.errors import InputError, ModelError, ModelSetupError
from backstory.models.choice import make_embedder
from backstory.models.embeddings.bert_graph import Pooling
from backstory.models.embeddings.protocol import Embedder
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import raises
from tests.models.embeddings.local.reference_bert import forward
from tests.models.embeddings.local.tiny_bert import EPSILON, HEADS, LAYERS, POSITIONS, write_tiny_bert

TEXTS = ["the chat talks about trains", "", "soups : unknown words", "rust " * 22, "search and trains"]


def make(folder: Path, **settings: Any) -> Embedder:
    return make_embedder(EmbeddingSettings.model_validate({"model_dir": str(folder), **settings}))


def reference(folder: Path, weights: Any, texts: list[str], pooling: Pooling = "mean") -> Any:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    shape: dict[str, Any] = {"heads": HEADS, "layers": LAYERS, "epsilon": EPSILON, "first_position": 0}
    return np.array(
        [forward(weights, tokenizer.encode(text).ids, pooling=pooling, **shape) for text in texts]
    )


def give_rows_of_tokens(folder: Path, *, pooled: bool = False) -> None:
    """Make the first output of a model that of its last block, and its vectors a second one or none."""
    path = folder / "model.onnx"
    model = onnx.load(path)
    last = next(node.output[0] for node in reversed(model.graph.node) if node.op_type == "LayerNormalization")
    vectors = model.graph.output.pop().name
    rows = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["texts", "tokens", "channels"])
    model.graph.output.append(rows)
    if pooled:
        model.graph.node.append(helper.make_node("Identity", [vectors], ["sentence_embedding"]))
        model.graph.output.append(helper.make_empty_tensor_value_info("sentence_embedding"))
    onnx.save(model, path)


def test_what_the_graph_pools_is_taken_as_it_is(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path / "my model")
    embedder = make(tmp_path / "my model")

    np.testing.assert_allclose(
        embedder.embed(TEXTS, task="document"), reference(tmp_path / "my model", weights, TEXTS), atol=1e-5
    )
    assert embedder.id.startswith("local:my-model:")
    assert (embedder.dimension, embedder.default_min_similarity, embedder.languages) == (32, 0.0, None)


def test_what_the_graph_pools_beside_its_rows_of_tokens_is_taken(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path, pooling="cls")
    give_rows_of_tokens(tmp_path, pooled=True)

    vectors = make(tmp_path).embed(TEXTS, task="document")

    np.testing.assert_allclose(vectors, reference(tmp_path, weights, TEXTS, "cls"), atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_rows_of_tokens_are_pooled_as_the_folder_says(tmp_path: Path, pooling: Pooling) -> None:
    weights = write_tiny_bert(tmp_path)
    give_rows_of_tokens(tmp_path)
    if pooling == "cls":
        (tmp_path / "1_Pooling").mkdir()
        modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes))

    vectors = make(tmp_path).embed(TEXTS, task="document")

    np.testing.assert_allclose(vectors, reference(tmp_path, weights, TEXTS, pooling), atol=1e-5)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ('{"pooling_mode_max_tokens": true}', "unsupported_model"),
        ('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "unsupported_model"),
        ("[]", "damaged_file"),
        ("no JSON", "damaged_file"),
    ],
)
def test_a_pooling_that_cannot_be_done_is_refused(tmp_path: Path, content: str, code: str) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(content)

    with raises(ModelSetupError, code, tmp_path / "1_Pooling" / "config.json"):
        make(tmp_path)


def test_prefixes_come_before_the_text_and_are_counted(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path)
    embedder = make(tmp_path, query_prefix="query : ", document_prefix="passage : the ")

    query, document = (embedder.embed(["soup"], task=task) for task in ("query", "document"))

    np.testing.assert_allclose(query, reference(tmp_path, weights, ["query : soup"]), atol=1e-5)
    np.testing.assert_allclose(document, reference(tmp_path, weights, ["passage : the soup"]), atol=1e-5)
    assert embedder.count_tokens(["soup"]).tolist() == [2 + 4]


def test_the_limit_is_that_of_the_settings_and_a_model_that_takes_less_says_so(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    assert make(tmp_path).max_input_tokens == 512
    with raises(InputError, "too_long", 20):
        make(tmp_path, max_input_tokens=20).embed(["rust " * 19], task="query")
    with raises(ModelError, "failed_model", "embedding.max_input_tokens"):
        make(tmp_path).embed(["rust " * POSITIONS], task="query")


def test_whatever_changes_vectors_changes_the_id(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    ids = [
        make(tmp_path).id,
        make(tmp_path, query_prefix="query: ").id,
        make(tmp_path, max_input_tokens=20).id,
    ]
    write_tiny_bert(tmp_path, seed=8)
    ids.append(make(tmp_path).id)
    (tmp_path / "model.onnx_data").write_bytes(b"weights beside the graph")
    ids.append(make(tmp_path).id)
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"soup"', '"stew"'))
    ids.append(make(tmp_path).id)

    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_an_absent_and_a_damaged_file_are_named(tmp_path: Path, name: str) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / name).write_bytes(b"{}")
    with raises(ModelSetupError, "damaged_file", tmp_path / name):
        make(tmp_path).embed(["soup"], task="query")

    (tmp_path / name).unlink()
    with raises(ModelSetupError, "absent_file", "embedding.model_dir") as raised:
        make(tmp_path)
    assert name in str(raised.value)
