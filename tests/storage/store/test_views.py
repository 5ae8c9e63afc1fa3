"""A team reads the tables from the store without a worker, and sees one publication."""

from pathlib import Path

import pytest

from backstory.base.errors import StoreError
from backstory.operations.backup.moving import copy_workspace
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.duckdb_frames import fetch_frame
from backstory.storage.tables.parquet import read_table
from backstory.storage.tables.views import connect, read_document_catalog, read_writer_inputs
from tests.bucket import Bucket


@pytest.mark.parametrize("kind", ["s3", "file"])
def test_the_views_of_a_store_are_those_of_the_folder(
    kind: str, made_workspace: Workspace, tmp_path: Path, bucket: Bucket
) -> None:
    address = f"{bucket.root}/{tmp_path.name}" if kind == "s3" else f"file://{tmp_path}/store"
    copy_workspace(made_workspace, address)
    here, there = connect(made_workspace.tables), connect(address)
    assert set(there.list_tables()) == set(here.list_tables())
    inputs = read_writer_inputs(made_workspace.tables)
    assert inputs.height
    assert read_writer_inputs(address).equals(inputs)
    catalog = fetch_frame(there.con, "FROM document_catalog")
    assert catalog["uri"].to_list() == read_document_catalog(made_workspace.tables)["uri"].to_list()
    windows = read_table(made_workspace.tables, "windows")
    assert fetch_frame(there.con, "SELECT window_id FROM windows")["window_id"].to_list() == list(
        windows["window_id"]
    )
    assert fetch_frame(there.con, "FROM quarantine").is_empty()


def test_a_prefix_without_a_publication_is_told(tmp_path: Path, bucket: Bucket) -> None:
    for address in (f"{bucket.root}/{tmp_path.name}", f"file://{tmp_path}/store"):
        with pytest.raises(StoreError) as error:
            connect(address)
        assert error.value.code == "no_publication"


def test_the_keys_of_the_views_are_those_of_the_environment(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError) as error:
        connect(bucket.root)
    assert error.value.code == "no_keys_in_environment"
