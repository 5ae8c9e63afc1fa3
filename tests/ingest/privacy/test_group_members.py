"""Names of members in the lines that the app writes."""

import time

import pytest

from backstory.ingest.privacy.pseudonyms import find_members


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
        ("Ann hat den Betreff geändert.", ["Ann"]),
        ("Ann ist über einen Link beigetreten", ["Ann"]),
        ("Ann criou o grupo", ["Ann"]),
        ("Ann cambió el asunto", ["Ann"]),
        ("Ann a créé le groupe", ["Ann"]),
        ("Ann ha creato il gruppo", ["Ann"]),
        ("Ann changed the description to:\nBen left", ["Ann"]),
        ("Ann hat den Bus verpasst", []),
        ("Messages and calls are end-to-end encrypted.", []),
        ("This group was added to the community", []),
        ("You left", []),
    ],
)
def test_line_names_its_members(line: str, members: list[str]) -> None:
    assert find_members([line]) == members


@pytest.mark.parametrize(
    "words", ["Ann hat ", "Ann ist ", "Ann changed ", "Ann added ", "Ann hat den ", "a, ", "  "]
)
def test_a_long_line_costs_no_more_than_its_length(words: str) -> None:
    line = words * (65_536 // len(words)) + "x"
    started = time.process_time()

    find_members([line])

    assert time.process_time() - started < 1.5  # it takes 0.01 s; patterns that try every start took 6 s
