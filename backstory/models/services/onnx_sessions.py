"""ONNX models loaded for the CPU, with all cores that the process may use, or for a GPU where onnxruntime finds one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from backstory.base.extras import require_extra

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Runtime = Literal["onnxruntime", "openvino"]
RunModel = Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]
"""Takes the inputs by name and gives the first output. Threads may share it; one run at a time is fastest."""

_LOG_ERRORS = 3
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"


def require_runtime(runtime: Runtime) -> None:
    """Raise if the packages of a runtime are not installed.

    Raises:
        MissingExtraError: They are not; the message names the extra.
    """
    if runtime == "openvino":
        require_extra("openvino", "The setting `runtime: openvino`", "set `runtime: onnxruntime`")


def open_model(path: Path, runtime: Runtime) -> RunModel:
    """Load a model into a runtime.

    Args:
        path: The ONNX file.
        runtime: Library that runs the model. In float32 both give the same numbers up to rounding.

    Returns:
        A function that runs the model.

    Raises:
        MissingExtraError: The runtime is not installed.
    """
    require_runtime(runtime)
    if runtime == "openvino":
        return _open_openvino(path)
    session = open_session(path)

    def run(inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        output: NDArray[Any] = session.run(None, inputs)[0]
        return output

    return run


def open_session(path: Path) -> InferenceSession:
    """Load a model into onnxruntime.

    Args:
        path: The ONNX file.

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
    providers = choose_providers(onnxruntime.get_available_providers())
    return onnxruntime.InferenceSession(path, options, providers=providers)


def choose_providers(available: Collection[str]) -> list[str | tuple[str, dict[str, str]]]:
    """Choose where onnxruntime runs a model: on an NVIDIA GPU if its build for these is installed, else on the CPU.

    Products are computed in full float32 on the GPU, too, so that the vectors differ by rounding only.

    Args:
        available: Names of the providers that onnxruntime reports.

    Returns:
        Providers in order of preference, with their options.
    """
    cuda: list[str | tuple[str, dict[str, str]]] = [(_CUDA, {"use_tf32": "0"})] if _CUDA in available else []
    return [*cuda, _CPU]


def _open_openvino(path: Path) -> RunModel:
    import openvino

    precise = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": _available_cores()}
    model = openvino.Core().compile_model(path, "CPU", precise)

    def run(inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        # Each call makes a new request, since one request cannot serve two threads.
        output: NDArray[Any] = model.create_infer_request().infer(inputs)[0]
        return output

    return run


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
