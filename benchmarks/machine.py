"""Conditions of a measurement: the kernels of the linear algebra library, and the memory of the process."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

import numpy as np

PINNED_KERNELS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
_DROPPED = "BENCHMARK_DROPPED_ENVIRONMENT"
_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename",
)


def drop_pinned_kernels(module: str) -> list[str]:
    """Restart the process without the environment variables that pin OpenBLAS to kernels of another machine.

    Args:
        module: The module that was started with ``python -m``.

    Returns:
        The names of the dropped variables, in the restarted process; empty if none was set.
    """
    pinned = [name for name in PINNED_KERNELS if name in os.environ]
    if pinned:
        environment = {name: value for name, value in os.environ.items() if name not in pinned}
        environment[_DROPPED] = ",".join(pinned)
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environment)
    return [name for name in os.environ.get(_DROPPED, "").split(",") if name]


def blas_kernels() -> str:
    """Name the linear algebra library of numpy, and the kernels that it chose for this processor."""
    config = np.show_config(mode="dicts")
    library = config["Build Dependencies"]["blas"]["name"]
    maps = Path("/proc/self/maps")
    lines = maps.read_text(encoding="utf-8").splitlines() if maps.exists() else []
    for path in sorted({line.split()[-1] for line in lines if "openblas" in line}):
        loaded = ctypes.CDLL(path)
        for name in _CORE_NAMES:
            if hasattr(loaded, name):
                core_name = getattr(loaded, name)
                core_name.restype = ctypes.c_char_p
                return f"{library} {core_name().decode()}"
    return f"{library} (kernels not known)"


def reset_peak_memory() -> int:
    """Reset the peak memory of the process, if the system allows it.

    Returns:
        Bytes of :func:`peak_memory` after the reset.
    """
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5", encoding="ascii")
    return peak_memory()


def peak_memory() -> int:
    """Give the peak memory of the process in bytes, since the last reset if the system allows resets."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
