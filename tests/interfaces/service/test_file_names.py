"""Names under which files may be uploaded."""

import unicodedata

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.service.file_names import MOST_NAME_BYTES, check_file_name, fold_file_name
from tests.errors import raises

COMPOSED = "r\u00e9sum\u00e9.md"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.mark.parametrize("name", [
    "notes.md", "A report (2).pdf", "Warum? Darum!.txt", "C#.md", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.md",
    "\u5831\u544a.md", "x" * (MOST_NAME_BYTES - 3) + ".md",
])  # fmt: skip
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    assert check_file_name(name) == name


def test_a_name_is_composed_and_folds_to_that_of_its_likes() -> None:
    assert DECOMPOSED != COMPOSED
    assert check_file_name(DECOMPOSED) == COMPOSED
    assert fold_file_name(DECOMPOSED) == fold_file_name(COMPOSED.upper()) == fold_file_name(COMPOSED)
    assert fold_file_name("\ufb01le.md") == fold_file_name("FILE.md")
    assert fold_file_name("a.md") != fold_file_name("b.md")


@pytest.mark.parametrize("name", [
    "", " ", ".", "..", "../a.md", "/etc/passwd", "a/b.md", "..\\a.md", "C:\\a.md", "C:a.md", "a.md\0", "a\nb.md",
    "a\u202egnp.md", "a\u200b.md", ".hidden.md", ".backstoryignore", "a.md ", " a.md", "a.md.", "con", "NUL.md",
    "com1.txt", "Lpt\u00b9.md", "x" * 300 + ".md", "\u5831" * 81 + ".md", "a\udcff.md", "a://b.md",
])  # fmt: skip
def test_a_name_with_a_trick_is_refused(name: str) -> None:
    with raises(InputError, "bad_file_name"):
        check_file_name(name)
