"""The places of tenants: a schema and a prefix for each, which the service assigns and no other tenant has."""

from __future__ import annotations

import pytest

from backstory.base.errors import SettingsError, StateError
from backstory.settings.yaml_file import read_settings
from tests.errors import raises
from tests.interfaces.service.several_machines import (
    Machines,
    converse,
    index,
    make_tenant,
    search,
    write_document,
)


def test_no_two_tenants_have_the_same_place_and_machines_agree(machines: Machines) -> None:
    one, two = machines.open("one"), machines.open("two")
    folders = make_tenant(one), make_tenant(two), make_tenant(one, "kitchen")
    here, there, other = (read_settings(folder / "backstory.yaml").storage for folder in folders)
    assert here == there
    assert here.database != other.database
    assert here.files != other.files
    assert not {here.database, here.files} & {
        machines.database,
        f"{machines.bucket.root}/{machines.folder.name}",
    }
    assert one.tenants.remove("garden").is_complete
    again = read_settings(make_tenant(one) / "backstory.yaml").storage
    assert not {again.database, again.files} & {here.database, here.files}


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_tenant_that_names_another_place_is_refused_and_removed_without_it(
    machines: Machines, is_shared: bool
) -> None:
    one = machines.open("one", is_shared=is_shared)
    folder, other = make_tenant(one), machines.open("two")
    victim = make_tenant(other, "kitchen")
    write_document(victim)
    index(other, "kitchen")
    before = machines.list_objects()
    (folder / "backstory.yaml").write_bytes((victim / "backstory.yaml").read_bytes())
    with raises(SettingsError, "other_place"), one.tenants.entering("garden"):
        pass
    converse(one)  # in its own place
    assert one.tenants.remove("garden").is_complete
    assert machines.list_objects() == before
    assert search(other, "kitchen") == {"uploads/frost.md"}


def test_settings_that_become_invalid_hide_no_place_from_a_removal(machines: Machines) -> None:
    one = machines.open("one")
    folder = make_tenant(one)
    write_document(folder)
    index(one)
    (folder / "backstory.yaml").write_text("storage: {databases: 1}\n", encoding="utf-8")
    again = machines.open("one")
    with raises(SettingsError, "unknown_setting"), again.tenants.entering("garden"):
        pass
    converse(again)
    assert machines.find_text()
    assert not list(folder.rglob("state.sqlite"))
    assert again.tenants.remove("garden").is_complete
    assert machines.find_text() == []


def test_a_folder_of_a_service_on_one_machine_is_not_shared(machines: Machines) -> None:
    alone = machines.open("one", is_shared=False)
    make_tenant(alone)
    one = machines.open("one")
    with raises(StateError, "foreign_folder"), one.tenants.entering("garden"):
        pass
    with raises(StateError, "foreign_folder"):
        one.tenants.open_state("garden")
