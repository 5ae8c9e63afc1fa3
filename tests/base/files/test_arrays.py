"""Arrays in NumPy's format of files."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from backstory.base.files.arrays import map_array, view_array


@given(array=arrays.arrays(np.float32, arrays.array_shapes(min_side=0, max_side=4)))
def test_an_array_is_read_as_numpy_writes_it(array: NDArray[Any]) -> None:
    content = io.BytesIO()
    np.save(content, array)
    assert view_array(content.getvalue(), np.float32).tobytes() == array.tobytes()


def test_a_file_is_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32)
    np.save(tmp_path / "some.npy", array)
    mapped = map_array(tmp_path / "some.npy", np.float32)
    assert mapped.tolist() == array.tolist()
    assert not mapped.flags.writeable


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY\x01\x00v\x00{", b"\x93NUMPY\x02\x00", b"not an array at all"]
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"array|offset"):
        view_array(content, np.float32)
