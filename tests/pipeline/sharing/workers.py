"""Workers that share a workspace by a store, and what tests compare of them."""

import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from backstory.base.errors import BackstoryError
from backstory.pipeline.sharing import Follower, open_replica, open_store, sharing
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.exchange import publish_changes
from backstory.storage.store.objects import ObjectStore
from backstory.storage.tables.parquet import hash_partitions
from backstory.storage.tables.schemas import TABLES
from tests.workspaces import SETTINGS

LATER = "16/03/2025, 08:00 - Ada Lind: The night train to Lisbon was late\n"
SECRET = ".backstory/secret.key"
MakeWorker = Callable[..., Workspace]


def publish_copy(made: Path, root: Path, address: str) -> Workspace:
    shutil.copytree(made, root)
    (root / "backstory.yaml").write_text(f"{SETTINGS}storage: {{files: '{address}'}}\n", encoding="utf-8")
    workspace = open_workspace(root)
    with sharing(workspace):
        pass
    return workspace


def store_of(workspace: Workspace) -> ObjectStore:
    store = open_store(workspace, patience=timedelta(minutes=1))
    assert store is not None
    return store


def hash_tables(workspace: Workspace) -> dict[str, Mapping[str, str]]:
    return {table: hash_partitions(workspace.tables, table) for table in TABLES}


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(BackstoryError) as error:
        call()
    return error.value.code


def follow_now(workspace: Workspace) -> None:
    Follower(workspace).follow()


def publish_without_pulling(workspace: Workspace) -> None:
    """Publish as a worker does while which another one published."""
    publish_changes(open_replica(workspace), store_of(workspace))
