"""Speed of the local model, beside onnxruntime alone on the same batches of tokens.

``python -m benchmarks.embedding [--precision int8]`` embeds texts of about 30, 120 and 400 tokens
and prints one JSON line for each length: tokens per CPU second of the library, which also tokenizes, sorts and joins;
tokens per CPU second of a bare onnxruntime session in float32; their ratio; how far the vectors are apart (the largest
difference of a component, the mean and the least cosine); and the size of the graph. Both take turns in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from backstory.models.embeddings.local_embedder import LocalEmbedder, open_pack
from backstory.models.embeddings.packs import read_granite_pack
from backstory.models.onnx_text import ATTENTION_MASK, INPUT_IDS, Runtime, open_session
from benchmarks.growth import make_texts
from benchmarks.machine import drop_pinned_kernels
from benchmarks.search import seconds_of

WORDS = (12, 45, 150)
TOKENS_OF_A_TURN = 40_000

Batch = dict[str, NDArray[np.int64]]


def make_batches(
    embedder: LocalEmbedder, tokenizer: Tokenizer, texts: list[str]
) -> list[tuple[NDArray[np.int64], Batch]]:
    """Tokenize texts and pad them in the embedder's own batches.

    Args:
        embedder: Plans the batches.
        tokenizer: Tokenizer of the model, without truncation and padding.
        texts: Any texts.

    Returns:
        For each batch, the positions of its texts and the inputs of the model.
    """
    tokens = [found.ids for found in tokenizer.encode_batch_fast(texts)]
    batches = []
    for positions in embedder.plan_batches(np.array([len(ids) for ids in tokens])):
        width = max(len(tokens[position]) for position in positions)
        ids, mask = (np.zeros((len(positions), width), np.int64) for _ in range(2))
        for row, position in enumerate(positions):
            ids[row, : len(tokens[position])] = tokens[position]
            mask[row, : len(tokens[position])] = 1
        batches.append((positions, {INPUT_IDS: ids, ATTENTION_MASK: mask}))
    return batches


def measure(words: int, runtime: Runtime, precision: str, repeats: int, graphs: Path) -> dict[str, Any]:
    """Embed texts of one length with the library and with a bare session.

    Args:
        words: Words per text.
        runtime: Runtime of the library; the bare session always uses onnxruntime.
        precision: ``float32`` or ``int8`` for the library; the bare session always uses float32.
        repeats: Number of measured turns.
        graphs: Folder for the model's graph.

    Returns:
        The figures by name.
    """
    model = read_granite_pack()
    embedder = open_pack(model, graphs, runtime=runtime, int8=precision == "int8")
    reference = open_pack(model, graphs)
    reference.embed(["ok"], task="document")  # builds the graph
    tokenizer = Tokenizer.from_buffer(model.read_tokenizer())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    each = len(tokenizer.encode(make_texts(1, words, seed=1)[0]).ids)
    texts = make_texts(max(1, TOKENS_OF_A_TURN // each), words, seed=1).to_list()
    vectors = embedder.embed(texts, task="document")
    session = open_session(reference.onnx.path)
    batches = make_batches(reference, tokenizer, texts)
    bare = np.empty_like(vectors)

    def run_bare() -> None:
        for positions, inputs in batches:
            bare[positions] = session.run(None, inputs)[0]

    run_bare()
    actions: dict[str, Callable[[], object]] = {
        "library": partial(embedder.embed, texts, task="document"),
        "bare": run_bare,
    }
    turns = [{name: seconds_of(action)[1] for name, action in actions.items()} for _ in range(repeats)]
    seconds = {name: median(turn[name] for turn in turns) for name in actions}
    cosines = (vectors * bare).sum(axis=1)
    tokens = int(sum(inputs[ATTENTION_MASK].sum() for _, inputs in batches))
    return {
        "benchmark": "embedding",
        "runtime": runtime,
        "precision": precision,
        "texts": len(texts),
        "tokens_each": round(tokens / len(texts)),
        "tokens_per_cpu_second": round(tokens / seconds["library"]),
        "bare_tokens_per_cpu_second": round(tokens / seconds["bare"]),
        "ratio": round(seconds["bare"] / seconds["library"], 3),
        "largest_difference": float(np.abs(vectors - bare).max()),
        "mean_cosine": round(float(cosines.mean()), 5),
        "least_cosine": round(float(cosines.min()), 5),
        "graph_megabytes": round(embedder.onnx.path.stat().st_size / 1e6),
        "repeats": repeats,
        "processors": os.cpu_count(),
    }


def main() -> int:
    """Run the benchmark.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedding", description=__doc__)
    parser.add_argument("--runtime", choices=get_args(Runtime), default="onnxruntime")
    parser.add_argument("--precision", choices=("float32", "int8"), default="float32")
    parser.add_argument("--repeats", type=int, default=5, help="measured turns")
    arguments = parser.parse_args()
    drop_pinned_kernels("benchmarks.embedding")
    with tempfile.TemporaryDirectory() as graphs:
        for words in WORDS:
            figures = measure(words, arguments.runtime, arguments.precision, arguments.repeats, Path(graphs))
            print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
