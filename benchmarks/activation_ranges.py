"""Measures the ranges of the activations of the default local model, for ``embedding.precision: int8``.

``python -m benchmarks.activation_ranges FILE.parquet ... --output RANGES.npz`` runs the float32 model over texts of
the column ``text`` or ``message`` of each file, evenly spaced, and over a few very short ones, and writes the least and
the largest value of each channel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
from numpy.typing import NDArray
from tokenizers import Tokenizer

from backstory.embeddings.local.bert_model import BertModel, Weights
from backstory.embeddings.local.granite_pack import read_granite_pack
from backstory.embeddings.local.onnx_graph import ATTENTION_MASK, INPUT_IDS, GraphBuilder

TEXTS_OF_A_FILE = 16
TOKENS_OF_A_TEXT = 256
SHORT_TEXTS = ("", " ", "ok", "?", "🙂", "Yes!", "1", "https://example.org")
"""Texts of few words have activations of their own."""

_INPUT_SHARED = "query"
_SAME_INPUT = ("key", "value")


class _RecordingBuilder(GraphBuilder):
    """Builds the float32 graph, and notes the input of each projection."""

    def __init__(self, model: BertModel, weights: Weights) -> None:
        super().__init__(model, weights)
        self.inputs: dict[str, str] = {}

    def project(self, hidden: str, name: str, scale: float = 1.0) -> str:
        parent, _, last = name.rpartition(".")
        if last not in _SAME_INPUT:
            self.inputs[parent if last == _INPUT_SHARED else name] = hidden
        return super().project(hidden, name, scale)


def measure(model: BertModel, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Measure the ranges over some texts.

    Args:
        model: The model.
        texts: Any texts; each is cut to 256 tokens.

    Returns:
        By the name of the projection, the least and the largest value of each channel, shape ``(2, channels)``.
    """
    graph = _RecordingBuilder(model, model.read_weights())
    hidden, bias = graph.embed_tokens(), graph.mask_padding()
    for layer in range(model.layers):
        hidden = graph.transform(hidden, bias, layer)
    content = graph.serialize((INPUT_IDS, ATTENTION_MASK), (graph.take_first(hidden), *graph.inputs.values()))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_buffer(model.read_tokenizer())
    tokenizer.enable_truncation(TOKENS_OF_A_TEXT)
    tokenizer.no_padding()
    ranges: dict[str, NDArray[np.float32]] = {}
    for text in texts:
        ids = np.array([tokenizer.encode(text).ids])
        outputs = session.run(None, {INPUT_IDS: ids, ATTENTION_MASK: np.ones_like(ids)})[1:]
        for name, values in zip(graph.inputs, outputs, strict=True):
            rows = values.reshape(-1, values.shape[-1])
            found = np.stack([rows.min(axis=0), rows.max(axis=0)])
            known = ranges.get(name, found)
            ranges[name] = np.stack([np.minimum(known[0], found[0]), np.maximum(known[1], found[1])])
    return ranges


def choose_texts(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the short texts, and evenly spaced ones of each file."""
    yield from SHORT_TEXTS
    for path in paths:
        texts = pl.scan_parquet(path).select(pl.col("^(text|message)$").drop_nulls()).collect().to_series()
        yield from texts.gather_every(max(1, len(texts) // TEXTS_OF_A_FILE)).head(TEXTS_OF_A_FILE)


def main() -> int:
    """Measure and write.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.activation_ranges", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="Parquet files with a column `text` or `message`")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    arguments = parser.parse_args()
    ranges = measure(read_granite_pack(), list(choose_texts(arguments.files)))
    # Half precision holds a limit within a thousandth, which moves no scale by more.
    stored: dict[str, Any] = {name: limits.astype(np.float16) for name, limits in ranges.items()}
    np.savez_compressed(arguments.output, **stored)
    return 0


if __name__ == "__main__":
    sys.exit(main())
