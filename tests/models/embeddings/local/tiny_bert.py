"""Writes a small BERT with random weights, as a model folder of the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from backstory.models.embeddings.bert_graph import BertModel, Pooling, Weights, build_graph

WORDS = (
    "the",
    "chat",
    "talks",
    "about",
    "trains",
    "soup",
    "and",
    "rust",
    "search",
    "query",
    "passage",
    ":",
    "##s",
)
HEADS = 4
LAYERS = 2
EPSILON = 1e-7
_HIDDEN = 32
_WIDE = 48
POSITIONS = 128


def write_tiny_bert(
    folder: Path, *, seed: int = 7, pooling: Pooling = "mean"
) -> dict[str, NDArray[np.float32]]:
    """Write a model folder, whose graph pools and gives unit rows."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    _write_tokenizer(folder / "tokenizer.json", vocabulary)
    weights = _draw_weights(len(vocabulary), seed)
    (folder / "model.onnx").write_bytes(build_graph(make_bert(weights, pooling)))
    return weights


def make_bert(weights: Weights, pooling: Pooling) -> BertModel:
    """Make the model of weights."""
    return BertModel(
        name="tiny",
        checksum="0" * 64,
        hidden_size=_HIDDEN,
        layers=LAYERS,
        heads=HEADS,
        layer_norm_epsilon=EPSILON,
        pooling=pooling,
        max_input_tokens=POSITIONS,
        min_similarity=0.0,
        languages=None,
        prompts={},
        read_tokenizer=bytes,
        read_weights=lambda: weights,
    )


def _write_tokenizer(path: Path, vocabulary: dict[str, int]) -> None:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    # As published tokenizers often do; a model must not cut or pad because of it.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(path))


def _draw_weights(vocabulary: int, seed: int) -> dict[str, NDArray[np.float32]]:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (vocabulary, _HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, _HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, _HIDDEN),
        "embeddings.LayerNorm.weight": (_HIDDEN,),
        "embeddings.LayerNorm.bias": (_HIDDEN,),
    }
    for layer in range(LAYERS):
        block = f"encoder.layer.{layer}"
        for name, rows, columns in (
            ("attention.self.query", _HIDDEN, _HIDDEN),
            ("attention.self.key", _HIDDEN, _HIDDEN),
            ("attention.self.value", _HIDDEN, _HIDDEN),
            ("attention.output.dense", _HIDDEN, _HIDDEN),
            ("intermediate.dense", _WIDE, _HIDDEN),
            ("output.dense", _HIDDEN, _WIDE),
        ):
            shapes |= {f"{block}.{name}.weight": (rows, columns), f"{block}.{name}.bias": (rows,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{block}.{name}.weight": (_HIDDEN,), f"{block}.{name}.bias": (_HIDDEN,)}
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
