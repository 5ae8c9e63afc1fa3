"""Arrays in NumPy's format of files."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from backstory.base.files.arrays import map_array, read_arrays, view_array

KINDS = st.sampled_from(["?", "i1", "u2", "i8", "f2", "f4", "f8", "U3"])
ARRAYS = KINDS.flatmap(
    lambda kind: arrays.arrays(
        np.dtype(kind), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    )
)


def save(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


@given(array=ARRAYS, is_by_column=st.booleans(), before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_an_array_is_read_as_numpy_reads_it(
    array: NDArray[Any], is_by_column: bool, before: bytes, after: bytes
) -> None:
    content = save(np.asarray(array, order="F" if is_by_column else "C"))
    expected = np.load(io.BytesIO(content))
    found, stop = view_array(before + content + after, len(before))
    assert (found.dtype, found.shape, found.flags.fnc) == (expected.dtype, expected.shape, expected.flags.fnc)
    assert found.tobytes() == expected.tobytes()
    assert stop == len(before) + len(content)


def test_a_file_is_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "some.npy", array)
    mapped = map_array(tmp_path / "some.npy")
    assert mapped.tolist() == array.tolist()
    assert not mapped.flags.writeable


def test_an_archive_is_read() -> None:
    content = io.BytesIO()
    np.savez(content, one=np.arange(3), other=np.array(["de", "en"]))
    found = read_arrays(content.getvalue())
    assert {name: array.tolist() for name, array in found.items()} == {
        "one": [0, 1, 2],
        "other": ["de", "en"],
    }


WHOLE = save(np.arange(12, dtype=np.float32))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        WHOLE[:4],
        WHOLE[:60],
        WHOLE[:-1],
        WHOLE.replace(b"\x01\x00", b"\x02\x00", 1),
        WHOLE.replace(b"<f4", b"|O8"),
        WHOLE.replace(b"<f4", b"<f3"),
        WHOLE.replace(b"(12,)", b"(1x,)"),
        b"not an array at all",
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        view_array(content)
    assert raised.type is ValueError
