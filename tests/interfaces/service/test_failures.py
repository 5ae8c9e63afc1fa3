"""What clients are told of errors shows no place on the machine of the service."""

from pathlib import Path

from backstory.interfaces.service.failures import hide_paths

GARDEN = Path("/srv/service/tenants/garden")


def test_the_place_of_a_folder_is_cut_out_of_a_text() -> None:
    assert hide_paths(f"{GARDEN}/posts/one.md is absent", GARDEN) == "posts/one.md is absent"
    for text in (f"{GARDEN}: not writable", f"nothing is written to {GARDEN}."):
        assert str(GARDEN) not in hide_paths(text, GARDEN)


def test_a_folder_whose_name_begins_alike_is_another_one() -> None:
    for other in (f"{GARDEN}-notes/one.md", f"{GARDEN}.old"):
        assert hide_paths(other, GARDEN) == other
