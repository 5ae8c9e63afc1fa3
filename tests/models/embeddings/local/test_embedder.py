from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from backstory.base.errors import InputError, ModelSetupError, SettingsError
from backstory.models.embeddings.local_embedder import LocalEmbedder, open_pack
from backstory.models.embeddings.packs import GRANITE_SHA256, find_granite_pack, read_granite_pack
from backstory.models.onnx_text import INPUT_IDS, choose_providers
from tests.errors import raises
from tests.models.embeddings.local import reference_bert

TEXTS = [
    "",
    " ",
    "ok",
    "Shall we take the night train to Lisbon in May, or fly?",
    "🙂🙂🙂 👩‍👩‍👧‍👦",
    "日本語のメッセージです。今日は天気がいい。",
    "Привет, как дела?",
    'fn main() { let x: Vec<u8> = vec![0; 16]; println!("{x:?}"); }',
    "0x5a3b9c" * 6,
    "https://example.org/a/very/long/path?with=query&and=more#fragment",
    "a" * 300,
    "line one\r\nline two\n\n\tindented <s> </s> <mask>",
    "the chat talks about trains and soup " * 40,
]


@pytest.fixture(scope="module")
def reference_vectors() -> NDArray[np.float64]:
    header, tokenizer_file, weights = reference_bert.read_pack(find_granite_pack())
    tokenizer = Tokenizer.from_buffer(tokenizer_file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    architecture = header["arch"]
    return np.array(
        [
            reference_bert.forward(
                weights,
                tokenizer.encode(text).ids,
                heads=architecture["heads"],
                layers=architecture["layers"],
                epsilon=architecture["layer_norm_eps"],
                first_position=architecture["position_offset"],
                pooling="cls",
            )
            for text in TEXTS
        ]
    )


def test_agrees_with_an_independent_implementation(
    granite: LocalEmbedder, reference_vectors: NDArray[np.float64]
) -> None:
    vectors = granite.embed(TEXTS, task="document")

    similarities = np.einsum("nd,nd->n", vectors, reference_vectors)
    assert similarities.min() >= 0.99999
    np.testing.assert_allclose(vectors, reference_vectors, atol=1e-5)


def test_knows_meaning(granite: LocalEmbedder) -> None:
    question, near, far = granite.embed(
        [
            "How do I get to Portugal by rail?",
            "The night train to Lisbon leaves at nine.",
            "Peel the potatoes and boil them with kale.",
        ],
        task="query",
    )

    assert question @ near > question @ far + 0.1


def test_a_text_of_exactly_the_limit_is_embedded_and_one_more_token_is_refused(
    granite: LocalEmbedder,
) -> None:
    fits, over = "soup" + " soup" * 508, "soup" + " soup" * 509
    assert granite.count_tokens([fits, over]).tolist() == [512, 513]

    assert granite.embed([fits], task="query").shape == (1, 384)
    with raises(InputError, "too_long", 513, 512):
        granite.embed([over], task="query")


def test_a_short_text_is_not_padded_to_a_long_one_beside_it(
    granite: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["soup" + " soup" * words for words in (0, 60, 1, 200, 55, 190, 3)]
    alone = np.vstack([granite.embed([text], task="document") for text in texts])
    compute, computed = granite.onnx._compute, []

    def note(session: Any, feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        computed.append(feeds[INPUT_IDS].size)
        return compute(session, dict(feeds))

    monkeypatch.setattr(granite.onnx, "_compute", note)
    together = granite.embed(texts, task="document")

    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert sum(computed) <= granite.count_tokens(texts).sum() / 0.8


def test_a_pack_with_one_wrong_byte_is_refused(tmp_path: Path) -> None:
    content = bytearray(find_granite_pack().read_bytes())
    content[-1] ^= 1
    damaged = tmp_path / "pack.hmsemb"
    damaged.write_bytes(content)

    with raises(
        ModelSetupError,
        "other_checksum",
        damaged,
    ):
        read_granite_pack(damaged)


def test_weights_that_change_after_opening_are_refused(tmp_path: Path) -> None:
    pack = tmp_path / "pack.hmsemb"
    pack.write_bytes(find_granite_pack().read_bytes())
    embedder = open_pack(read_granite_pack(pack), tmp_path)
    with pack.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01\x02")

    with raises(ModelSetupError, "other_checksum", pack):
        embedder.embed(["soup"], task="query")
    assert not embedder.onnx.path.exists()


def test_a_gpu_gets_larger_batches_and_is_never_replaced_by_the_cpu(
    granite: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    granite.embed(["ok"], task="query")
    assert granite.onnx.provider == "CPUExecutionProvider"
    on_gpu = open_pack(read_granite_pack(), granite.onnx.path.parents[1], runtime="cuda")
    assert on_gpu.id == granite.id == f"local:granite-embedding-30m-english:{GRANITE_SHA256[:12]}:384"
    counts = np.full(1000, 100)
    assert [max(map(len, each.plan_batches(counts))) for each in (granite, on_gpu)] == [40, 327]
    available = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    assert choose_providers(None, available)[0] == ("CUDAExecutionProvider", {"use_tf32": "0"})
    assert (
        choose_providers("onnxruntime", available) == choose_providers(None, available[2:]) == available[2:]
    )
    with raises(SettingsError, "no_gpu_build"):
        on_gpu.embed(["ok"], task="query")
    # What a build for GPUs says where no GPU is: it then loads the model for the CPU.
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        raises(SettingsError, "unusable_gpu"),
    ):
        on_gpu.embed(["ok"], task="query")


def test_a_prompt_that_is_no_text_is_refused(granite: LocalEmbedder) -> None:
    model = replace(read_granite_pack(), prompts={"query": "<s>query: ", "document": ""})
    embedder = open_pack(model, granite.onnx.path.parents[1])
    with raises(ModelSetupError, "special_token", "<s>query: "):
        embedder.embed(["soup"], task="query")
