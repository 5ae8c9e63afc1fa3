"""Arrays of numbers as :func:`numpy.save` writes them, read by the type that the reader knows, and mapped where large.

Python's parser, by which NumPy reads the header of a file, can fail in CPython 3.11 where several threads use it.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

_START: Final = b"\x93NUMPY\x01\x00"
_PLACE: Final = len(_START) + 2


def view_array(content: bytes | mmap.mmap, dtype: DTypeLike) -> NDArray[Any]:
    """View the numbers of an array where they lie, one after another; ``ValueError`` if there is no such array."""
    if content[: len(_START)] != _START:
        raise ValueError("no array in version 1.0 of NumPy's format begins there")
    header = int.from_bytes(content[len(_START) : _PLACE], "little")
    return np.frombuffer(content, dtype, offset=_PLACE + header)


def map_array(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map the numbers of a file, so that they are read where they are used; see :func:`view_array`."""
    with path.open("rb") as file:
        return view_array(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)
