"""ONNX models that read texts, alone or in pairs, run by onnxruntime on the CPU or on a GPU of NVIDIA.

Texts are written by other people, so no text becomes a token that steers a model: the spelling of a special token
(``[SEP]``, ``</s>``) is encoded as ordinary text.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelError, ModelSetupError, SettingsError
from backstory.base.files.atomic import require_built_file
from backstory.models.embeddings.protocol import group_in_order

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Runtime: TypeAlias = Literal["onnxruntime", "cuda"]
Provider: TypeAlias = str | tuple[str, dict[str, str]]
"""What onnxruntime computes with, by its name, and its options."""
ReadOutput: TypeAlias = Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]]
"""Makes of the output of a batch and of its mask one row or number for each text."""

INPUT_IDS: Final = "input_ids"
ATTENTION_MASK: Final = "attention_mask"
MODEL_FILES: Final = ("model.onnx", "onnx/model.onnx")
TOKENIZER_FILE: Final = "tokenizer.json"
PADDED_TOKENS: Final = 4096
"""Most tokens of a batch, padding included."""
PADDED_TOKENS_OF_GPU: Final = 32_768
"""A GPU is used only in part by fewer tokens at once. Chosen by its number of cores; no GPU was measured."""

_TYPE_IDS: Final = "token_type_ids"
_INPUTS: Final = (INPUT_IDS, ATTENTION_MASK, _TYPE_IDS)
_SENTENCE_OUTPUT: Final = "sentence_embedding"
_LOG_ERRORS: Final = 3
_CPU: Final = "CPUExecutionProvider"
_CUDA: Final = "CUDAExecutionProvider"
# Products are computed in full float32 on the GPU, too, so that the numbers differ by rounding only.
_ON_GPU: Final[Provider] = (_CUDA, {"use_tf32": "0"})

_TOKENIZED_AT_ONCE: Final = 4096
# The tokenizer keeps about a hundred bytes of each token, and a text has up to one for each character.
_CHARACTERS_AT_ONCE: Final = 1_000_000
# Far over the limit of any model, so that the exact number of its tokens does not matter.
_LONG_TEXT: Final = 250_000


class Tokens(NamedTuple):
    """A text or a pair of texts as a model takes it; the types tell the texts of a pair apart, and are none of one."""

    ids: list[int]
    types: list[int]


class TextTokenizer:
    """A tokenizer that encodes the spelling of a special token as ordinary text, and pads nothing."""

    def __init__(self, content: bytes, most_tokens: int | None = None) -> None:
        """Load a ``tokenizer.json``, or raise ``ValueError``; a pair is cut to the most tokens, longer text first."""
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_buffer(content)
        self._tokenizer.encode_special_tokens = True
        # Ordinary texts hold the token for unknown text, too, which vocabularies name by its spelling or its id.
        model = json.loads(content)["model"]
        unknown = model.get("unk_token"), model.get("unk_id")
        special = {
            number: token.content
            for number, token in self._tokenizer.get_added_tokens_decoder().items()
            if token.special and number not in unknown and token.content not in unknown
        }
        self.special = frozenset(special.values())
        # Those that it makes of their spelling nevertheless, as vocabularies of type Unigram do.
        self._leaking = {
            number
            for number, spelling in special.items()
            if number in self._tokenizer.encode(spelling, add_special_tokens=False).ids
        }
        self.padding = int((self._tokenizer.padding or {}).get("pad_id", 0))
        # Texts are padded batch by batch; a published tokenizer may pad or cut all of them to one length.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if most_tokens is not None:
            self._tokenizer.enable_truncation(most_tokens, strategy="longest_first")

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of each text, special tokens included; a text that no model reads whole counts by parts."""
        counts = np.zeros(len(texts), np.int64)
        for rows, _, parts in _group_parts(texts):
            np.add.at(counts, rows, list(map(len, self._tokenizer.encode_batch_fast(parts))))
        return counts

    def find_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Find the offset after each token of each text; it is 0 for special tokens, wherever they stand."""
        around = np.zeros(self._tokenizer.num_special_tokens_to_add(is_pair=False), np.int64)
        ends: list[list[NDArray[np.int64]]] = [[around] for _ in texts]
        for rows, starts, parts in _group_parts(texts):
            found = self._tokenizer.encode_batch(parts, add_special_tokens=False)
            for row, start, tokens in zip(rows, starts, found, strict=True):
                offsets = np.fromiter((end for _, end in tokens.offsets), np.int64, len(tokens))
                ends[row].append(start + np.maximum.accumulate(offsets))
        return [np.concatenate(each) for each in ends]

    def encode(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[Tokens]:
        """Encode texts or pairs of texts, without the special tokens that stand in a text and not around it."""
        rows = []
        for text, found in zip(texts, self._tokenizer.encode_batch_fast(texts), strict=True):
            ids, types = found.ids, [] if isinstance(text, str) else found.type_ids
            if not self._leaking.isdisjoint(ids):
                around = found.special_tokens_mask
                places = [at for at, token in enumerate(ids) if around[at] or token not in self._leaking]
                ids, types = [ids[at] for at in places], [types[at] for at in places if types]
            rows.append(Tokens(ids, types))
        return rows


def _group_parts(texts: Sequence[str]) -> Iterator[tuple[list[int], list[int], list[str]]]:
    """Group the parts of texts into what is tokenized at once; give the row of its text and the start of each part."""
    places = [
        (row, start) for row, text in enumerate(texts) for start in range(0, max(len(text), 1), _LONG_TEXT)
    ]
    sizes = np.array([min(len(texts[row]) - start, _LONG_TEXT) for row, start in places], np.int64)
    for block in group_in_order(sizes, max_texts=_TOKENIZED_AT_ONCE, max_tokens=_CHARACTERS_AT_ONCE):
        rows, starts = [places[at][0] for at in block], [places[at][1] for at in block]
        parts = [texts[row][start : start + _LONG_TEXT] for row, start in zip(rows, starts, strict=True)]
        yield rows, starts, parts


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a model of the user's own: its name, safe in an id, its files, and their SHA-256."""

    name: str
    model: Path
    tokenizer: Path
    checksum: str


def find_model_folder(folder: str, setting: str) -> ModelFolder:
    """Find the files of a model in the folder that a setting names, and hash them."""
    path = Path(folder).expanduser().resolve()
    models = [path / name for name in MODEL_FILES if (path / name).is_file()]
    tokenizer = path / TOKENIZER_FILE
    if not models or not tokenizer.is_file():
        raise ModelSetupError(
            f"{path} does not hold {' or '.join(MODEL_FILES)}, and {TOKENIZER_FILE}; `{setting}` must name a folder "
            "with an ONNX model and its tokenizer, as `optimum-cli export onnx` writes it",
            code="absent_file",
        )
    state = hashlib.sha256()
    for found in [*sorted(models[0].parent.glob(f"{models[0].name}*")), tokenizer]:
        with found.open("rb") as file:
            state.update(f"{found.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return ModelFolder(re.sub(r"[^\w.-]+", "-", path.name), models[0], tokenizer, state.hexdigest())


@dataclass(eq=False)
class OnnxText:
    """Tokenizes texts and runs a model over them in batches. Nothing is loaded before it is used.

    ``build`` makes the ONNX file if it is absent; the source is a ``tokenizer.json``, or reads one. An error names the
    setting ``limit`` if the model fails. With the runtime None a GPU is used if there is one. One session uses all
    cores that the process may use; threads may share it.
    """

    path: Path
    source: Path | Callable[[], bytes]
    limit: str
    build: Callable[[], bytes] | None = None
    runtime: Runtime | None = None
    most_tokens: int | None = None
    least_filled: float = 0.0
    _loading: threading.Lock = field(default_factory=threading.Lock, init=False)
    _tokenizer: TextTokenizer | None = field(default=None, init=False)
    _session: InferenceSession | None = field(default=None, init=False)

    @property
    def padded_tokens(self) -> int:
        """Most tokens of a batch, padding included."""
        return PADDED_TOKENS_OF_GPU if self.runtime == "cuda" else PADDED_TOKENS

    @property
    def provider(self) -> str:
        """The provider of onnxruntime that computes; the model is loaded to know."""
        return str(self._open().get_providers()[0])

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer, loaded once."""
        with self._loading:
            if self._tokenizer is None:
                path = self.source if isinstance(self.source, Path) else self.path
                content = self.source.read_bytes() if isinstance(self.source, Path) else self.source()
                try:
                    self._tokenizer = TextTokenizer(content, self.most_tokens)
                except ValueError as error:
                    raise ModelSetupError(
                        f"the tokenizer in {path} cannot be used ({error}); fetch the model again",
                        code="damaged_file",
                    ) from error
            return self._tokenizer

    def run(self, tokens: Sequence[Tokens], read: ReadOutput) -> NDArray[Any]:
        """Run the model over texts from :meth:`TextTokenizer.encode`, and return a row or number for each.

        A ``SettingsError`` means that the GPU cannot be used, a ``ModelSetupError`` that the model cannot be run, and a
        ``ModelError`` that it failed.
        """
        session = self._open()
        names = [found.name for found in session.get_inputs()]
        counts = np.array([len(each.ids) for each in tokens], np.int64)
        # A model without a mask takes no padding.
        filled = self.least_filled if ATTENTION_MASK in names else 1.0
        rows: NDArray[Any] | None = None
        for batch in group_by_length(counts, max_padded_tokens=self.padded_tokens, least_filled=filled):
            feeds = _pad([tokens[place] for place in batch], self.tokenizer.padding)
            output = self._compute(session, {name: feeds[name] for name in names})
            found = read(output, feeds[ATTENTION_MASK])
            if rows is None:
                rows = np.empty((len(tokens), *found.shape[1:]), found.dtype)
            rows[batch] = found
        return np.empty(0) if rows is None else rows

    def _compute(self, session: InferenceSession, feeds: dict[str, NDArray[np.int64]]) -> NDArray[Any]:
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        outputs = [found.name for found in session.get_outputs()]
        output = _SENTENCE_OUTPUT if _SENTENCE_OUTPUT in outputs else outputs[0]
        try:
            return np.asarray(session.run([output], feeds)[0])
        except (failures.Fail, failures.InvalidArgument, failures.RuntimeException) as error:
            raise ModelError(
                f"{self.path} failed on {feeds[INPUT_IDS].shape[1]} tokens ({error}); if the model takes fewer, set "
                f"{self.limit} to its limit",
                code="failed_model",
            ) from error

    def _open(self) -> InferenceSession:
        with self._loading:
            if self._session is None:
                if self.build is not None:
                    require_built_file(self.path, self.build)
                self._session = open_session(self.path, self.runtime)
            return self._session


_shared: Final[dict[tuple[object, ...], OnnxText]] = {}
"""The models that this process has opened, by their files and what they run by."""


def share(model: OnnxText, *key: object) -> OnnxText:
    """Return the model of the same path and key that this process has opened, or else this one from now on.

    A model keeps nothing of what it read, so that workspaces of different people may share it.
    """
    return _shared.setdefault((model.path, *key), model)


def open_session(path: Path, runtime: Runtime | None = None) -> InferenceSession:
    """Load a model of texts, with ``cuda`` for a GPU and never the CPU, with None for a GPU if there is one.

    In float32 all give the same numbers up to rounding. A ``SettingsError`` means that there is no GPU to use, a
    ``ModelSetupError`` that the model cannot be run, or needs inputs that are not text.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as failures

    available = onnxruntime.get_available_providers()
    if runtime == "cuda" and _CUDA not in available:
        raise SettingsError(
            f"embedding.runtime: cuda needs onnxruntime's build for NVIDIA GPUs; the installed one offers "
            f"{', '.join(available)}. Run `pip uninstall onnxruntime`, then `pip install onnxruntime-gpu`, or set "
            "runtime: onnxruntime",
            code="no_gpu_build",
        )
    options = onnxruntime.SessionOptions()
    has_affinity = hasattr(os, "sched_getaffinity")
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS
    # A thread that waits for the next one would else use its core up. The numbers are the same, to the bit.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(path, options, providers=choose_providers(runtime, available))
    except (
        failures.Fail,
        failures.InvalidGraph,
        failures.InvalidProtobuf,
        failures.NoModel,
        failures.NotImplemented,
    ) as error:
        raise ModelSetupError(
            f"{path} cannot be run ({error}); allow the process more memory if it says bad_alloc, else export it to "
            "ONNX again, or delete it if Backstory built it",
            code="damaged_file",
        ) from error
    if runtime == "cuda":
        # It loads a model for the CPU if the libraries of CUDA or the GPU are absent, and after an error of the GPU.
        session.disable_fallback()
        if session.get_providers()[0] != _CUDA:
            raise SettingsError(
                "embedding.runtime: cuda finds no GPU that onnxruntime can use; compare the versions of the driver, "
                "CUDA and cuDNN with those in https://onnxruntime.ai/docs/execution-providers/"
                "CUDA-ExecutionProvider.html, or set runtime: onnxruntime",
                code="unusable_gpu",
            )
    foreign = [found.name for found in session.get_inputs() if found.name not in _INPUTS]
    if foreign:
        raise ModelSetupError(
            f"{path} needs the input {', '.join(foreign)}; a model of texts takes {', '.join(_INPUTS)}",
            code="unsupported_model",
        )
    return session


def choose_providers(runtime: Runtime | None, available: Collection[str]) -> list[Provider]:
    """Return the providers of onnxruntime for a runtime, in order of preference, of those that it reports."""
    if runtime is None:
        return [_ON_GPU, _CPU] if _CUDA in available else [_CPU]
    return [_ON_GPU] if runtime == "cuda" else [_CPU]


def group_by_length(
    token_counts: NDArray[np.int64], *, max_padded_tokens: int, least_filled: float = 0.0
) -> list[NDArray[np.int64]]:
    """Group texts of similar length within a number of tokens, padding included; each position comes exactly once.

    The longest texts come first, so that memory peaks at the start of a run. A text above the number is a batch alone.
    ``least_filled`` is the least tokens of a text as a share of the longest one of its batch: 0 pads any text, and 1
    none.
    """
    order = np.argsort(-token_counts, kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = int(token_counts[order[start]])
        batch = order[start : start + max(1, max_padded_tokens // max(1, longest))]
        filled = int(np.count_nonzero(token_counts[batch] >= least_filled * longest))
        batches.append(batch[:filled])
        start += filled
    return batches


def _pad(tokens: Sequence[Tokens], padding: int) -> dict[str, NDArray[np.int64]]:
    width = max(len(each.ids) for each in tokens)
    feeds = {name: np.zeros((len(tokens), width), np.int64) for name in _INPUTS}
    feeds[INPUT_IDS][:] = padding
    for row, each in enumerate(tokens):
        length = len(each.ids)
        feeds[INPUT_IDS][row, :length] = each.ids
        feeds[ATTENTION_MASK][row, :length] = 1
        feeds[_TYPE_IDS][row, : len(each.types)] = each.types
    return feeds
