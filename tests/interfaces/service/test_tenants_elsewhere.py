"""Tenants in a database and a store, on one machine and on two, each of which is a folder of its own here."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import httpx2
import obstore
import pytest
from obstore.store import S3Store

from backstory.base.database import waiting_at_most
from backstory.base.environment import cache_folder
from backstory.base.errors import (
    AccountError,
    BackstoryError,
    InputError,
    NoIndexError,
    SettingsError,
    StoreError,
    WorkspaceError,
)
from backstory.base.files.atomic import lock
from backstory.base.mounts import mount
from backstory.base.postgres_server import find_server
from backstory.interfaces.library.job_store import JobProgress
from backstory.interfaces.library.library import Library
from backstory.interfaces.service import tenants
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.job_process import JobProcesses
from backstory.interfaces.service.opening import ServiceFolder, open_service_folder
from backstory.interfaces.service.service import Service
from backstory.pipeline import sharing
from backstory.settings.template import init_workspace
from tests.bucket import Bucket
from tests.errors import raises
from tests.interfaces.service.running import running
from tests.pipeline.workspace_states import describe
from tests.postgres import PostgresServer
from tests.started_python import StartedPython

MARK = "zyxquill"
"""A word of the documents of a tenant."""
WHO = "user-1"


@dataclass
class Machines:
    """Machines that share a database of accounts, or one that does not.

    Attributes:
        server: The server of all databases.
        bucket: The store of all files.
        folder: Where their folders are.
        accounts: Address of the database of accounts.
    """

    server: PostgresServer
    bucket: Bucket
    folder: Path
    accounts: str
    addresses: list[str] = field(default_factory=list)
    _held: ExitStack = field(default_factory=ExitStack)

    def open(self, name: str, *, is_shared: bool = True) -> ServiceFolder:
        """Open the service of a machine."""
        root = self.folder / name / "service"
        root.mkdir(parents=True, exist_ok=True)
        if is_shared:
            (root / "service.yaml").write_text(
                f"storage: {{database: '{self.accounts}'}}\n", encoding="utf-8"
            )
        opened = open_service_folder(root, root.with_name("service.key"), makes=True)
        self._held.callback(mount, root / "service.db", None)
        self._held.callback(opened.tenants.close)
        return opened

    def make_storage(self, prefix: str = "garden") -> str:
        """Make an empty schema, and return settings of it and of a prefix."""
        self.addresses.append(self.server.make_address())
        return (
            f"{{database: '{self.addresses[-1]}', files: '{self.bucket.root}/{self.folder.name}/{prefix}'}}"
        )

    def find_text(self, text: str = MARK) -> list[str]:
        """Find the tables and objects that hold a text."""
        schemas = [
            name for address in (*self.addresses, self.accounts) for name in self.list_schemas(address)
        ]
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

    def list_schemas(self, address: str) -> list[str]:
        name = address.rpartition("%3D")[2]
        with self.server.connect() as connection:
            query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE %s"
            return [found for (found,) in connection.execute(query, (f"{name}\\_%",)).fetchall()]

    def close(self) -> None:
        self._held.close()
        for address in (*self.addresses, self.accounts):
            find_server(address).close_idle()


@pytest.fixture
def machines(
    tmp_path: Path, postgres_server: PostgresServer, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    machines = Machines(postgres_server, bucket, tmp_path, postgres_server.make_address())
    yield machines
    machines.close()
    mount(cache_folder(), None)


def write_settings(folder: Path, storage: str | None) -> None:
    said = "embedding: {provider: hashing}\n" + (f"storage: {storage}\n" if storage else "")
    (folder / "backstory.yaml").write_text(said, encoding="utf-8")


def make_tenant(opened: ServiceFolder, storage: str | None, name: str = "garden") -> Path:
    folder = opened.tenants.create(name)
    write_settings(folder, storage)
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


def test_nothing_is_left_of_a_removed_tenant_anywhere(machines: Machines) -> None:
    one = machines.open("one", is_shared=False)
    folder, kept = (
        make_tenant(one, machines.make_storage()),
        make_tenant(one, machines.make_storage("b"), "b"),
    )
    for each in (folder, kept):
        write_document(each)
    index(one)
    converse(one)
    one.tenants.places.settle("b", kept)
    assert search(one) == {"uploads/frost.md"}
    of_garden, of_b = machines.addresses
    left = set(machines.list_schemas(of_b))
    # What is in the database of a tenant is not in its folder.
    assert not list(folder.rglob("conversations.db"))
    assert machines.find_text()
    proof = one.tenants.remove("garden")
    assert proof.is_complete, proof
    assert (proof.left, proof.removed_state > 0, proof.removed_objects > 5) == ((), True, True)
    assert machines.list_schemas(of_garden) == []
    assert set(machines.list_schemas(of_b)) == left
    assert machines.find_text() == []
    assert [name for name in machines.list_objects() if "/garden/" in name] == []
    assert (one.tenants.names(), one.tenants.list_interrupted()) == (("b",), ())
    # A later tenant may have the same places.
    make_tenant(one, f"{{database: '{of_garden}'}}")
    with one.tenants.entering("garden") as library:
        assert library.workspace.settings.storage.database == of_garden


def test_a_removed_user_leaves_no_conversation_on_any_machine(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    make_tenant(one, machines.make_storage())
    one.accounts.add_user("anna")
    begin(one, "anna")
    assert machines.find_text()
    assert two.remove_user("anna") == 1
    assert machines.find_text() == []
    assert not (two.tenants.root / "tenants").exists()


def begin(opened: ServiceFolder, user: str) -> None:
    """Begin a conversation of a user."""
    store = Service(opened.accounts, opened.tenants, IndexJobs(opened.tenants, threads=0)).conversations(
        "garden"
    )
    store.begin(opened.accounts.find_user(user), f"What does the {MARK} say?", 1.0)


def test_a_wrong_address_blocks_no_removal(machines: Machines) -> None:
    one = machines.open("one")
    wrong = "postgresql://backstory@127.0.0.1:1/none"
    make_tenant(one, f"{{database: '{wrong}'}}")
    one.accounts.add_user("anna")
    with raises(WorkspaceError, "unreachable_database"), one.tenants.entering("garden"):
        pass
    assert one.tenants.places.list_databases() == []
    assert one.remove_user("anna") == 0
    with raises(AccountError, "unfinished_removal", name="garden"):
        one.tenants.remove("garden")
    with raises(InputError, "unknown_place", name="garden", address="elsewhere"):
        one.tenants.remove("garden", without=["elsewhere"])
    assert one.tenants.remove("garden", without=[wrong]).left == (f"{wrong}, which was not looked at",)
    make_tenant(one, None)
    with one.tenants.entering("garden"):
        pass


def test_a_place_that_refuses_the_first_write_is_not_one_of_the_tenant(machines: Machines) -> None:
    one = machines.open("one")
    folder = make_tenant(one, machines.make_storage())
    machines.bucket.fault = lambda method, _path: "refused" if method == "PUT" else None
    with raises(StoreError, "refused_by_store"), one.tenants.entering("garden"):
        pass
    machines.bucket.fault = lambda _method, _path: None
    write_settings(folder, None)
    [database] = machines.addresses
    one.tenants.places.require_places("garden", folder, [database])
    store = f"{machines.bucket.root}/{machines.folder.name}/garden"
    with raises(InputError, "unknown_place", name="garden", address=store):
        one.tenants.places.require_places("garden", folder, [store])


def test_a_database_that_is_gone_for_good_keeps_no_user_and_no_tenant(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machines.open("one")
    make_tenant(one, machines.make_storage())
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "reader")
    token = one.accounts.make_token("anna")
    with one.tenants.entering("garden"):
        begin(one, "anna")
    [address] = machines.addresses
    find_server(address).close_idle()
    with machines.server.connect() as connection:
        connection.execute(f'DROP SCHEMA "{address.rpartition("%3D")[2]}" CASCADE')
    with raises(AccountError, "unfinished_removal", name="anna", places=(address,)):
        one.remove_user("anna")
    assert one.accounts.authenticate(token) is None
    assert [dict(user.roles) for user in one.accounts.list_users()] == [{}]
    assert one.remove_user("anna", without=[address]) == 0
    assert one.accounts.list_users() == []
    with raises(AccountError, "unfinished_removal", name="garden", address=address):
        one.tenants.remove("garden")
    with monkeypatch.context() as killed:
        killed.setattr(tenants, "remove_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.tenants.remove("garden", without=[address])
    assert one.tenants.remove("garden", without=[address]).left == (f"{address}, which was not looked at",)
    assert one.tenants.list_interrupted() == ()


def test_conversations_in_a_folder_of_another_machine_are_told_and_left_out(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    folder = make_tenant(one, None)
    for user in ("anna", "ben"):
        one.accounts.add_user(user)
        with one.tenants.entering("garden"):
            begin(one, user)
    place = f"{socket.gethostname()}:{folder}"
    with raises(AccountError, "unfinished_removal", name="anna", places=(place,)):
        two.remove_user("anna")
    assert one.remove_user("anna") == 1
    one.accounts.add_user("cleo")
    with one.tenants.entering("garden"):
        begin(one, "cleo")
    make_tenant(two, None, "kitchen")
    elsewhere = f"{socket.gethostname()}:{two.tenants.folder('kitchen')}"
    with raises(AccountError, "unfinished_removal", name="cleo", places=(elsewhere,)):
        one.remove_user("cleo")
    assert two.remove_user("cleo") == 0
    assert two.tenants.remove("kitchen").is_complete
    # The first machine is gone for good, with everything in its folder.
    assert two.remove_user("ben", without=[place]) == 0
    assert two.accounts.list_users() == []
    assert two.tenants.remove("garden", without=[place]).left == (f"{place}, which was not looked at",)
    assert two.tenants.list_interrupted() == ()


def test_files_of_another_machine_are_listed_before_anybody_asks(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    storage = machines.make_storage()
    for each in (one, two):
        make_tenant(each, storage)
    write_document(one.tenants.folder("garden"))
    one.tenants.share_files("garden")
    with two.tenants.entering("garden") as library:
        assert [(file.uri, file.state) for file in library.files()] == [("uploads/frost.md", "pending")]


def test_what_waits_for_a_copy_that_is_held_does_not_wait_for_ever(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = machines.open("one")
    write_document(make_tenant(one, machines.make_storage()))
    monkeypatch.setattr(sharing, "_READER_PATIENCE", timedelta(seconds=0.2))
    with one.tenants.entering("garden") as library, sharing.open_replica(library.workspace).held():
        one.tenants.share_files("garden")
    assert [record.levelname for record in caplog.records if record.name == sharing.__name__] == ["WARNING"]
    assert not [name for name in machines.list_objects() if name.endswith("manifest.json")]
    one.tenants.share_files("garden")
    assert [name for name in machines.list_objects() if name.endswith("manifest.json")]


@pytest.mark.parametrize("fault", ["database", "store"])
def test_a_removal_that_stops_amid_its_places_shows_and_goes_on(machines: Machines, fault: str) -> None:
    one = machines.open("one", is_shared=False)
    folder = make_tenant(one, machines.make_storage())
    write_document(folder)
    with one.tenants.entering("garden") as library:
        library.index()
    if fault == "store":
        machines.bucket.fault = lambda method, _path: "refused" if method in ("DELETE", "POST") else None
    else:
        machines.server.stop()
    try:
        with waiting_at_most(0), raises(AccountError, "unfinished_removal", name="garden"):
            one.tenants.remove("garden")
    finally:
        machines.bucket.fault = lambda _method, _path: None
        if fault == "database":
            machines.server.start()
    assert (one.tenants.names(), one.tenants.list_interrupted()) == ((), ("garden",))
    assert machines.find_text()
    assert one.tenants.remove("garden").is_complete
    assert machines.find_text() == []
    assert one.tenants.list_interrupted() == ()


def test_two_tenants_never_have_the_same_place(machines: Machines) -> None:
    one = machines.open("one", is_shared=False)
    make_tenant(one, machines.make_storage("shared"))
    index(one)
    [database] = machines.addresses
    spelled = database.replace("backstory@/", "backstory@localhost/")
    for storage in (
        f"{{database: '{spelled}'}}",
        f"{{files: '{machines.bucket.root}/{machines.folder.name}/shared/'}}",
        f"{{files: '{machines.bucket.root}/{machines.folder.name}/shared/objects/deep'}}",
        f"{{files: '{machines.bucket.root}/{machines.folder.name}'}}",
    ):
        other = machines.folder / "one" / "service" / "tenants" / "kitchen"
        if other.exists():
            write_settings(other, storage)
        else:
            make_tenant(one, storage, "kitchen")
        with raises(SettingsError, "shared_place"), one.tenants.entering("kitchen"):
            pass
        with raises(SettingsError, "shared_place"):
            one.tenants.state_folder("kitchen")
    # Neither is that of another service; and its removal takes nothing of the first.
    two = machines.open("two", is_shared=False)
    make_tenant(two, f"{{database: '{database}'}}")
    with raises(SettingsError, "shared_place"), two.tenants.entering("garden"):
        pass
    before = machines.list_schemas(database)
    assert two.tenants.remove("garden").is_complete
    assert one.tenants.remove("kitchen").is_complete
    assert machines.list_schemas(database) == before
    assert search(one) == set()


@pytest.mark.long
def test_a_removal_deletes_the_vectors_on_a_server(machines: Machines) -> None:
    # What few tests need is not loaded for all of them.
    from pymilvus import MilvusClient

    from tests.milvus import serve_milvus

    one = machines.open("one", is_shared=False)
    folder = make_tenant(one, None)
    write_document(folder)
    with serve_milvus(machines.folder / "milvus") as uri:
        with (folder / "backstory.yaml").open("a", encoding="utf-8") as settings:
            settings.write(f"index: {{engine: milvus, uri: '{uri}'}}\n")
        index(one)
        assert search(one) == {"uploads/frost.md"}
        with closing(MilvusClient(uri)) as client:
            assert client.list_collections()
    with raises(AccountError, "unfinished_removal", name="garden"):
        one.tenants.remove("garden")
    with serve_milvus(machines.folder / "milvus") as uri:
        served = folder.with_name(".removed-garden") / "index"
        for path in served.iterdir():  # it has another port now
            if path.is_file() and b"http://127.0.0.1" in path.read_bytes():
                written = re.sub(r"http://127\.0\.0\.1:\d+", uri, path.read_text("utf-8"))
                path.write_text(written, encoding="utf-8")
        assert one.tenants.remove("garden").is_complete
        with closing(MilvusClient(uri)) as client:
            assert client.list_collections() == []


def test_no_tenant_has_the_schema_of_accounts(machines: Machines) -> None:
    one = machines.open("one")
    one.accounts.add_user("anna")
    make_tenant(one, f"{{database: '{machines.accounts}'}}")
    with raises(SettingsError, "shared_place"), one.tenants.entering("garden"):
        pass
    assert one.tenants.remove("garden").is_complete
    assert one.accounts.find_user("anna")
    make_tenant(one, machines.make_storage())
    with one.tenants.entering("garden"):
        pass
    accounts, machines.accounts = machines.accounts, machines.addresses[0]
    with raises(SettingsError, "shared_place"):
        machines.open("two")
    machines.accounts = accounts


def test_settings_that_become_invalid_hide_no_place_from_a_removal(machines: Machines) -> None:
    one = machines.open("one", is_shared=False)
    folder = make_tenant(one, machines.make_storage())
    write_document(folder)
    index(one)
    converse(one)
    (folder / "backstory.yaml").write_text("storage: {databases: 1}\n", encoding="utf-8")
    again = machines.open("one", is_shared=False)
    mount(folder, None)  # as in another process
    with raises(SettingsError, "unknown_setting"), again.tenants.entering("garden"):
        pass
    converse(again)
    assert not list(folder.rglob("conversations.db"))
    assert again.tenants.remove("garden").is_complete
    assert machines.find_text() == []


def test_a_tenant_goes_on_on_another_machine(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    storage = machines.make_storage()
    for each in (one, two):
        make_tenant(each, storage)
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "editor")
    tokens = {"anna": one.accounts.make_token("anna")}
    # The first machine takes requests, and the second one works on their jobs.
    here = Service(one.accounts, one.tenants, IndexJobs(one.tenants, threads=0))
    there = Service(two.accounts, two.tenants, IndexJobs(two.tenants))
    with (
        running(here, tokens) as first,
        running(there, tokens) as second,
        first.client("anna") as asking_one,
        second.client("anna") as asking_two,
    ):
        for name in ("frost", "bread"):
            text = f"# The {name} of {MARK}\n\nThe {MARK} says that {name} comes in the night.\n"
            files = {"files": (f"{name}.md", text.encode())}
            requested = (
                asking_one.post("/api/documents", files=files).raise_for_status().json()["job"]["job_id"]
            )
            there.jobs.adopt()
            there.jobs.wait("garden")
            job = asking_one.get(f"/api/jobs/{requested}").raise_for_status().json()
            assert job["state"] == "COMPLETED"
        listed = asking_two.get("/api/documents").raise_for_status().json()["documents"]
        assert [(file["uri"], file["state"]) for file in listed] == [
            ("uploads/bread.md", "read"),
            ("uploads/frost.md", "read"),
        ]
        question = {"question": f"What does the {MARK} say?"}
        asked = asking_two.post("/api/chat/message", json=question).raise_for_status().json()
        going_on = {"question": "And of bread?", "conversation_id": asked["conversation_id"]}
        one.tenants.close()  # it looks at the store again
        again = asking_one.post("/api/chat/message", json=going_on).raise_for_status().json()
        assert (asked["turn"], again["turn"]) == (1, 2)
        caller = one.accounts.authenticate(tokens["anna"])
        assert caller is not None
        two.accounts.revoke_token(caller.token_id)
        assert [client.get("/api/jobs").status_code for client in (asking_one, asking_two)] == [401, 401]


def test_a_job_that_two_machines_request_runs_on_one(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines.open("one"), machines.open("two")
    storage = machines.make_storage()
    for each in (one, two):
        make_tenant(each, storage)
    write_document(one.tenants.folder("garden"))
    begun, may_go = threading.Event(), threading.Event()
    passes: list[str] = []
    act = Library.index

    def wait(self: Library, *arguments: Any, **named: Any) -> Any:
        passes.append(self.workspace.root.parents[2].name)
        begun.set()
        assert may_go.wait(600)
        return act(self, *arguments, **named)

    monkeypatch.setattr(Library, "index", wait)
    here, there = IndexJobs(one.tenants), IndexJobs(two.tenants)
    for jobs in (here, there):
        jobs.start()
    job = here.submit("garden", WHO)
    assert begun.wait(600)
    assert there.submit("garden", WHO).job_id == job.job_id
    there.adopt()
    there.wait("garden")
    assert passes == ["one"]
    may_go.set()
    here.wait("garden")
    # The second request came while it was under way.
    assert passes == ["one", "one"]
    ended = there.store("garden").read(job.job_id)
    assert (ended.state, ended.attempts) == ("COMPLETED", 1)
    for jobs in (here, there):
        jobs.close()


def test_a_job_of_a_machine_that_died_is_taken_over(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    storage = machines.make_storage()
    for each in (one, two):
        make_tenant(each, storage)
    write_document(one.tenants.folder("garden"))
    dead = IndexJobs(one.tenants, threads=0)
    job = dead.submit("garden", WHO)
    turn = dead.store("garden").take()
    assert turn is not None
    jobs = IndexJobs(two.tenants)
    jobs.start()
    jobs.adopt()
    jobs.wait("garden")
    jobs.close()
    # What the first one records, if it wakes up late, changes nothing.
    assert not dead.store("garden").advance(turn, JobProgress(1, "late", 0, 1, None))
    dead.store("garden").fail(turn, "internal", "late")
    ended = dead.store("garden").read(job.job_id)
    assert (ended.state, ended.attempts, ended.counts["documents"]) == ("COMPLETED", 2, 1)


def test_the_process_of_a_job_is_in_its_tenant_after_the_service_was_killed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    one = machines.open("one")
    folder = make_tenant(one, machines.make_storage())
    store = IndexJobs(one.tenants, threads=0).store("garden")
    store.request(WHO)
    turn = store.take()
    assert turn is not None
    [tenant_id] = re.findall('"tenant_id": "([^"]+)"', (folder / ".backstory" / "tenant.json").read_text())
    leases, begun, may_go = one.tenants.places.leases, threading.Event(), threading.Event()
    assert leases is not None

    def wait(_method: str, _path: str) -> None:
        begun.set()
        assert may_go.wait(600)

    machines.bucket.fault = wait
    held, other = (os.open(folder, os.O_RDONLY) for _ in range(2))
    lock(held, shared=True)
    processes = JobProcesses(one.accounts.database.path)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(processes.run, folder, None, None, held, turn)
        assert begun.wait(600)
        os.close(held)  # as the end of the service does, which has no lease here
        assert not lock(other, wait=False)
        assert [holding.is_live for holding in leases.find(f"tenant {tenant_id}")] == [True]
        processes.end()
        may_go.set()
        running.result()
    assert lock(other, wait=False)
    assert leases.find(f"tenant {tenant_id}") == []
    os.close(other)


def test_a_removal_waits_for_the_other_machine_and_then_for_its_folder(machines: Machines) -> None:
    one, two, three = machines.open("one"), machines.open("two"), machines.open("three")
    storage = machines.make_storage()
    for each in (one, two, three):
        make_tenant(each, storage)
    write_document(one.tenants.folder("garden"))
    index(one)
    two.tenants.follow_removals()  # it is a service
    folder = two.tenants.folder("garden")
    with ThreadPoolExecutor(1) as pool:
        with two.tenants.entering("garden") as library:
            assert len(library.search("night").hits) == 1
            removing = pool.submit(one.tenants.remove, "garden")
            while one.tenants.places.list_removed() == {}:
                assert not removing.done()
            for other in (two, three):
                with raises(InputError, "unknown_tenant"), other.tenants.entering("garden"):
                    pass
            two.tenants.follow_removals()
            assert not removing.done()
            with raises(AccountError, "unfinished_removal"):
                one.tenants.create("garden")
        two.tenants.follow_removals()
        proof = removing.result()
    # The third machine is off, so that its folder stays until it runs again.
    assert not folder.exists()
    assert [f"{machines.folder}/three/" in each for each in proof.left] == [True]
    assert not proof.is_complete
    assert machines.find_text() == []
    assert [each.tenants.list_interrupted() for each in (one, two, three)] == [("garden",)] * 3
    three.tenants.follow_removals()
    assert not list(machines.folder.rglob("*garden*"))
    assert one.tenants.list_interrupted() == ()
    make_tenant(one, storage)
    with pytest.raises(NoIndexError):
        search(one)


def test_no_later_tenant_has_the_roles_of_one_whose_removal_was_killed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines.open("one"), machines.open("two")
    make_tenant(two, None)
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "owner")
    with monkeypatch.context() as killed:
        killed.setattr(tenants, "remove_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.tenants.remove("garden")
    two.tenants.follow_removals()
    assert two.tenants.names() == ()
    for machine in (one, two):
        with raises(AccountError, "unfinished_removal", name="garden"):
            machine.tenants.create("garden")
    assert one.tenants.remove("garden").is_complete
    two.tenants.create("garden")
    assert [dict(user.roles) for user in two.accounts.list_users()] == [{}]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_folder_that_cannot_be_cleared_holds_up_no_other_tenant(
    machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = machines.open("one"), machines.open("two")
    for name in ("bad", "garden"):
        for each in (one, two):
            make_tenant(each, machines.make_storage(name) if each is one else None, name)
        one.tenants.remove(name)
    obstacle = two.tenants.root / "tenants" / ".removed-bad"
    obstacle.write_text("no folder", encoding="utf-8")
    two.tenants.follow_removals()
    assert [record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"] == [True]
    assert two.tenants.names() == ("bad",)
    assert one.tenants.list_interrupted() == ("bad",)
    obstacle.unlink()
    two.tenants.follow_removals()
    assert (two.tenants.names(), one.tenants.list_interrupted()) == ((), ())


def test_a_folder_of_a_former_tenant_is_not_that_of_a_later_one(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    folder = make_tenant(one, None)
    with one.tenants.entering("garden"):
        pass
    # As one that was restored from a backup after the removal.
    kept = folder.rename(machines.folder / "kept")
    assert one.tenants.remove("garden").left == (
        f"{socket.gethostname()}:{folder}, a folder that its service clears when it runs",
    )
    kept.rename(folder)
    for use in (one.tenants.state_folder, lambda name: one.tenants.entering(name).__enter__()):
        with pytest.raises(BackstoryError) as raised:
            use("garden")
        assert raised.value.code in ("unfinished_removal", "unknown_tenant")
    one.tenants.follow_removals()
    assert not folder.exists()
    # On a machine that was a service of its own.
    (machines.folder / "two" / "service" / "service.yaml").unlink()
    alone = machines.open("two", is_shared=False)
    make_tenant(alone, None)
    make_tenant(one, None)
    two = machines.open("two")
    with raises(AccountError, "foreign_folder"):
        two.tenants.state_folder("garden")


def test_a_tenant_of_several_machines_needs_a_database_and_a_store(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    make_tenant(one, None)
    with one.tenants.entering("garden"):
        pass
    folder = make_tenant(two, None)
    with raises(SettingsError, "tenant_elsewhere"), two.tenants.entering("garden"):
        pass
    write_settings(folder, machines.make_storage())
    with two.tenants.entering("garden"):
        pass


@contextmanager
def serving(opened: ServiceFolder) -> Iterator[tuple[StartedPython, str]]:
    """Serve the folder of a machine in a process of its own, and yield it with its address."""
    root = opened.tenants.root
    words = ["--root", str(root), "--key-file", str(root.with_name("service.key")), "--port", "0"]
    command = ["-c", "from backstory.interfaces.cli.app import main; main()", "serve", *words]
    process = StartedPython(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        yield process, process.stderr.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


def list_children(process: int) -> list[int]:
    """List the processes that a process has started."""
    found = (path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children"))
    return [int(number) for each in found for number in each]


@pytest.mark.long
@pytest.mark.parametrize("holding", ["objects", "manifest.json"])
def test_a_machine_that_is_killed_amid_a_job_is_followed_by_another(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holding: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    one, two = machines.open("one"), machines.open("two")
    storage = machines.make_storage()
    alone = init_workspace(tmp_path / "alone")
    write_settings(alone, None)
    for folder in (*(make_tenant(each, storage) for each in (one, two)), alone):
        if folder != two.tenants.folder("garden"):
            for number in range(20):
                write_document(folder, f"frost-{number}")
    with Library.open(alone) as library:
        assert library.index().success
    expected = describe(alone)
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "editor")
    headers = {"Authorization": f"Bearer {one.accounts.make_token('anna')}"}
    published = threading.Event()
    with serving(one) as (process, address):
        killed = threading.Event()

        def kill(method: str, path: str) -> Literal["cut"] | None:
            # The request publishes the files, and its job the tables.
            if method == "PUT" and holding in path and published.is_set() and not killed.is_set():
                killed.set()
                for number in (process.pid, *list_children(process.pid)):
                    os.kill(number, signal.SIGKILL)
                return "cut"
            if method == "PUT" and path.endswith("manifest.json"):
                published.set()
            return None

        machines.bucket.fault = kill
        with httpx2.Client(headers=headers, timeout=600) as client:
            job = client.post(f"{address}/api/index").raise_for_status().json()["job_id"]
        assert process.wait(600) == -signal.SIGKILL
    jobs = IndexJobs(two.tenants)
    jobs.start()
    store = jobs.store("garden")
    while store.current() is not None:
        jobs.adopt()
        jobs.wait("garden")
    jobs.close()
    ended = store.read(job)
    assert (ended.state, ended.attempts, ended.counts["documents"]) == ("COMPLETED", 2, 20)
    assert describe(two.tenants.folder("garden")) == expected
    assert len(search(one)) == len(search(two)) > 0
