"""Writes a small ONNX cross-encoder whose score can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("talks", "about", "trains", "soup", "rust", "title", "of", "text")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_cross_encoder(
    folder: Path,
    weights: dict[str, float],
    *,
    model: str = "model.onnx",
    classes: int = 0,
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
) -> None:
    """Write a model that adds up the weights of the words of the second text."""
    (folder / model).parent.mkdir(parents=True)
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys((*_SPECIAL, *WORDS, *weights)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    # As published tokenizers often do; batches must not be padded because of it.
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(folder / "tokenizer.json"))

    table = np.zeros(len(vocabulary), np.float32)
    for word, weight in weights.items():
        table[vocabulary[word]] = weight
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["worth"]),
        helper.make_node("Cast", [inputs[-1]], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["worth", "second"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "axes"], ["sum"], keepdims=int(classes > 0)),
    ]
    constants: dict[str, NDArray[Any]] = {"table": table, "axes": np.array([1], np.int64)}
    if classes:
        constants["spread"] = np.array([[0.1] * (classes - 1) + [1.0]], np.float32)
        nodes.append(helper.make_node("Mul", ["sum", "spread"], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "tokens"]) for name in inputs],
        [
            helper.make_tensor_value_info(
                "logits" if classes else "sum",
                TensorProto.FLOAT,
                ["pairs", classes] if classes else ["pairs"],
            )
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / model
    )
