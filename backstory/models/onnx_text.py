"""ONNX models that read texts, alone or in pairs, run by onnxruntime on the CPU or on a GPU of NVIDIA.

Texts are written by other people, so no text becomes a token that steers a model: the spelling of a special token
(``[SEP]``, ``</s>``) is encoded as ordinary text.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelError, ModelFileError
from backstory.base.files.built import require_built_file
from backstory.models.embeddings.batches import group_by_length, group_equal_lengths
from backstory.models.onnx_sessions import Runtime, open_session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

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
_SENTENCE_OUTPUT: Final = "sentence_embedding"

_TOKENIZED_AT_ONCE: Final = 4096
# The tokenizer keeps about a hundred bytes of each token, and a text has up to one for each character.
_CHARACTERS_AT_ONCE: Final = 1_000_000
# Far over the limit of any model, so that the exact number of its tokens does not matter.
_LONG_TEXT: Final = 250_000


class Tokens(NamedTuple):
    """A text or a pair of texts as a model takes it; the types tell the texts of a pair apart, and are none of one."""

    ids: list[int]
    types: list[int]


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer that encodes the spelling of a special token as ordinary text.

    Attributes:
        tokenizer: Encodes texts.
        special: Spellings of the special tokens.
        leaking: Special tokens that it makes of their spelling nevertheless, as vocabularies of type Unigram do.
    """

    tokenizer: Tokenizer
    special: frozenset[str]
    leaking: frozenset[int]

    def find_text_tokens(self, encoding: Encoding) -> Sequence[int]:
        """Return the places of all tokens, but for special ones that stand in the text and not around it."""
        ids = encoding.ids  # each access makes another list
        if self.leaking.isdisjoint(ids):
            return range(len(ids))
        around = encoding.special_tokens_mask
        return [place for place, token in enumerate(ids) if around[place] or token not in self.leaking]


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
    missing = [
        *([] if models else [" or ".join(MODEL_FILES)]),
        *([] if tokenizer.is_file() else [TOKENIZER_FILE]),
    ]
    if missing:
        raise ModelFileError(
            f"{path} holds no {', no '.join(missing)}; `{setting}` must name a folder with an ONNX model and its "
            "tokenizer, as `optimum-cli export onnx` writes it",
            code="absent_file",
        )
    state = hashlib.sha256()
    for found in [*sorted(models[0].parent.glob(f"{models[0].name}*")), tokenizer]:
        with found.open("rb") as file:
            state.update(f"{found.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return ModelFolder(re.sub(r"[^\w.-]+", "-", path.name), models[0], tokenizer, state.hexdigest())


class OnnxText:
    """Tokenizes texts and runs a model over them in batches. Nothing is loaded before it is used.

    One session uses all cores that the process may use; threads may share it.

    Attributes:
        path: The ONNX file.
        padded_tokens: Most tokens of a batch, padding included.
    """

    def __init__(
        self,
        path: Path,
        tokenizer: Path | Callable[[], bytes],
        *,
        limit: str,
        build: Callable[[], bytes] | None = None,
        runtime: Runtime | None = None,
        most_tokens: int | None = None,
        least_filled: float = 0.0,
    ) -> None:
        """Set the files.

        Args:
            path: The ONNX file.
            tokenizer: A ``tokenizer.json``, or what reads one.
            limit: The setting of the most tokens, for the error if the model fails.
            build: Makes the content of the file if it is absent; None for a file that is there.
            runtime: Where the model runs; None for a GPU if onnxruntime has one, else the CPU.
            most_tokens: Tokens to which a pair is cut, the longer text first; None to cut nothing.
            least_filled: Least tokens of a text as a share of the longest one of its batch.
        """
        self.path = path
        self.padded_tokens = PADDED_TOKENS_OF_GPU if runtime == "cuda" else PADDED_TOKENS
        self._source = tokenizer
        self._limit = limit
        self._build = build
        self._runtime = runtime
        self._most_tokens = most_tokens
        self._least_filled = least_filled
        self._loading = threading.Lock()
        self._tokenizer: TextTokenizer | None = None
        self._padding = 0
        self._session: InferenceSession | None = None

    @property
    def provider(self) -> str:
        """The provider of onnxruntime that computes; the model is loaded to know."""
        return str(self._open().get_providers()[0])

    @property
    def special(self) -> frozenset[str]:
        """Spellings of the special tokens."""
        return self._load_tokenizer().special

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of each text, special tokens included; a text that no model reads whole counts by parts."""
        tokenizer = self._load_tokenizer().tokenizer
        counts = np.zeros(len(texts), np.int64)
        for block in _group_parts(texts):
            found = tokenizer.encode_batch_fast([part for _, part in block])
            np.add.at(counts, [row for row, _ in block], list(map(len, found)))
        return counts

    def tokenize(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[Tokens]:
        """Encode texts or pairs of texts as the model takes them."""
        loaded = self._load_tokenizer()
        rows = []
        for text, found in zip(texts, loaded.tokenizer.encode_batch_fast(texts), strict=True):
            ids, types = found.ids, [] if isinstance(text, str) else found.type_ids
            places = loaded.find_text_tokens(found)
            if len(places) < len(ids):
                ids, types = [ids[at] for at in places], [types[at] for at in places if types]
            rows.append(Tokens(ids, types))
        return rows

    def run(self, tokens: Sequence[Tokens], read: ReadOutput) -> NDArray[Any]:
        """Run the model over texts from :meth:`tokenize`, and return a row or number for each.

        Raises:
            SettingsError: The GPU cannot be used.
            ModelFileError: The model cannot be run, or needs inputs that are not text.
            ModelError: The model failed.
        """
        session = self._open()
        names = [found.name for found in session.get_inputs()]
        counts = np.fromiter((len(each.ids) for each in tokens), np.int64, len(tokens))
        if ATTENTION_MASK in names:
            batches = group_by_length(
                counts, max_padded_tokens=self.padded_tokens, least_filled=self._least_filled
            )
        else:
            batches = group_equal_lengths(counts, max_tokens=self.padded_tokens)
        rows: NDArray[Any] | None = None
        for batch in batches:
            feeds = _pad([tokens[place] for place in batch], self._padding)
            output = self._compute(session, {name: feeds[name] for name in names})
            found = read(output, feeds[ATTENTION_MASK])
            if rows is None:
                rows = np.empty((len(tokens), *found.shape[1:]), found.dtype)
            rows[batch] = found
        return np.empty(0) if rows is None else rows

    def _compute(self, session: InferenceSession, feeds: dict[str, NDArray[np.int64]]) -> NDArray[Any]:
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        outputs = [found.name for found in session.get_outputs()]
        try:
            return np.asarray(
                session.run([_SENTENCE_OUTPUT if _SENTENCE_OUTPUT in outputs else outputs[0]], feeds)[0]
            )
        except (failures.Fail, failures.InvalidArgument, failures.RuntimeException) as error:
            raise ModelError(
                f"{self.path} failed on {feeds[INPUT_IDS].shape[1]} tokens ({error}); if the model takes fewer, set "
                f"{self._limit} to its limit",
                code="failed_model",
            ) from error

    def _load_tokenizer(self) -> TextTokenizer:
        with self._loading:
            if self._tokenizer is None:
                source = self._source
                content = source.read_bytes() if isinstance(source, Path) else source()
                try:
                    loaded = load_text_tokenizer(content)
                except ValueError as error:
                    path = source if isinstance(source, Path) else self.path
                    raise ModelFileError(
                        f"the tokenizer in {path} cannot be used ({error}); fetch the model again",
                        code="damaged_file",
                    ) from error
                self._padding = (loaded.tokenizer.padding or {}).get("pad_id", 0)
                # Texts are padded batch by batch; a published tokenizer may pad or cut all of them to one length.
                loaded.tokenizer.no_padding()
                loaded.tokenizer.no_truncation()
                if self._most_tokens is not None:
                    loaded.tokenizer.enable_truncation(self._most_tokens, strategy="longest_first")
                self._tokenizer = loaded
            return self._tokenizer

    def _open(self) -> InferenceSession:
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        with self._loading:
            if self._session is None:
                if self._build is not None:
                    require_built_file(self.path, self._build)
                try:
                    session = open_session(self.path, self._runtime)
                except (
                    failures.Fail,
                    failures.InvalidGraph,
                    failures.InvalidProtobuf,
                    failures.NoModel,
                    failures.NotImplemented,
                ) as error:
                    raise ModelFileError(
                        f"{self.path} cannot be run ({error}); export the model to ONNX again",
                        code="damaged_file",
                    ) from error
                known = (INPUT_IDS, ATTENTION_MASK, _TYPE_IDS)
                foreign = [found.name for found in session.get_inputs() if found.name not in known]
                if foreign:
                    raise ModelFileError(
                        f"{self.path} needs the input {', '.join(foreign)}; a model of texts takes {', '.join(known)}",
                        code="unsupported_model",
                    )
                self._session = session
            return self._session


def load_text_tokenizer(content: bytes) -> TextTokenizer:
    """Load a ``tokenizer.json`` for texts that other people wrote, or raise ``ValueError``."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.encode_special_tokens = True
    # Ordinary texts hold the token for unknown text, too, which vocabularies name by its spelling or its id.
    model = json.loads(content)["model"]
    unknown = model.get("unk_token"), model.get("unk_id")
    special = {
        number: token.content
        for number, token in tokenizer.get_added_tokens_decoder().items()
        if token.special and number not in unknown and token.content not in unknown
    }
    leaking = {
        number
        for number, spelling in special.items()
        if number in tokenizer.encode(spelling, add_special_tokens=False).ids
    }
    return TextTokenizer(tokenizer, frozenset(special.values()), frozenset(leaking))


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


def _pad(tokens: Sequence[Tokens], padding: int) -> dict[str, NDArray[np.int64]]:
    width = max(len(each.ids) for each in tokens)
    feeds = {
        name: np.zeros((len(tokens), width), np.int64) for name in (INPUT_IDS, ATTENTION_MASK, _TYPE_IDS)
    }
    feeds[INPUT_IDS][:] = padding
    for row, each in enumerate(tokens):
        length = len(each.ids)
        feeds[INPUT_IDS][row, :length] = each.ids
        feeds[ATTENTION_MASK][row, :length] = 1
        feeds[_TYPE_IDS][row, : len(each.types)] = each.types
    return feeds
