from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from backstory.base.errors import EmbeddingInputError, ModelFileError
from backstory.models.embeddings.choice import make_embedder
from backstory.models.embeddings.local.bert_folder import read_bert_folder
from backstory.models.embeddings.local.bert_model import Pooling
from backstory.models.embeddings.local.embedder import LocalEmbedder
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import raises
from tests.models.embeddings.local.reference_bert import forward
from tests.models.embeddings.local.tiny_bert import EPSILON, HEADS, LAYERS, write_json, write_tiny_bert

TEXTS = ["the chat talks about trains", "", "soups : unknown words", "rust " * 22, "search and trains"]
CLS_POOLING = {
    "pooling_mode_cls_token": True,
    "pooling_mode_mean_tokens": False,
    "word_embedding_dimension": 32,
}


def embed(folder: Path, graphs: Path, texts: list[str]) -> Any:
    return LocalEmbedder(read_bert_folder(folder), graphs=graphs).embed(texts, task="document")


def reference(
    folder: Path, weights: Any, texts: list[str], *, pooling: Pooling = "mean", first_position: int = 0
) -> Any:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return np.array(
        [
            forward(
                weights,
                tokenizer.encode(text).ids,
                heads=HEADS,
                layers=LAYERS,
                epsilon=EPSILON,
                first_position=first_position,
                pooling=pooling,
            )
            for text in texts
        ]
    )


def test_pools_by_the_mean_unless_told_otherwise(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path / "model")

    vectors = embed(tmp_path / "model", tmp_path, TEXTS)

    np.testing.assert_allclose(vectors, reference(tmp_path / "model", weights, TEXTS), atol=1e-5)


def test_pools_by_the_first_token_where_the_folder_says_so(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path / "model")
    write_json(tmp_path / "model" / "1_Pooling" / "config.json", CLS_POOLING)

    vectors = embed(tmp_path / "model", tmp_path, TEXTS)

    expected = reference(tmp_path / "model", weights, TEXTS, pooling="cls")
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_roberta_counts_positions_from_after_the_padding_position(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path / "model", model_type="roberta", pad_token_id=1)
    texts = ["the chat talks about trains", "soup"]

    embedder = LocalEmbedder(read_bert_folder(tmp_path / "model"), graphs=tmp_path)

    expected = reference(tmp_path / "model", weights, texts, first_position=2)
    np.testing.assert_allclose(embedder.embed(texts, task="query"), expected, atol=1e-5)
    assert embedder.max_input_tokens == 24 - 2


def test_names_with_a_prefix_and_half_precision_are_read(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model", prefix="bert.")
    file = tmp_path / "model" / "model.safetensors"
    halves = {name: tensor.astype(np.float16) for name, tensor in load_file(file).items()}
    save_file(halves, file)
    weights = {name.removeprefix("bert."): tensor.astype(np.float64) for name, tensor in halves.items()}

    vectors = embed(tmp_path / "model", tmp_path, TEXTS)

    np.testing.assert_allclose(vectors, reference(tmp_path / "model", weights, TEXTS), atol=1e-5)


def test_the_limit_is_what_the_folder_says_and_never_more_than_the_positions(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    assert read_bert_folder(tmp_path / "model").max_input_tokens == 24

    write_json(tmp_path / "model" / "sentence_bert_config.json", {"max_seq_length": 10})
    assert read_bert_folder(tmp_path / "model").max_input_tokens == 10
    with raises(EmbeddingInputError, "too_long", limit=10):
        embed(tmp_path / "model", tmp_path, ["rust " * 9])

    write_json(tmp_path / "model" / "sentence_bert_config.json", {"max_seq_length": 9999})
    assert read_bert_folder(tmp_path / "model").max_input_tokens == 24


def test_prompts_come_before_the_text_and_are_counted(tmp_path: Path) -> None:
    weights = write_tiny_bert(tmp_path / "model")
    prompts = {"prompts": {"query": "query : ", "passage": "passage : the "}}
    write_json(tmp_path / "model" / "config_sentence_transformers.json", prompts)
    embedder = LocalEmbedder(read_bert_folder(tmp_path / "model"), graphs=tmp_path)

    query = embedder.embed(["soup"], task="query")
    document = embedder.embed(["soup"], task="document")

    folder = tmp_path / "model"
    np.testing.assert_allclose(query, reference(folder, weights, ["query : soup"]), atol=1e-5)
    np.testing.assert_allclose(document, reference(folder, weights, ["passage : the soup"]), atol=1e-5)
    assert embedder.count_tokens(["soup"]).tolist() == [2 + 4]


def test_every_file_that_matters_changes_the_id(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_tiny_bert(folder)
    ids = [LocalEmbedder(read_bert_folder(folder), graphs=tmp_path).id]
    write_tiny_bert(folder, seed=8)
    ids.append(LocalEmbedder(read_bert_folder(folder), graphs=tmp_path).id)
    write_json(folder / "1_Pooling" / "config.json", CLS_POOLING)
    ids.append(LocalEmbedder(read_bert_folder(folder), graphs=tmp_path).id)
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"soup"', '"stew"'))
    ids.append(LocalEmbedder(read_bert_folder(folder), graphs=tmp_path).id)

    assert len(set(ids)) == 4
    assert all(name.startswith("local:model:") and name.endswith(":32") for name in ids)


def test_the_settings_name_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    write_tiny_bert(tmp_path / "my model")

    embedder = make_embedder(EmbeddingSettings(model_dir=str(tmp_path / "my model")))

    assert embedder.id.startswith("local:my-model:")
    assert embedder.embed(["soup"], task="query").shape == (1, 32)
    assert list((tmp_path / "cache" / "models").glob("my-model-*/model.onnx"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("model_type", "mpnet"), ("hidden_act", "relu"), ("position_embedding_type", "relative_key")],
)
def test_a_model_that_would_be_run_wrongly_is_refused(tmp_path: Path, name: str, value: str) -> None:
    config: dict[str, Any] = {name: value}
    write_tiny_bert(tmp_path / "model", **config)

    with raises(ModelFileError, "unsupported_model", name=name, value=value):
        read_bert_folder(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "unsupported_model"),
        ("1_Pooling/config.json", CLS_POOLING | {"pooling_mode_mean_tokens": True}, "unsupported_model"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "unsupported_model"),
        ("modules.json", {"type": 1}, "damaged_file"),
        ("config.json", [], "damaged_file"),
        ("config.json", {"model_type": "bert", "hidden_act": "gelu"}, "incomplete_model"),
    ],
)
def test_a_folder_that_says_what_cannot_be_done_is_refused(
    tmp_path: Path, name: str, content: Any, code: str
) -> None:
    write_tiny_bert(tmp_path / "model")
    write_json(tmp_path / "model" / name, content)

    with raises(ModelFileError, code, path=tmp_path / "model" / name):
        read_bert_folder(tmp_path / "model")


def test_the_modules_of_a_plain_model_are_accepted(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    write_json(tmp_path / "model" / "modules.json", modules)

    assert read_bert_folder(tmp_path / "model").hidden_size == 32


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()

    with raises(ModelFileError, "absent_file", names=("tokenizer.json",)):
        read_bert_folder(tmp_path / "model")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    del tensors["encoder.layer.1.output.dense.bias"]
    save_file(tensors, file)

    with raises(ModelFileError, "absent_tensor", tensor="encoder.layer.1.output.dense.bias"):
        embed(tmp_path / "model", tmp_path, ["soup"])


def test_a_file_that_holds_no_tensors_is_refused(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"<html>not found</html>")

    with raises(ModelFileError, "damaged_file", path=tmp_path / "model" / "model.safetensors"):
        embed(tmp_path / "model", tmp_path, ["soup"])


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    write_json(tmp_path / "model" / "tokenizer.json", {"version": "1.0"})

    with raises(ModelFileError, "damaged_file", name="tokenizer.json"):
        embed(tmp_path / "model", tmp_path, ["soup"])
