"""Frames are exchanged with DuckDB as they are, and PyArrow is not loaded for it, whether it is installed or not."""

import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from backstory.storage.tables.duckdb_frames import fetch_frame, register_frame

FRAME = pl.DataFrame(
    {
        "name": ["frost", None, "a\u2028b"],
        "tags": [["garden", "ice"], [], None],
        "read_at": [datetime(2025, 3, 1, tzinfo=UTC), None, datetime(2025, 3, 2, 1, 2, 3, 4, tzinfo=UTC)],
        "count": [2**62, -1, None],
        "vector": np.eye(3, 4, dtype=np.float32),
    },
    schema_overrides={"read_at": pl.Datetime("us", "UTC")},
)


def test_a_registered_frame_is_fetched_as_it_was() -> None:
    with closing(duckdb.connect(":memory:")) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        register_frame(connection, "rows_of_frame", FRAME)
        assert_frame_equal(fetch_frame(connection, "FROM rows_of_frame"), FRAME)
        with pytest.raises(duckdb.Error, match="already been consumed"):
            fetch_frame(connection, "FROM rows_of_frame")
        register_frame(connection, "nothing", FRAME.clear())
        assert fetch_frame(connection, "FROM nothing").schema == FRAME.schema


EXCHANGE = """
import sys
if sys.argv[1] == "absent":
    sys.modules["pyarrow"] = None
import duckdb, polars
from backstory.storage.tables.duckdb_frames import fetch_frame, register_frame
connection = duckdb.connect(":memory:")
register_frame(connection, "numbers", polars.DataFrame({"number": [1, None]}))
assert fetch_frame(connection, "FROM numbers").rows() == [(1,), (None,)]
assert not {"pyarrow.lib", "pandas"} & set(sys.modules)
"""


@pytest.mark.parametrize("pyarrow", ["absent", "installed"])
def test_frames_are_exchanged_without_pyarrow(pyarrow: str) -> None:
    subprocess.run([sys.executable, "-c", EXCHANGE, pyarrow], check=True)


def test_an_error_while_rows_are_fetched_is_one_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    texts = pl.DataFrame({"text": [str(number) for number in range(300_000)]})
    texts.write_parquet(path, row_group_size=50_000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 30_000] = bytes(30_000)
    path.write_bytes(content)
    with closing(duckdb.connect(":memory:")) as connection:
        for query in (f"FROM '{path}'", "FROM absent", "SELEC 1", "SELECT error('no') FROM range(3)"):
            with pytest.raises(duckdb.Error):
                fetch_frame(connection, query)
