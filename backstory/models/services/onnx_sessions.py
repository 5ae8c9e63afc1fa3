"""ONNX models loaded for the CPU, with all cores that the process may use, or for a GPU of NVIDIA."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from backstory.base.errors import SettingsError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Runtime = Literal["onnxruntime", "cuda"]
RunModel = Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]
"""Takes the inputs by name and gives the first output. Threads may share it; one run at a time is fastest."""
Provider = str | tuple[str, dict[str, str]]
"""What onnxruntime computes with, by its name, and its options."""

_LOG_ERRORS = 3
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
# Products are computed in full float32 on the GPU, too, so that the vectors differ by rounding only.
_ON_GPU: Provider = (_CUDA, {"use_tf32": "0"})


@dataclass(frozen=True)
class OpenModel:
    """A model that is loaded.

    Attributes:
        run: Runs it.
        provider: The provider of onnxruntime that computes.
    """

    run: RunModel
    provider: str


def open_model(path: Path, runtime: Runtime) -> OpenModel:
    """Load a model into a runtime.

    Args:
        path: The ONNX file.
        runtime: ``onnxruntime`` for the CPU, or ``cuda`` for a GPU by the same library. In float32 both give the same
            numbers up to rounding.

    Raises:
        SettingsError: The GPU cannot be used.
    """
    session = _open_cuda(path) if runtime == "cuda" else open_session(path, [_CPU])

    def run(inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        output: NDArray[Any] = session.run(None, inputs)[0]
        return output

    return OpenModel(run, session.get_providers()[0])


def open_session(path: Path, providers: Sequence[Provider] | None = None) -> InferenceSession:
    """Load a model into onnxruntime.

    Args:
        path: The ONNX file.
        providers: What computes, in order of preference; those of :func:`choose_providers` if None.

    Returns:
        A session that any number of threads may share; one run at a time is fastest.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _available_cores()
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS
    # A thread that waits for the next one would else use its core up. The numbers are the same, to the bit.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if providers is None:
        providers = choose_providers(onnxruntime.get_available_providers())
    return onnxruntime.InferenceSession(path, options, providers=providers)


def choose_providers(available: Collection[str]) -> list[Provider]:
    """Choose where onnxruntime runs a model: on an NVIDIA GPU if its build for these is installed, else on the CPU.

    Args:
        available: Names of the providers that onnxruntime reports.

    Returns:
        Providers in order of preference, with their options.
    """
    return [_ON_GPU, _CPU] if _CUDA in available else [_CPU]


def _open_cuda(path: Path) -> InferenceSession:
    """Load a model into onnxruntime on a GPU, and never on the CPU in its place.

    Raises:
        SettingsError: The installed onnxruntime computes on no GPU, or finds none that it can use.
    """
    import onnxruntime

    available = onnxruntime.get_available_providers()
    if _CUDA not in available:
        raise SettingsError(
            f"embedding.runtime: cuda needs onnxruntime's build for NVIDIA GPUs; the installed one offers "
            f"{', '.join(available)}. Run `pip uninstall onnxruntime`, then `pip install onnxruntime-gpu`, or set "
            "runtime: onnxruntime",
            code="no_gpu_build",
            available=tuple(available),
        )
    session = open_session(path, [_ON_GPU])
    # It loads a model for the CPU if the libraries of CUDA or the GPU are absent, and after an error of the GPU.
    session.disable_fallback()
    if session.get_providers()[0] != _CUDA:
        raise SettingsError(
            "embedding.runtime: cuda finds no GPU that onnxruntime can use; compare the versions of the driver, CUDA "
            "and cuDNN with those in https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html, or "
            "set runtime: onnxruntime",
            code="unusable_gpu",
            providers=tuple(session.get_providers()),
        )
    return session


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
