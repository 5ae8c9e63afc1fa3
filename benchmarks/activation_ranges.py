"""Measures the ranges of the activations of the default local model, for ``embedding.precision: int8``.

``python -m benchmarks.activation_ranges FILE.parquet ... --output RANGES.npz`` runs the float32 model over texts of
the column ``text`` or ``message`` of each file, evenly spaced, and over a few unusual ones, and writes the least and
the largest value of each channel. Then it runs the model of whole numbers over them, and writes by how much its pooled
rows exceed those of float32 on average.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
from numpy.typing import NDArray
from tokenizers import Tokenizer

from backstory.models.embeddings.local.activation_ranges import OFFSET, ActivationRanges
from backstory.models.embeddings.local.bert_model import BertModel, Weights
from backstory.models.embeddings.local.granite_pack import read_granite_pack
from backstory.models.embeddings.local.int8_graph import build_int8_pooling
from backstory.models.embeddings.local.onnx_graph import ATTENTION_MASK, INPUT_IDS, GraphBuilder

TEXTS_OF_A_FILE = 60
TOKENS_OF_A_TEXT = 256
UNUSUAL_TEXTS = (
    "", " ", "ok", "?", "🙂", "Yes!", "1", "https://example.org", "\n\n\n---\n***\n", "a b c d e f g h i j k l m n",
    "!!!!!!!!!!!!!!!!!!!!!!!", "1 2 3 4 5 6 7 8 9 10 11 12 13 14", "😀😂🔥👍🏽",
    "Привет, как дела? Сегодня хорошая погода, пойдём гулять.", "你好，今天天气很好。我们去公园散步吧。",
    "مرحبا كيف حالك اليوم", "안녕하세요 오늘 날씨가 좋네요", "नमस्ते आप कैसे हैं",
    "0xdeadbeef 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "def f(x):\n    return {k: v for k, v in x.items()}\n",
    "α-synuclein IL-2Rβ CD4+ T cells (p < 0.001; n=42) β2-adrenergic",
)  # fmt: skip
"""Very short texts, scripts, code and formulas have activations of their own."""

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


def measure(model: BertModel, texts: Iterable[str]) -> ActivationRanges:
    """Measure the ranges over some texts, and the offset of the graph that has them.

    Args:
        model: The model.
        texts: Any texts; each is cut to 256 tokens.

    Returns:
        The ranges, without a checksum.
    """
    tokenizer = Tokenizer.from_buffer(model.read_tokenizer())
    tokenizer.enable_truncation(TOKENS_OF_A_TEXT)
    tokenizer.no_padding()
    inputs = [np.array([tokenizer.encode(text).ids]) for text in texts]
    pooled, limits = _measure_limits(model, inputs)
    unknown = ActivationRanges(limits, np.zeros(model.hidden_size, np.float32), "")
    session = _open(build_int8_pooling(model, unknown))
    offset = np.mean([session.run(None, {INPUT_IDS: ids})[0][0] for ids in inputs] - pooled, axis=0)
    return ActivationRanges(limits, offset.astype(np.float32), "")


def _measure_limits(
    model: BertModel, inputs: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
    """Give the pooled rows of float32, and the limits by the name of the projection."""
    graph = _RecordingBuilder(model, model.read_weights())
    hidden, bias = graph.embed_tokens(), graph.mask_padding()
    for layer in range(model.layers):
        hidden = graph.transform(hidden, bias, layer)
    session = _open(
        graph.serialize((INPUT_IDS, ATTENTION_MASK), (graph.take_first(hidden), *graph.inputs.values()))
    )
    pooled: list[NDArray[np.float32]] = []
    limits: dict[str, NDArray[np.float32]] = {}
    for ids in inputs:
        row, *outputs = session.run(None, {INPUT_IDS: ids, ATTENTION_MASK: np.ones_like(ids)})
        pooled.append(row[0])
        for name, values in zip(graph.inputs, outputs, strict=True):
            rows = values.reshape(-1, values.shape[-1])
            found = np.stack([rows.min(axis=0), rows.max(axis=0)])
            known = limits.get(name, found)
            limits[name] = np.stack([np.minimum(known[0], found[0]), np.maximum(known[1], found[1])])
    return np.array(pooled), limits


def _open(content: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def choose_texts(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the unusual texts, and evenly spaced ones of each file."""
    yield from UNUSUAL_TEXTS
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
    ranges = measure(read_granite_pack(), choose_texts(arguments.files))
    # Half precision holds a limit within a thousandth, which moves no scale by more.
    stored: dict[str, Any] = {name: limits.astype(np.float16) for name, limits in ranges.limits.items()}
    stored[OFFSET] = ranges.offset
    np.savez_compressed(arguments.output, **stored)
    return 0


if __name__ == "__main__":
    sys.exit(main())
