"""The removal of tenants and users that have something in a database, in a store, or on another machine."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from backstory.base.errors import BackstoryError, InputError, NoIndexError, StateError
from backstory.interfaces.service import tenants
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.opening import ServiceFolder
from backstory.interfaces.service.service import Service
from backstory.storage.state import close_idle
from tests.errors import raises
from tests.interfaces.service.several_machines import (
    MARK,
    Machines,
    converse,
    index,
    make_tenant,
    search,
    write_document,
)


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
    assert not list(folder.rglob("state.sqlite"))
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
    close_idle(address)
    with machines.server.connect() as connection:
        connection.execute(f'DROP SCHEMA "{address.rpartition("%3D")[2]}" CASCADE')
    with raises(StateError, "unfinished_removal", "anna"):
        one.remove_user("anna")
    assert one.accounts.authenticate(token) is None
    assert [dict(user.roles) for user in one.accounts.list_users()] == [{}]
    assert one.remove_user("anna", without=[address]) == 0
    assert one.accounts.list_users() == []
    with raises(StateError, "unfinished_removal", "garden"):
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
    with raises(StateError, "unfinished_removal", "anna"):
        two.remove_user("anna")
    assert one.remove_user("anna") == 1
    one.accounts.add_user("cleo")
    with one.tenants.entering("garden"):
        begin(one, "cleo")
    make_tenant(two, None, "kitchen")
    with raises(StateError, "unfinished_removal", "cleo"):
        one.remove_user("cleo")
    assert two.remove_user("cleo") == 0
    assert two.tenants.remove("kitchen").is_complete
    # The first machine is gone for good, with everything in its folder.
    assert two.remove_user("ben", without=[place]) == 0
    assert two.accounts.list_users() == []
    assert two.tenants.remove("garden", without=[place]).left == (f"{place}, which was not looked at",)
    assert two.tenants.list_interrupted() == ()


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
        with raises(StateError, "unfinished_removal", "garden"):
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
    with raises(StateError, "unfinished_removal", "garden"):
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
            with raises(StateError, "unfinished_removal"):
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
        with raises(StateError, "unfinished_removal", "garden"):
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
    for use in (one.tenants.open_state, lambda name: one.tenants.entering(name).__enter__()):
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
    with raises(StateError, "foreign_folder"):
        two.tenants.open_state("garden")
