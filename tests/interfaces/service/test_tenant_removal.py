"""The removal of tenants and users that have something in a database, in a store, or on another machine."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from backstory.base.errors import InputError, NoIndexError, StateError
from backstory.interfaces.service import tenants
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.opening import ServiceFolder
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.tenant_places import RECORD
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
    one = machines.open("one")
    folder, kept = make_tenant(one), make_tenant(one, "b")
    for each in (folder, kept):
        write_document(each)
    index(one)
    converse(one)
    assert search(one) == {"uploads/frost.md"}
    # What is in the database of a tenant is not in its folder.
    assert not list(folder.rglob("state.sqlite"))
    assert machines.find_text()
    proof = one.tenants.remove("garden")
    assert proof.is_complete, proof
    assert (proof.left, proof.removed_state > 0, proof.removed_objects > 5) == ((), True, True)
    assert machines.find_text() == []
    tenant_id = (kept / RECORD).read_text()
    assert {tenant_id in name for name in (*machines.list_schemas(), *machines.list_objects())} <= {True}
    with one.accounts.state.reading() as session:
        assert session.execute("SELECT 1 FROM tenants WHERE tenant = 'garden'").fetchall() == []
    assert (one.tenants.names(), one.tenants.list_interrupted()) == (("b",), ())
    index(one, "b")
    assert search(one, "b") == {"uploads/frost.md"}


def test_a_removed_user_leaves_no_conversation_on_any_machine(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    make_tenant(one)
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
    [user_id] = [one.user_id for one in opened.accounts.list_users() if one.name == user]
    store.begin(user_id, f"What does the {MARK} say?", 1.0)


def test_a_removal_that_stops_amid_its_places_shows_and_goes_on(machines: Machines) -> None:
    one = machines.open("one")
    write_document(make_tenant(one))
    index(one)
    machines.bucket.fault = lambda method, _path: "refused" if method in ("DELETE", "POST") else None
    with raises(StateError, "unfinished_removal", "garden"):
        one.tenants.remove("garden")
    machines.bucket.fault = lambda _method, _path: None
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
    folder = make_tenant(one)
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


def test_a_removal_waits_for_the_other_machine_which_then_clears_its_folder(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    for each in (one, two):
        make_tenant(each)
    write_document(one.tenants.folder("garden"))
    index(one)
    with ThreadPoolExecutor(1) as pool:
        with two.tenants.entering("garden") as library:
            assert len(library.search("night").hits) == 1
            removing = pool.submit(one.tenants.remove, "garden")
            while not one.tenants.places.list_removed():
                assert not removing.done()
            with raises(InputError, "unknown_tenant"), two.tenants.entering("garden"):
                pass
            two.tenants.follow_removals()
            assert not removing.done()
            with raises(StateError, "unfinished_removal"):
                one.tenants.create("garden")
        assert removing.result().is_complete
    assert machines.find_text() == []
    # A later tenant of the same name does not keep the folder of the former one.
    make_tenant(one)
    two.tenants.follow_removals()
    assert not list((machines.folder / "two").rglob("*garden*"))
    with pytest.raises(NoIndexError):
        search(one)


def test_no_later_tenant_has_the_roles_of_one_whose_removal_was_killed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines.open("one"), machines.open("two")
    for each in (one, two):
        make_tenant(each)
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
    assert two.tenants.remove("garden").is_complete  # any machine goes on with it
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
            make_tenant(each, name)
        one.tenants.remove(name)
    obstacle = two.tenants.root / "tenants" / ".removed-bad"
    obstacle.write_text("no folder", encoding="utf-8")
    two.tenants.follow_removals()
    assert {record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"} == {True}
    assert two.tenants.names() == ("bad",)
    obstacle.unlink()
    two.tenants.follow_removals()
    assert (two.tenants.names(), two.tenants.list_interrupted()) == ((), ())


def test_a_folder_that_a_command_clears_meanwhile_is_no_failure(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = machines.open("one")
    folder = make_tenant(one)
    one.tenants.remove("garden")
    assert not one.tenants.places.is_of_removed(folder)
    monkeypatch.setattr(one.tenants, "names", lambda: ("garden",))
    monkeypatch.setattr(one.tenants.places, "is_of_removed", lambda _: True)
    one.tenants.follow_removals()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_folder_of_a_former_tenant_is_not_that_of_a_later_one(machines: Machines) -> None:
    one = machines.open("one")
    folder = make_tenant(one)
    # As one that was restored from a backup after the removal.
    kept = folder.rename(machines.folder / "kept")
    assert one.tenants.remove("garden").is_complete
    kept.rename(folder)
    with raises(InputError, "unknown_tenant"), one.tenants.entering("garden"):
        pass
    with raises(StateError, "unusable_schema"), one.tenants.open_state("garden").begin():
        pass
    one.tenants.follow_removals()
    assert not folder.exists()
