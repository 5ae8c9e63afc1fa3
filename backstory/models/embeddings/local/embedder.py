"""The embedder that runs a model on this machine, without network or key."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelFileError
from backstory.base.files.built import require_built_file
from backstory.models.embeddings.batches import group_by_length, group_equal_lengths
from backstory.models.embeddings.checks import count_at_least, require_text, require_within_limit
from backstory.models.embeddings.local.activation_ranges import ActivationRanges
from backstory.models.embeddings.local.bert_model import BertModel
from backstory.models.embeddings.local.int8_graph import INT8_GRAPH_VERSION, build_int8_graph
from backstory.models.embeddings.local.onnx_graph import ATTENTION_MASK, GRAPH_VERSION, INPUT_IDS, build_graph
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.models.services.onnx_sessions import OpenModel, Runtime, open_model
from backstory.models.services.text_tokenizers import TextTokenizer, load_text_tokenizer

MAX_PADDED_TOKENS = 4096
MAX_PADDED_TOKENS_OF_GPU = 32_768
"""A GPU is used only in part by fewer tokens at once. Chosen by its number of cores; no GPU was measured."""
_LEAST_FILLED = 0.8
"""Least tokens of a text as a share of the longest one of its run; less saves padding, but takes more runs."""
# Measured on the labelled sets, see docs/studies/defaults.md.
_QUERY_TOKENS = 24

_TOKENIZED_AT_ONCE = 4096
# The tokenizer keeps about a hundred bytes of each token, and a text has up to one for each character.
_CHARACTERS_AT_ONCE = 1_000_000
# Far over the limit of any model, so that the exact number of its tokens does not matter.
_LONG_TEXT = 250_000


class LocalEmbedder:
    """Runs a BERT-type model in float32, or with whole numbers of constant scales.

    With either, a text has the same vector in every batch.

    One session uses all cores that the process may use. The first process that embeds builds the model's graph
    into the cache. Constructing the embedder loads neither a runtime nor the tokenizer.

    Attributes:
        graph_path: File of the built graph.
    """

    def __init__(
        self,
        model: BertModel,
        *,
        graphs: Path,
        runtime: Runtime = "onnxruntime",
        ranges: ActivationRanges | None = None,
        languages: tuple[str, ...] | None = None,
    ) -> None:
        """Set the model and its runtime.

        Args:
            model: The model to run.
            graphs: Folder for built graphs.
            runtime: Library that runs the model. The embedding space is the same with each.
            ranges: Ranges of the model's activations, to multiply whole numbers of 8 bits by onnxruntime; None for
                float32. The embedding space is another one.
            languages: Languages that the model knows, ISO 639-1; None takes those that the model states.
        """
        self._model = model
        self.dimension = model.hidden_size
        self.id = f"local:{model.name}:{model.checksum[:12]}:{self.dimension}"
        self.max_input_tokens = model.max_input_tokens
        self.default_min_similarity = model.min_similarity
        self.languages = model.languages if languages is None else languages
        self.default_query_tokens = _QUERY_TOKENS
        self.workers = 1
        self.api_calls = 0
        graph = f"graph {GRAPH_VERSION}"
        if ranges is not None:
            made_by = f"{ranges.checksum} {INT8_GRAPH_VERSION}"
            self.id += f":int8-{hashlib.sha256(made_by.encode()).hexdigest()[:6]}"
            graph = f"int8 {made_by}"
        version = hashlib.sha256(f"{model.checksum} {graph}".encode()).hexdigest()[:12]
        self.graph_path = graphs / f"{model.name}-{version}" / "model.onnx"
        self._ranges = ranges
        self._runtime: Runtime = runtime
        self._loading = threading.Lock()
        self._opened: OpenModel | None = None
        self._padded_tokens = MAX_PADDED_TOKENS_OF_GPU if runtime == "cuda" else MAX_PADDED_TOKENS
        self._tokenizer: TextTokenizer | None = None

    def find_provider(self) -> str:
        """Load the model, and return the provider of onnxruntime that computes it.

        Raises:
            SettingsError: The GPU cannot be used.
            ModelFileError: The weights cannot be used, or the graph cannot be written.
        """
        return self._load_model().provider

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count with the model's tokenizer, special tokens and the longer prompt included.

        A text that no model embeds whole is counted in parts.
        """
        require_text(texts)
        counts = count_at_least(texts)
        for prompt in sorted({"", *self._model.prompts.values()}):
            np.maximum(counts, self._count(prompt, texts), out=counts)
        return counts

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group texts of similar length into at most 4,096 padded tokens, or 32,768 on a GPU."""
        return group_by_length(token_counts, max_padded_tokens=self._padded_tokens)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed texts, batch by batch.

        Args:
            texts: Any number of texts.
            task: Chooses the prompt if the model has prompts.

        Returns:
            Unit rows, shape ``(len(texts), dimension)``, in the order of the texts.

        Raises:
            EmbeddingInputError: A text is over ``max_input_tokens``.
            SettingsError: The GPU cannot be used.
            ModelFileError: The tokenizer or the weights cannot be used, or the graph cannot be written.
        """
        require_text(texts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        if not len(texts):
            return vectors
        tokens = self._tokenize(self._model.prompts.get(task, ""), texts)
        counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
        require_within_limit(counts, self.max_input_tokens, self.id)
        run_model = self._load_model().run
        if self._ranges is None:
            # A few sentences differ much in length, and what pads them costs as much as they do.
            even = group_by_length(counts, max_padded_tokens=self._padded_tokens, least_filled=_LEAST_FILLED)
            for batch in even:
                vectors[batch] = run_model(_pad([tokens[position] for position in batch]))
        else:
            for batch in group_equal_lengths(counts, max_tokens=MAX_PADDED_TOKENS):
                vectors[batch] = run_model({INPUT_IDS: np.array([tokens[position] for position in batch])})
        return vectors

    def _count(self, prompt: str, texts: Sequence[str]) -> NDArray[np.int64]:
        tokenizer = self._load_tokenizer().tokenizer
        counts = np.zeros(len(texts), np.int64)
        for block in _group_parts([prompt + text for text in texts]):
            found = tokenizer.encode_batch_fast([part for _, part in block])
            np.add.at(counts, [row for row, _ in block], list(map(len, found)))
        return counts

    def _tokenize(self, prompt: str, texts: Sequence[str]) -> list[list[int]]:
        loaded = self._load_tokenizer()
        encodings = loaded.tokenizer.encode_batch_fast([prompt + text for text in texts])
        rows = []
        for found in encodings:
            ids = found.ids  # each access makes another list
            rows.append([ids[place] for place in loaded.find_text_tokens(found)])
        return rows

    def _load_tokenizer(self) -> TextTokenizer:
        with self._loading:
            if self._tokenizer is None:
                try:
                    loaded = load_text_tokenizer(self._model.read_tokenizer())
                except ValueError as error:
                    raise ModelFileError(
                        f"the tokenizer.json of {self._model.name} cannot be used ({error}); "
                        "fetch the model again",
                        code="damaged_file",
                        model=self._model.name,
                        name="tokenizer.json",
                    ) from error
                for prompt in self._model.prompts.values():
                    if any(spelling in prompt for spelling in loaded.special):
                        raise ModelFileError(
                            f"the prompt {prompt!r} of {self._model.name} holds a special token, which no text "
                            "may hold; only models whose prompts are words can be run",
                            code="special_token",
                            model=self._model.name,
                            prompt=prompt,
                        )
                loaded.tokenizer.no_truncation()
                loaded.tokenizer.no_padding()
                self._tokenizer = loaded
            return self._tokenizer

    def _load_model(self) -> OpenModel:
        with self._loading:
            if self._opened is None:
                require_built_file(self.graph_path, self._build_graph)
                self._opened = open_model(self.graph_path, self._runtime)
            return self._opened

    def _build_graph(self) -> bytes:
        if self._ranges is None:
            return build_graph(self._model)
        return build_int8_graph(self._model, self._ranges)


def _group_parts(texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Group texts, very long ones in parts, into blocks of bounded length; each part comes with its text's place."""
    block: list[tuple[int, str]] = []
    characters = 0
    for place, text in enumerate(texts):
        for start in range(0, max(len(text), 1), _LONG_TEXT):
            block.append((place, text[start : start + _LONG_TEXT]))
            characters += len(block[-1][1])
            if len(block) == _TOKENIZED_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
                yield block
                block, characters = [], 0
    if block:
        yield block


def _pad(tokens: list[list[int]]) -> dict[str, NDArray[np.int64]]:
    width = max(map(len, tokens))
    input_ids = np.zeros((len(tokens), width), np.int64)
    attention_mask = np.zeros((len(tokens), width), np.int64)
    for row, ids in enumerate(tokens):
        input_ids[row, : len(ids)] = ids
        attention_mask[row, : len(ids)] = 1
    return {INPUT_IDS: input_ids, ATTENTION_MASK: attention_mask}
