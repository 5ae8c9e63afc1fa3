"""Machines of a service, each of which is a folder of its own here, over a database and a store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.opening import ServiceFolder, open_service_folder
from backstory.interfaces.service.service import Service
from backstory.storage.state import close_idle
from tests.bucket import Bucket
from tests.postgres import PostgresServer

MARK = "zyxquill"
"""A word of the documents of a tenant."""
WHO = "user-1"


@dataclass
class Machines:
    """Machines that share a database and a store, or one that does not.

    Attributes:
        server: The server of all databases.
        bucket: The store of all files.
        folder: Where their folders are.
        database: Address of the database that they share.
    """

    server: PostgresServer
    bucket: Bucket
    folder: Path
    database: str
    _held: ExitStack = field(default_factory=ExitStack)

    def open(self, name: str, *, is_shared: bool = True) -> ServiceFolder:
        """Open the service of a machine."""
        root = self.folder / name / "service"
        root.mkdir(parents=True, exist_ok=True)
        if is_shared:
            (root / "service.yaml").write_text(
                f"storage: {{database: '{self.database}', files: '{self.bucket.root}/{self.folder.name}'}}\n",
                encoding="utf-8",
            )
        opened = open_service_folder(root, root.with_name("service.key"), makes=True)
        self._held.callback(opened.tenants.close)
        return opened

    def find_text(self, text: str = MARK) -> list[str]:
        """Find the tables and objects that hold a text."""
        schemas = [*self.list_schemas(), f"{self._namespace}_service"]
        with self.server.connect() as connection:
            columns = connection.execute(
                "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns "
                "WHERE data_type IN ('text', 'bytea') AND table_schema = ANY (%s)",
                (schemas,),
            ).fetchall()
            found = [
                f"{schema}.{table}"
                for schema, table, column, kind in columns
                if connection.execute(
                    f'SELECT 1 FROM "{schema}"."{table}" WHERE position(%s::{kind} IN "{column}") > 0',
                    (text if kind == "text" else text.encode(),),
                ).fetchall()
            ]
        store, names = self._open_store(), self.list_objects()
        return found + [
            name for name in names if text.encode() in obstore.get(store, name).bytes().to_bytes()
        ]

    def list_objects(self) -> list[str]:
        """List the objects of all prefixes of these machines."""
        return [one["path"] for page in obstore.list(self._open_store(), self.folder.name) for one in page]

    def _open_store(self) -> S3Store:
        return S3Store("shared", client_options={"allow_http": True})

    def list_schemas(self) -> list[str]:
        """List the schemas of the tenants that these machines have or had."""
        with self.server.connect() as connection:
            known = connection.execute(
                f'SELECT tenant_id FROM "{self._namespace}_service".tenants'
            ).fetchall()
            found = connection.execute("SELECT nspname FROM pg_namespace").fetchall()
        return [name for (name,) in found for (tenant_id,) in known if tenant_id in name]

    @property
    def _namespace(self) -> str:
        return self.database.rpartition("%3D")[2]

    def close(self) -> None:
        self._held.close()
        close_idle()


@pytest.fixture
def machines(
    tmp_path: Path, postgres_server: PostgresServer, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    machines = Machines(postgres_server, bucket, tmp_path, postgres_server.make_address())
    yield machines
    machines.close()


def share_inputs(*folders: Path) -> None:
    """Let the folders of a tenant on several machines have one folder of documents."""
    documents = [folder / "posts" for folder in folders]
    for other in documents[1:]:
        shutil.rmtree(other)
        other.symlink_to(documents[0])


def make_tenant(opened: ServiceFolder, name: str = "garden") -> Path:
    """Make a folder of a tenant, whose embedder needs no model."""
    folder = opened.tenants.create(name)
    with (folder / "backstory.yaml").open("a", encoding="utf-8") as settings:
        settings.write("\nembedding: {provider: hashing}\n")
    return folder


def write_document(folder: Path, name: str = "frost") -> None:
    path = folder / "posts" / "uploads" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# The {name} of {MARK}\n\nThe {MARK} says that {name} comes in the night.\n", "utf-8")


def index(opened: ServiceFolder, name: str = "garden") -> None:
    with opened.tenants.entering(name) as library:
        assert library.index().success


def search(opened: ServiceFolder, name: str = "garden") -> set[str]:
    with opened.tenants.entering(name) as library:
        return {hit.uri for hit in library.search("what comes in the night").hits}


def converse(opened: ServiceFolder, conversation: str | None = None) -> str:
    """Keep a turn of a conversation, and return the id of the conversation."""
    store = Service(opened.accounts, opened.tenants, IndexJobs(opened.tenants, threads=0)).conversations(
        "garden"
    )
    if conversation is None:
        conversation = store.begin(WHO, f"What does the {MARK} say?", 1.0)
    assert store.add_turn(conversation, WHO, "And then?", {"markdown": MARK}, {}, 2.0) is not None
    turns = store.read_turns(conversation, WHO)
    assert turns
    return conversation
