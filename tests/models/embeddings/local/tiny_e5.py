"""Writes a small pack in the format of the multilingual model, with random weights of four bits."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HIDDEN, WIDE, LAYERS, HEADS, POSITIONS = 32, 64, 2, 4, 512
EPSILON = 1e-12
_BLOCK = 32
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_PIECES = (
    "▁",
    "▁word",
    "▁a",
    "▁longer",
    "▁message",
    "▁about",
    "▁and",
    "▁train",
    "▁soup",
    "▁query",
    "▁passage",
    ":",
    "～",
    "~",
    "語",
    *"abcdefghijklmnopqrstuvwxyz",
)
VOCABULARY = (*_SPECIAL, *_PIECES, "<mask>")
_SPARE_ROWS = 3


def write_tiny_e5(path: Path, seed: int = 5) -> dict[str, NDArray[np.float32]]:
    """Write a pack."""
    random = np.random.default_rng(seed)
    weights: dict[str, NDArray[np.float32]] = {}
    tensors: list[tuple[str, int, int, bytes]] = []

    def add(name: str, theirs: str, *shape: int, packed: bool = False) -> None:
        if packed:
            scales = random.uniform(0.05, 0.2, size=(np.prod(shape) // _BLOCK, 1)).astype(np.float16)
            levels = random.integers(0, 16, size=(len(scales), _BLOCK), dtype=np.uint8)
            values = ((levels.astype(np.float32) - 8) * scales.astype(np.float32)).reshape(shape)
            halves = levels[:, : _BLOCK // 2] | levels[:, _BLOCK // 2 :] << 4
            content = np.hstack([scales.view(np.uint8), halves]).tobytes()
        else:
            values = random.normal(size=shape).astype(np.float32)
            content = values.tobytes()
        weights[name] = values
        tensors.append((theirs, int(packed), values.size, content))

    add("embeddings.word_embeddings.weight", "emb.word", len(VOCABULARY) + _SPARE_ROWS, HIDDEN, packed=True)
    add("embeddings.position_embeddings.weight", "emb.pos", POSITIONS, HIDDEN)
    add("embeddings.token_type_embeddings.weight", "emb.type", 2, HIDDEN)
    add("embeddings.LayerNorm.weight", "emb.ln.w", HIDDEN)
    add("embeddings.LayerNorm.bias", "emb.ln.b", HIDDEN)
    for layer in range(LAYERS):
        block = f"encoder.layer.{layer}"
        for ours, theirs, rows, columns in (
            ("attention.self.query", "q", HIDDEN, HIDDEN),
            ("attention.self.key", "k", HIDDEN, HIDDEN),
            ("attention.self.value", "v", HIDDEN, HIDDEN),
            ("attention.output.dense", "ao", HIDDEN, HIDDEN),
            ("intermediate.dense", "fi", WIDE, HIDDEN),
            ("output.dense", "fo", HIDDEN, WIDE),
        ):
            add(f"{block}.{ours}.weight", f"l{layer}.{theirs}.w", rows, columns, packed=True)
            add(f"{block}.{ours}.bias", f"l{layer}.{theirs}.b", rows)
        for ours, theirs in (("attention.output.LayerNorm", "aln"), ("output.LayerNorm", "oln")):
            add(f"{block}.{ours}.weight", f"l{layer}.{theirs}.w", HIDDEN)
            add(f"{block}.{ours}.bias", f"l{layer}.{theirs}.b", HIDDEN)
    path.write_bytes(_join(tensors))
    return weights


def checksum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _join(tensors: list[tuple[str, int, int, bytes]]) -> bytes:
    rows = len(VOCABULARY) + _SPARE_ROWS
    head = b"E5S1" + struct.pack("<8ifi", 1, HIDDEN, LAYERS, HEADS, WIDE, rows, POSITIONS, 2, EPSILON, _BLOCK)
    spelled = [piece.encode() for piece in VOCABULARY]
    offsets = np.cumsum([0, *map(len, spelled)]).astype("<u4")
    scores = np.array(
        [0.0 if piece.startswith("<") else -len(VOCABULARY) + 2 * len(piece) for piece in VOCABULARY]
    )
    head += struct.pack("<5i", len(VOCABULARY), 0, 2, 1, 3) + struct.pack("<Q", int(offsets[-1]))
    head += offsets.tobytes() + scores.astype("<f4").tobytes() + b"".join(spelled)
    skipped = b"another tokenizer's table"
    head += struct.pack("<iI", 1, len(skipped)) + skipped + struct.pack("<i", len(tensors))
    directory = sum(2 + len(name.encode()) + struct.calcsize("<BIQQ") for name, *_ in tensors)
    start = len(head) + directory
    entries, contents = b"", b""
    for name, dtype, count, content in tensors:
        entries += struct.pack("<H", len(name.encode())) + name.encode()
        entries += struct.pack("<BIQQ", dtype, count, start + len(contents), len(content))
        contents += content
    return head + entries + contents
