"""BERT in plain numpy and double precision: an implementation that shares nothing with the one under test."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def forward(
    weights: Mapping[str, Floats],
    token_ids: Sequence[int],
    *,
    heads: int,
    layers: int,
    epsilon: float,
    first_position: int,
    pooling: Literal["cls", "mean"],
) -> Floats:
    """Compute the unit vector of one text, alone and without padding."""

    def linear(x: Floats, name: str) -> Floats:
        product: Floats = x @ weights[f"{name}.weight"].T
        return product + weights[f"{name}.bias"]

    def normalize(x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled: Floats = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    positions = np.arange(first_position, first_position + len(token_ids))
    x = (
        weights["embeddings.word_embeddings.weight"][list(token_ids)]
        + weights["embeddings.position_embeddings.weight"][positions]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = normalize(x, "embeddings.LayerNorm")
    for layer in range(layers):
        block = f"encoder.layer.{layer}"
        query, key, value = (
            np.stack(np.split(linear(x, f"{block}.attention.self.{name}"), heads, axis=1))
            for name in ("query", "key", "value")
        )
        scores = np.einsum("hqd,hkd->hqk", query, key) / math.sqrt(query.shape[-1])
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attention = exponentials / exponentials.sum(axis=-1, keepdims=True)
        mixed = np.concatenate(list(np.einsum("hqk,hkd->hqd", attention, value)), axis=1)
        x = normalize(
            x + linear(mixed, f"{block}.attention.output.dense"), f"{block}.attention.output.LayerNorm"
        )
        wide = linear(x, f"{block}.intermediate.dense")
        gelu = wide * (1 + _erf(wide / math.sqrt(2))) / 2
        x = normalize(x + linear(gelu, f"{block}.output.dense"), f"{block}.output.LayerNorm")
    pooled: Floats = x[0] if pooling == "cls" else x.mean(axis=0)
    unit: Floats = pooled / np.linalg.norm(pooled)
    return unit


def read_pack(path: Path) -> tuple[dict[str, Any], bytes, dict[str, Floats]]:
    """Read header, tokenizer and weights of a pack, in another way than the library does."""
    with path.open("rb") as file:
        magic, header_length = struct.unpack("<8sQ", file.read(16))
        assert magic == b"HMSEMB01"
        header = json.loads(file.read(header_length))
        tokenizer = file.read(header["tokenizer_len"])
        packed = {entry["name"]: _read_tensor(file.read(entry["len"]), entry) for entry in header["tensors"]}
    names = {
        "word_emb": "embeddings.word_embeddings.weight",
        "pos_emb": "embeddings.position_embeddings.weight",
        "type_emb": "embeddings.token_type_embeddings.weight",
        "emb_ln.w": "embeddings.LayerNorm.weight",
        "emb_ln.b": "embeddings.LayerNorm.bias",
    }
    parts = {
        "ao": "attention.output.dense",
        "aln": "attention.output.LayerNorm",
        "f1": "intermediate.dense",
        "f2": "output.dense",
        "fln": "output.LayerNorm",
    }
    weights: dict[str, Floats] = {}
    width = header["arch"]["hidden"]
    for name, tensor in packed.items():
        if name in names:
            weights[names[name]] = tensor
            continue
        layer, part, kind = name.split(".")
        prefix, suffix = f"encoder.layer.{layer[1:]}", {"w": "weight", "b": "bias"}[kind]
        if part == "qkv":
            for number, projection in enumerate(("query", "key", "value")):
                rows = tensor[number * width : (number + 1) * width]
                weights[f"{prefix}.attention.self.{projection}.{suffix}"] = rows
        else:
            weights[f"{prefix}.{parts[part]}.{suffix}"] = tensor
    return header, tokenizer, weights


def _read_tensor(content: bytes, entry: dict[str, Any]) -> Floats:
    if entry["dtype"] == "f32":
        values = np.array(struct.unpack(f"<{len(content) // 4}f", content), np.float64)
        return values.reshape(entry["shape"])
    count = len(content) * entry["group"] // (entry["group"] + 4)
    integers = np.frombuffer(content, np.int8, count)
    scales = np.frombuffer(content, "<f4", offset=count).astype(np.float64)
    return (integers * np.repeat(scales, entry["group"])).reshape(entry["shape"])
