"""Names of members in the lines that the app writes."""

import pytest

from backstory.privacy.group_members import find_members


@pytest.mark.parametrize(
    ("line", "members"),
    [
        ("Ann added Ben", ["Ann", "Ben"]),
        ("Ann added Ben, Zoe Hill and +49 170 1234567", ["+49 170 1234567", "Ann", "Ben", "Zoe Hill"]),
        ("Ann removed Ben", ["Ann", "Ben"]),
        ("You added Ben", ["Ben"]),
        ("Ben left", ["Ben"]),
        ("Ben joined using this group's invite link", ["Ben"]),
        ('Ann created group "Trip"', ["Ann"]),
        ("Ann hat Ben hinzugefügt.", ["Ann", "Ben"]),
        ("Ann hat die Gruppe verlassen.", ["Ann"]),
        ("Ann adicionou Ben", ["Ann", "Ben"]),
        ("Ann saiu", ["Ann"]),
        ("Ann añadió a Ben", ["Ann", "Ben"]),
        ("Ann a ajouté Ben", ["Ann", "Ben"]),
        ("Ann ha aggiunto Ben", ["Ann", "Ben"]),
        ("Messages and calls are end-to-end encrypted.", []),
        ("This group was added to the community", []),
        ("You left", []),
    ],
)
def test_line_names_its_members(line: str, members: list[str]) -> None:
    assert find_members([line]) == members
