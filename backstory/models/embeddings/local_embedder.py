"""The embedder that runs a model on this machine, without network or key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelSetupError
from backstory.models.embeddings.bert_graph import GRAPH_VERSION, build_graph
from backstory.models.embeddings.protocol import (
    Task,
    Vectors,
    count_at_least,
    make_unit_rows,
    part_long_tokens,
    require_text,
    require_within_limit,
)
from backstory.models.onnx_text import (
    OnnxText,
    ReadOutput,
    Runtime,
    find_model_folder,
    group_by_length,
    share,
)

if TYPE_CHECKING:
    from backstory.models.embeddings.bert_graph import BertModel, Pooling
    from backstory.settings.embedding import EmbeddingSettings

_LEAST_FILLED: Final = 0.8
"""Least tokens of a text as a share of the longest one of its run; less saves padding, but takes more runs."""
_QUERY_TOKENS: Final = 24  # measured on the labelled sets, see docs/studies/defaults.md
_UNKNOWN_SCALE: Final = 0.0
_LIMIT: Final = "embedding.max_input_tokens"
POOLING_FILE: Final = "1_Pooling/config.json"
"""File of sentence-transformers that says how the output of a model becomes a vector."""


@dataclass(eq=False)
class LocalEmbedder:
    """Embeds by an ONNX model, in which a text has the same vector in every batch, up to rounding in float32.

    Nothing is loaded before it is used. ``read`` makes unit rows of the output, of a width that only the model may
    know.
    """

    onnx: OnnxText
    id: str
    read: ReadOutput
    width: int | None
    max_input_tokens: int
    default_min_similarity: float
    languages: tuple[str, ...] | None
    prompts: Mapping[Task, str]
    default_query_tokens: int = _QUERY_TOKENS
    workers: int = 1
    api_calls: int = 0

    @property
    def dimension(self) -> int:
        """Width of a vector; a model of the user's own embeds one text to know."""
        if self.width is None:
            self.width = int(self.onnx.run(self.onnx.tokenizer.encode(["ok"]), self.read).shape[1])
        return self.width

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count with the model's tokenizer, special tokens and the longer prompt included."""
        require_text(texts)
        counts = count_at_least(texts)
        for prompt in sorted({"", *self.prompts.values()}):
            np.maximum(counts, self.onnx.tokenizer.count([prompt + text for text in texts]), out=counts)
        return counts

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Find the end of each token after the longer prompt; it is 0 for special tokens and those of the prompt."""
        require_text(texts)
        prompt = max(("", *self.prompts.values()), key=len)
        found = self.onnx.tokenizer.find_ends([prompt + text for text in texts])
        return [part_long_tokens(np.maximum(ends - len(prompt), 0)) for ends in found]

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group texts of similar length into at most 4,096 padded tokens, or 32,768 on a GPU."""
        return group_by_length(token_counts, max_padded_tokens=self.onnx.padded_tokens)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed texts, batch by batch."""
        require_text(texts)
        if not len(texts):
            return np.empty((0, self.dimension), np.float32)
        tokenizer = self.onnx.tokenizer
        for prompt in self.prompts.values():
            if any(spelling in prompt for spelling in tokenizer.special):
                raise ModelSetupError(
                    f"the prompt {prompt!r} of {self.id} holds a special token, which no text may hold; only models "
                    "whose prompts are words can be run",
                    code="special_token",
                )
        prompt = self.prompts.get(task, "")
        tokens = tokenizer.encode([prompt + text for text in texts])
        require_within_limit(np.array([len(each.ids) for each in tokens]), self.max_input_tokens, self.id)
        vectors: Vectors = self.onnx.run(tokens, self.read)
        return vectors


def open_pack(
    model: BertModel,
    graphs: Path,
    *,
    runtime: Runtime = "onnxruntime",
    int8: bool = False,
    languages: tuple[str, ...] | None = None,
) -> LocalEmbedder:
    """Make the embedder of a model from a package. The first process that embeds builds its graph in a folder.

    With ``int8`` whole numbers of 8 bits are multiplied, in an embedding space of its own.
    """
    space = f"local:{model.name}:{model.checksum[:12]}:{model.hidden_size}"
    version, build = f"graph {GRAPH_VERSION}", build_graph
    if int8:
        from backstory.models.embeddings.int8_graph import INT8_VERSION, build_int8_graph

        version, build = f"int8 {INT8_VERSION}", build_int8_graph
        space += f":int8-{_hash(INT8_VERSION)[:6]}"
    folder = f"{model.name}-{_hash(f'{model.checksum} {version}')[:12]}"
    onnx = OnnxText(
        graphs / folder / "model.onnx",
        model.read_tokenizer,
        limit=_LIMIT,
        build=partial(build, model),
        runtime=runtime,
        least_filled=_LEAST_FILLED,
    )
    return LocalEmbedder(
        share(onnx, runtime),
        space,
        read=lambda output, _mask: output,
        width=model.hidden_size,
        max_input_tokens=model.max_input_tokens,
        default_min_similarity=model.min_similarity,
        languages=model.languages if languages is None else languages,
        prompts=model.prompts,
    )


def open_own_model(settings: EmbeddingSettings) -> LocalEmbedder:
    """Make the embedder of a model of the user's own, which states no scale of similarities: its threshold is 0.

    An output with a row for each token is pooled by the mean, or by the first token if ``1_Pooling/config.json`` of
    sentence-transformers says so. A ``ModelSetupError`` names an absent file or another way of pooling.
    """
    files = find_model_folder(settings.model_dir or "", "embedding.model_dir")
    pooling = _find_pooling(files.model)
    prompts: dict[Task, str] = {"query": settings.query_prefix, "document": settings.document_prefix}
    framed = json.dumps([files.checksum, pooling, prompts, settings.input_limit], sort_keys=True)
    onnx = OnnxText(
        files.model, files.tokenizer, limit=_LIMIT, runtime=settings.runtime, least_filled=_LEAST_FILLED
    )
    return LocalEmbedder(
        share(onnx, files.checksum, settings.runtime),
        f"local:{files.name}:{_hash(framed)[:12]}",
        read=partial(_pool, pooling),
        width=None,
        max_input_tokens=settings.input_limit,
        default_min_similarity=_UNKNOWN_SCALE,
        languages=settings.languages,
        prompts=prompts,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _find_pooling(model: Path) -> Pooling:
    path = next((found for folder in model.parents[:2] if (found := folder / POOLING_FILE).is_file()), None)
    if path is None:
        return "mean"
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        modes = {name for name, on in stated.items() if name.startswith("pooling_mode_") and on is True}
    except (ValueError, AttributeError) as error:
        raise ModelSetupError(
            f"{path} cannot be read ({error}); fetch the model again", code="damaged_file"
        ) from error
    known: dict[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    if len(modes) != 1 or not modes <= known.keys():
        raise ModelSetupError(
            f"{path}: the pooling {', '.join(sorted(modes))} cannot be done; export the model with its pooling, as the "
            "output sentence_embedding",
            code="unsupported_model",
        )
    return known[modes.pop()]


def _pool(pooling: Pooling, output: NDArray[Any], mask: NDArray[np.int64]) -> Vectors:
    """Make unit rows of an output with a row for each text, or for each token of each text."""
    if output.ndim == 3:
        weights = mask[..., None].astype(np.float32)
        output = output[:, 0] if pooling == "cls" else (output * weights).sum(axis=1) / weights.sum(axis=1)
    return make_unit_rows(output, (len(mask), output.shape[-1]), "the model of embedding.model_dir")
