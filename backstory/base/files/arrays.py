"""Arrays in NumPy's format of files, whose headers are read without Python's own parser.

NumPy gives a header to :func:`ast.literal_eval`. CPython 3.11 counts the depth of that parser in one place for all
threads. So where threads read headers at once, one ends now and then with ``SystemError: AST constructor recursion
depth mismatch`` (https://github.com/python/cpython/issues/106905). The header of an array of numbers follows one
pattern.
"""

from __future__ import annotations

import io
import math
import mmap
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

_START: Final = b"\x93NUMPY\x01\x00"
_HEADER: Final = re.compile(
    rb"\{'descr': '([<|](?:b1|[iu][1248]|f[248]|U\d+))', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \} *\n"
)
_SUFFIX: Final = ".npy"


def view_array(content: bytes | mmap.mmap, start: int = 0) -> tuple[NDArray[Any], int]:
    """View an array where it lies, as :func:`numpy.save` writes it, and return the byte after it, too.

    A ``ValueError`` means that no such array begins there, or that it is cut off.
    """
    place = start + len(_START)
    numbers = place + 2 + int.from_bytes(content[place : place + 2], "little")
    header = _HEADER.fullmatch(content[place + 2 : numbers])
    if content[start:place] != _START or header is None:
        raise ValueError(f"no array of numbers in version 1.0 of NumPy's format begins at byte {start}")
    kind, is_by_column, axes = (group.decode() for group in header.groups())
    shape = tuple(int(axis) for axis in axes.split(",") if axis.strip())
    dtype = np.dtype(kind)
    stop = numbers + math.prod(shape) * dtype.itemsize
    if stop > len(content):
        raise ValueError(f"the array at byte {start} ends at byte {stop} of {len(content)}")
    order: Literal["F", "C"] = "F" if is_by_column == "True" else "C"
    return np.ndarray(shape, dtype, buffer=content, offset=numbers, order=order), stop


def map_array(path: Path) -> NDArray[Any]:
    """Map the array of a file, so that its numbers are read where they are used; see :func:`view_array`."""
    with path.open("rb") as file:
        array, _ = view_array(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return array


def read_arrays(content: bytes) -> Mapping[str, NDArray[Any]]:
    """Read the arrays of an archive that :func:`numpy.savez` wrote, by their names; see :func:`view_array`."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name.removesuffix(_SUFFIX): view_array(archive.read(name))[0] for name in archive.namelist()}
