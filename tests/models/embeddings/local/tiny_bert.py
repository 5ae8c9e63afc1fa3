"""Writes a small BERT with random weights, as a user's model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

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
_POSITIONS = 24


def write_tiny_bert(
    folder: Path, *, model_type: str = "bert", prefix: str = "", seed: int = 7, **config: Any
) -> dict[str, NDArray[np.float32]]:
    """Write a model folder.

    Args:
        folder: An empty or absent folder.
        model_type: As in ``config.json``.
        prefix: Put before every tensor's name, as some exporters do.
        seed: Of the random weights.
        **config: Replaces entries of ``config.json``.

    Returns:
        The weights by name, without the prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    _write_tokenizer(folder / "tokenizer.json", vocabulary)
    weights = _draw_weights(len(vocabulary), seed)
    save_file({prefix + name: tensor for name, tensor in weights.items()}, folder / "model.safetensors")
    write_json(
        folder / "config.json",
        {
            "model_type": model_type,
            "hidden_act": "gelu",
            "hidden_size": _HIDDEN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "layer_norm_eps": EPSILON,
            "max_position_embeddings": _POSITIONS,
            "pad_token_id": 0,
            **config,
        },
    )
    return weights


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


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
        "embeddings.position_embeddings.weight": (_POSITIONS, _HIDDEN),
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
