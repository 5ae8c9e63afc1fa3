"""The places of tenants: a database and a store for each, which no other tenant has."""

from __future__ import annotations

from backstory.base.errors import InputError, SettingsError, StateError
from tests.errors import raises
from tests.interfaces.service.several_machines import (
    Machines,
    converse,
    index,
    make_tenant,
    search,
    write_document,
    write_settings,
)


def test_a_wrong_address_blocks_no_removal(machines: Machines) -> None:
    one = machines.open("one")
    wrong = "postgresql://backstory@127.0.0.1:1/none"
    make_tenant(one, f"{{database: '{wrong}'}}")
    one.accounts.add_user("anna")
    with raises(StateError, "unreachable_database"), one.tenants.entering("garden"):
        pass
    assert one.tenants.places.list_databases() == []
    assert one.remove_user("anna") == 0
    with raises(StateError, "unfinished_removal", "garden"):
        one.tenants.remove("garden")
    with raises(InputError, "unknown_place", "garden"):
        one.tenants.remove("garden", without=["elsewhere"])
    assert one.tenants.remove("garden", without=[wrong]).left == (f"{wrong}, which was not looked at",)
    make_tenant(one, None)
    with one.tenants.entering("garden"):
        pass


def test_a_place_that_refuses_the_first_write_is_not_one_of_the_tenant(machines: Machines) -> None:
    one = machines.open("one")
    folder = make_tenant(one, machines.make_storage())
    machines.bucket.fault = lambda method, _path: "refused" if method == "PUT" else None
    with raises(StateError, "refused_by_store"), one.tenants.entering("garden"):
        pass
    machines.bucket.fault = lambda _method, _path: None
    write_settings(folder, None)
    [database] = machines.addresses
    one.tenants.places.require_places("garden", folder, [database])
    store = f"{machines.bucket.root}/{machines.folder.name}/garden"
    with raises(InputError, "unknown_place", "garden"):
        one.tenants.places.require_places("garden", folder, [store])


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
            one.tenants.open_state("kitchen")
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
    with raises(SettingsError, "unknown_setting"), again.tenants.entering("garden"):
        pass
    converse(again)
    assert not list(folder.rglob("state.sqlite"))
    assert again.tenants.remove("garden").is_complete
    assert machines.find_text() == []


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
