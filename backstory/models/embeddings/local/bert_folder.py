"""A user's BERT-type model, read from a folder as Hugging Face and sentence-transformers write it."""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backstory.base.errors import ModelFileError
from backstory.models.embeddings.local.bert_model import BertModel, Pooling, Weights
from backstory.models.embeddings.protocol import Task

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
POOLING_FILE = "1_Pooling/config.json"
MODULES_FILE = "modules.json"
LENGTH_FILE = "sentence_bert_config.json"
PROMPTS_FILE = "config_sentence_transformers.json"

_REQUIRED = (CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE)
_OPTIONAL = (POOLING_FILE, MODULES_FILE, LENGTH_FILE, PROMPTS_FILE)
_PLAIN_POSITIONS = ("bert",)
_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLINGS: dict[str, Pooling] = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
_PROMPT_NAMES: dict[Task, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}
_PREFIX = re.compile(r"^(bert|roberta|model)\.")
_UNKNOWN_SCALE = 0.0


def read_bert_folder(folder: str | Path) -> BertModel:
    """Read a model from a folder.

    The output is pooled by the mean, unless ``1_Pooling/config.json`` says otherwise. The model's similarity
    scale is not known, so it has no threshold of its own (0): one is derived from the documents.

    Args:
        folder: Holds ``config.json``, ``model.safetensors`` and ``tokenizer.json``, and the optional files of
            sentence-transformers.

    Returns:
        The model. Its weights are read later, by ``read_weights``.

    Raises:
        ModelFileError: A file is absent or not readable, or the model cannot be run exactly as it was trained.
    """
    folder = Path(folder).expanduser().resolve()
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if missing:
        raise ModelFileError(
            f"{folder} holds no {', '.join(missing)}; `embedding.model_dir` must name a folder with "
            f"{', '.join(_REQUIRED)}",
            code="absent_file",
            folder=folder,
            names=tuple(missing),
            setting="embedding.model_dir",
        )
    config = _read_json(folder / CONFIG_FILE)
    _require_supported(folder, config)
    _require_known_modules(folder)
    positions = config["max_position_embeddings"] - _position_offset(config)
    return BertModel(
        name=re.sub(r"[^\w.-]+", "-", folder.name),
        checksum=_checksum(folder),
        hidden_size=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        layer_norm_epsilon=config["layer_norm_eps"],
        pooling=_read_pooling(folder),
        max_input_tokens=min(positions, _read_json(folder / LENGTH_FILE).get("max_seq_length") or positions),
        min_similarity=_UNKNOWN_SCALE,
        languages=None,
        prompts=_read_prompts(folder),
        read_tokenizer=(folder / TOKENIZER_FILE).read_bytes,
        read_weights=partial(_read_weights, folder / WEIGHTS_FILE, _position_offset(config)),
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFileError(
            f"{path} is not JSON ({error}); fetch the model again", code="damaged_file", path=path
        ) from error
    if not isinstance(content, dict):
        raise ModelFileError(
            f"{path} holds a {type(content).__name__} instead of an object", code="damaged_file", path=path
        )
    return content


def _require_supported(folder: Path, config: dict[str, Any]) -> None:
    expected: dict[str, tuple[Any, ...]] = {
        "model_type": (*_PLAIN_POSITIONS, *_POSITIONS_AFTER_PADDING),
        "hidden_act": ("gelu",),
        "position_embedding_type": ("absolute",),
    }
    stated = {"position_embedding_type": "absolute"} | config
    for name, accepted in expected.items():
        if stated.get(name) not in accepted:
            raise ModelFileError(
                f"{folder / CONFIG_FILE}: {name} is {stated.get(name)!r}; "
                f"only {', '.join(accepted)} can be run",
                code="unsupported_model",
                path=folder / CONFIG_FILE,
                name=name,
                value=stated.get(name),
            )
    sizes = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "layer_norm_eps",
        "max_position_embeddings",
    )
    absent = [name for name in sizes if name not in config]
    if absent:
        raise ModelFileError(
            f"{folder / CONFIG_FILE} does not say {', '.join(absent)}",
            code="incomplete_model",
            path=folder / CONFIG_FILE,
            names=tuple(absent),
        )


def _require_known_modules(folder: Path) -> None:
    path = folder / MODULES_FILE
    if not path.is_file():
        return
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in json.loads(path.read_text("utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ModelFileError(
            f"{path} is not a list of modules ({error}); fetch the model again",
            code="damaged_file",
            path=path,
        ) from error
    unknown = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    if unknown:
        raise ModelFileError(
            f"{path}: {', '.join(unknown)} cannot be run; only {', '.join(_KNOWN_MODULES)}",
            code="unsupported_model",
            path=path,
            name=", ".join(unknown),
        )


def _position_offset(config: dict[str, Any]) -> int:
    if config["model_type"] in _PLAIN_POSITIONS:
        return 0
    return int(config.get("pad_token_id", 1)) + 1


def _read_pooling(folder: Path) -> Pooling:
    path = folder / POOLING_FILE
    if not path.is_file():
        return "mean"
    modes = [name for name, on in _read_json(path).items() if name.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise ModelFileError(
            f"{path}: pooling {', '.join(modes)} cannot be run; only {', '.join(_POOLINGS)}",
            code="unsupported_model",
            path=path,
            name=", ".join(modes),
        )
    return _POOLINGS[modes[0]]


def _read_prompts(folder: Path) -> dict[Task, str]:
    prompts = _read_json(folder / PROMPTS_FILE).get("prompts") or {}
    return {
        task: next((str(prompts[name]) for name in names if prompts.get(name)), "")
        for task, names in _PROMPT_NAMES.items()
    }


def _checksum(folder: Path) -> str:
    state = hashlib.sha256()
    for name in (*_REQUIRED, *_OPTIONAL):
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                state.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return state.hexdigest()


def _read_weights(path: Path, position_offset: int) -> Weights:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, TypeError) as error:
        raise ModelFileError(
            f"{path} cannot be read as numpy tensors ({error}); save the model as float32",
            code="damaged_file",
            path=path,
        ) from error
    weights = {_PREFIX.sub("", name): tensor.astype(np.float32) for name, tensor in tensors.items()}
    table = "embeddings.position_embeddings.weight"
    if table in weights:
        weights[table] = weights[table][position_offset:]
    return weights
