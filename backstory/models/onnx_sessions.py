"""ONNX models loaded into onnxruntime, for the CPU with all cores that the process may use, or for a GPU of NVIDIA."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from backstory.base.errors import SettingsError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Runtime: TypeAlias = Literal["onnxruntime", "cuda"]
Provider: TypeAlias = str | tuple[str, dict[str, str]]
"""What onnxruntime computes with, by its name, and its options."""

_LOG_ERRORS: Final = 3
_CPU: Final = "CPUExecutionProvider"
_CUDA: Final = "CUDAExecutionProvider"
# Products are computed in full float32 on the GPU, too, so that the numbers differ by rounding only.
_ON_GPU: Final[Provider] = (_CUDA, {"use_tf32": "0"})


def open_session(path: Path, runtime: Runtime | None = None) -> InferenceSession:
    """Load a model into onnxruntime.

    Args:
        path: The ONNX file.
        runtime: ``onnxruntime`` for the CPU; ``cuda`` for a GPU, and never the CPU in its place; None for a GPU if
            there is one. In float32 all give the same numbers up to rounding.

    Raises:
        SettingsError: The installed onnxruntime computes on no GPU, or finds none that it can use.
    """
    import onnxruntime

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
    session = onnxruntime.InferenceSession(path, options, providers=choose_providers(runtime, available))
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
    return session


def choose_providers(runtime: Runtime | None, available: Collection[str]) -> list[Provider]:
    """Return the providers of onnxruntime for a runtime, in order of preference, of those that it reports."""
    if runtime == "cuda":
        return [_ON_GPU]
    return [_ON_GPU, _CPU] if runtime is None and _CUDA in available else [_CPU]
