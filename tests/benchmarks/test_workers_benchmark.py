"""The benchmark of workers makes the same tables in each form, and says what each takes."""

from pathlib import Path

import pytest

from benchmarks.synthetic_workspace import Size
from benchmarks.workers import measure
from tests.postgres import PostgresServer


@pytest.mark.long
def test_each_form_makes_the_same_tables(postgres_server: PostgresServer, tmp_path: Path) -> None:
    forms = measure(Size(4, 10, 3), postgres_server.socket_address, f"file://{tmp_path}/store", tmp_path)
    assert [form.name for form in forms] == ["one machine", "one worker", "two workers"]
    assert all(form.cpu_seconds > 0 for form in forms)
