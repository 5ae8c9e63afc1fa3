"""A user's cross-encoder as a reranker: an ONNX model that reads two texts at once and scores the pair.

Such a model reads a few hundred tokens, and a window is far longer. So each candidate is paired with the query chunks
that found it with the best scores, at most three, and the judgement of a pair is the logistic function of the model's
score: these models are trained with a logistic loss, for which that is the probability that the pair is relevant. A
pair over the limit is truncated, the longer text first, as these models are trained.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelFileError, RerankError
from backstory.models.embeddings.batches import group_by_length
from backstory.models.rerankers.protocol import PROBABILITY, Judgements, RerankRequest, Topic
from backstory.models.services.onnx_sessions import open_session
from backstory.models.services.text_tokenizers import TextTokenizer, load_text_tokenizer
from backstory.settings.models import RerankSettings

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding

MODEL_FILES = ("model.onnx", "onnx/model.onnx")
TOKENIZER_FILE = "tokenizer.json"

_MAX_PADDED_TOKENS = 4096
_MOST_QUERIES = 3
"""Most query chunks that each candidate is scored with."""

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

Scores = NDArray[np.float64]


class _Tokens(NamedTuple):
    """A pair of texts as the model takes it: token ids, and for each whether it belongs to the first text (0)."""

    ids: list[int]
    type_ids: list[int]


class CrossEncoderReranker:
    """Scores pairs of query chunk and candidate. Constructing it loads neither onnxruntime nor the tokenizer."""

    def __init__(self, settings: RerankSettings) -> None:
        """Find the model's files and hash them.

        Args:
            settings: ``model_dir`` and ``max_tokens``.

        Raises:
            ModelFileError: The settings name no folder, or a file is absent from it.
        """
        if settings.model_dir is None:
            raise ModelFileError(
                "rerank.provider is cross_encoder, but rerank.model_dir names no folder; set it to a folder with "
                f"{MODEL_FILES[0]} and {TOKENIZER_FILE}",
                code="absent_setting",
                setting="rerank.model_dir",
            )
        self._folder = Path(settings.model_dir).expanduser().resolve()
        self._model, self._tokenizer_file = _find_files(self._folder)
        self._max_tokens = settings.max_tokens
        name = re.sub(r"[^\w.-]+", "-", self._folder.name)
        checksum = _checksum(self._model, self._tokenizer_file)
        self.api_calls = 0
        self.id = f"cross_encoder:{name}:{checksum[:12]}:{self._max_tokens}"
        self._loading = threading.Lock()
        self._loaded: tuple[InferenceSession, TextTokenizer, int] | None = None

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        """Judge every candidate for the query chunks that found it best.

        Args:
            requests: One request per window.

        Returns:
            One result per request, in the same order: a row per query, in the order of the request.

        Raises:
            ModelFileError: The model or its tokenizer cannot be loaded, or the model needs inputs that are not text.
            RerankError: The model failed, or its output is not one score per pair.
        """
        chosen = [_choose_pairs(request) for request in requests]
        pairs = [
            (request.queries[row].text, f"{candidate.title}\n\n{candidate.text}".strip())
            for request, places in zip(requests, chosen, strict=True)
            for row, column in places
            for candidate in [request.candidates[column]]
        ]
        scores = iter(_to_probability(self._score(pairs)).tolist() if pairs else ())
        results = []
        for request, places in zip(requests, chosen, strict=True):
            values = np.full((len(request.queries), len(request.candidates)), np.nan)
            for place in places:
                values[place] = next(scores)
            topics = tuple(Topic("", (query.query_chunk_id,)) for query in request.queries)
            results.append(Judgements(topics, values, PROBABILITY, separate=False))
        return results

    def _score(self, pairs: list[tuple[str, str]]) -> Scores:
        """Score pairs of texts, shape ``(pairs,)``."""
        session, loaded, padding = self._load()
        encodings = [_read_tokens(loaded, encoding) for encoding in loaded.tokenizer.encode_batch(pairs)]
        lengths = np.fromiter((len(tokens.ids) for tokens in encodings), np.int64, len(encodings))
        inputs = [found.name for found in session.get_inputs()]
        scores = np.empty(len(pairs), np.float64)
        for batch in group_by_length(lengths, max_padded_tokens=_MAX_PADDED_TOKENS):
            feeds = _pad([encodings[place] for place in batch], padding)
            scores[batch] = self._run(session, {name: feeds[name] for name in inputs}, len(batch))
        return scores

    def _run(self, session: InferenceSession, feeds: dict[str, NDArray[np.int64]], count: int) -> Scores:
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        try:
            output = np.asarray(session.run(None, feeds)[0])
        except (failures.Fail, failures.InvalidArgument, failures.RuntimeException) as error:
            width = feeds[_INPUTS[0]].shape[1]
            raise RerankError(
                f"{self._model} failed on pairs of {width} tokens ({error}); if the model takes fewer, set "
                "rerank.max_tokens to its limit",
                code="failed_model",
                setting="rerank.max_tokens",
            ) from error
        if output.shape not in ((count,), (count, 1), (count, 2)):
            raise RerankError(
                f"{self._model} answered {count} pairs with an output of shape {output.shape}; a cross-encoder gives "
                f"one score per pair, shape ({count}, 1), or one for each of the classes irrelevant and relevant",
                code="unusable_scores",
                shape=output.shape,
            )
        logits = output.reshape(count, -1).astype(np.float64)
        # With two classes, the softmax of "relevant" grows with the difference of the two scores.
        scores: Scores = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
        if not np.isfinite(scores).all():
            raise RerankError(
                f"{self._model} answered with a score that is not finite; check its precision",
                code="unusable_scores",
            )
        return scores

    def _load(self) -> tuple[InferenceSession, TextTokenizer, int]:
        """Return the model, its tokenizer, and the id of the padding token."""
        with self._loading:
            if self._loaded is None:
                tokenizer, padding = _load_tokenizer(self._tokenizer_file, self._max_tokens)
                self._loaded = (_load_model(self._model), tokenizer, padding)
            return self._loaded


def _choose_pairs(request: RerankRequest) -> list[tuple[int, int]]:
    """Return row and column of the pairs to score: for each candidate its highest-scoring queries."""
    ranked = np.argsort(-request.scores, axis=0, kind="stable")[:_MOST_QUERIES]
    return [
        (int(row), column)
        for column in range(len(request.candidates))
        for row in ranked[:, column]
        if np.isfinite(request.scores[row, column])
    ]


def _to_probability(scores: Scores) -> Scores:
    probability: Scores = np.exp(-np.logaddexp(0.0, -scores))
    return probability


def _find_files(folder: Path) -> tuple[Path, Path]:
    models = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
    tokenizer = folder / TOKENIZER_FILE
    missing = [
        *([] if models else [" or ".join(MODEL_FILES)]),
        *([] if tokenizer.is_file() else [TOKENIZER_FILE]),
    ]
    if missing:
        raise ModelFileError(
            f"{folder} holds no {', no '.join(missing)}; `rerank.model_dir` must name a folder with a "
            "cross-encoder's ONNX model and its tokenizer",
            code="absent_file",
            folder=folder,
            names=tuple(missing),
            setting="rerank.model_dir",
        )
    return models[0], tokenizer


def _checksum(model: Path, tokenizer: Path) -> str:
    """Hash the files that the scores depend on, with external weights such as ``model.onnx_data``."""
    state = hashlib.sha256()
    for path in [*sorted(model.parent.glob(f"{model.name}*")), tokenizer]:
        with path.open("rb") as file:
            state.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return state.hexdigest()


def _load_tokenizer(path: Path, max_tokens: int) -> tuple[TextTokenizer, int]:
    try:
        loaded = load_text_tokenizer(path.read_bytes())
    except ValueError as error:
        raise ModelFileError(
            f"{path} cannot be used ({error}); fetch the model again", code="damaged_file", path=path
        ) from error
    tokenizer = loaded.tokenizer
    padding = (tokenizer.padding or {}).get("pad_id", 0)
    # Texts are padded batch by batch; a published tokenizer may pad all of them to one length.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy="longest_first")
    return loaded, padding


def _read_tokens(loaded: TextTokenizer, encoding: Encoding) -> _Tokens:
    places = loaded.find_text_tokens(encoding)
    return _Tokens([encoding.ids[place] for place in places], [encoding.type_ids[place] for place in places])


def _load_model(path: Path) -> InferenceSession:
    from onnxruntime.capi import onnxruntime_pybind11_state as failures

    try:
        session = open_session(path)
    except (
        failures.Fail,
        failures.InvalidGraph,
        failures.InvalidProtobuf,
        failures.NoModel,
        failures.NotImplemented,
    ) as error:
        raise ModelFileError(
            f"{path} cannot be run ({error}); export the model to ONNX again", code="damaged_file", path=path
        ) from error
    foreign = [found.name for found in session.get_inputs() if found.name not in _INPUTS]
    if foreign:
        raise ModelFileError(
            f"{path} needs the input {', '.join(foreign)}; a cross-encoder takes {', '.join(_INPUTS)}",
            code="unsupported_model",
            path=path,
            inputs=tuple(foreign),
        )
    return session


def _pad(pairs: Sequence[_Tokens], padding: int) -> dict[str, NDArray[np.int64]]:
    width = max(len(tokens.ids) for tokens in pairs)
    feeds = {name: np.zeros((len(pairs), width), np.int64) for name in _INPUTS}
    feeds["input_ids"][:] = padding
    for row, tokens in enumerate(pairs):
        length = len(tokens.ids)
        feeds["input_ids"][row, :length] = tokens.ids
        feeds["attention_mask"][row, :length] = 1
        feeds["token_type_ids"][row, :length] = tokens.type_ids
    return feeds
