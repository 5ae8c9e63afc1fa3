"""How every ONNX model is run: on the CPU, with all cores that the process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_LOG_ERRORS = 3


def open_session(path: Path) -> InferenceSession:
    """Open a model for inference.

    Args:
        path: The ONNX file.

    Returns:
        A session that any number of threads may use, one run at a time being fastest.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _available_cores()
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
