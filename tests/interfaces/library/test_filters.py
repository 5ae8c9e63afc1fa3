"""Kinds and tags of filters that no document has: one error for every caller."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.search import SearchFilters
from tests.errors import raises
from tests.workspaces import copy_made

CALLS: dict[str, Callable[[Library, SearchFilters], Any]] = {
    "search": lambda library, filters: library.search("night train", filters=filters),
    "several": lambda library, filters: library.search_many(["night train", "moths"], filters=filters),
    "context": lambda library, filters: library.context("night train", filters=filters),
    "answer": lambda library, filters: library.answer("When does the night train leave?", filters=filters),
    "list": lambda library, filters: library.answer("list all documents", filters=filters),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("filters", "name", "value", "nearest"),
    [
        (SearchFilters(tags=["sourdough", "Sourdoug"]), "tag", "Sourdoug", "sourdough"),
        (SearchFilters(tags=["MOTHS"]), "tag", "MOTHS", "moths"),
        (SearchFilters(kinds=["letter"]), "kind", "letter", "post"),
    ],
    ids=["misspelled", "upper-case", "kind"],
)
def test_an_unknown_kind_or_tag_is_an_error_with_the_nearest(
    indexed_once: Library,
    call: Callable[[Library, SearchFilters], Any],
    filters: SearchFilters,
    name: str,
    value: str,
    nearest: str,
) -> None:
    with pytest.raises(InputError) as raised:
        call(indexed_once, filters)
    assert raised.value.code == "unknown_value"
    assert all(named in str(raised.value) for named in (name, value, nearest))


def test_the_nearest_names_are_of_the_tenant_alone(library: Library) -> None:
    tenants = ({"tenant": "one", "tags": ["apricot"]}, {"tenant": "two", "tags": ["apple"]})
    library.add(["Apricots ripen.", "Apples ripen."], ["first", "second"], list(tenants))
    with raises(InputError, "unknown_value", "tag", *["apricot"]):
        library.search("ripe", filters=SearchFilters(tags=["apple"], tenant="one"))
    assert not library.search("ripe", filters=SearchFilters(tags=["apple"], tenant="three")).hits
    assert library.search("ripe", filters=SearchFilters(tags=["apple"], tenant="two")).hits


def test_metadata_that_no_document_has_is_an_error_with_the_nearest(library: Library) -> None:
    filters = SearchFilters(metadata={"autor": "Ana"}, documents=["moths"])
    with raises(InputError, "unknown_value", "metadata", "autor", *[]):
        library.search("ripe", filters=filters)
    library.add(["Apricots ripen."], ["first"], [{"author": "Ana", "tenant": "one"}])
    for call in CALLS.values():
        with raises(InputError, "unknown_value", "metadata", "autor", *["author", "id", "tenant"]):
            call(library, filters)
    # The name is known, though not to the documents that may be found, and not to another tenant.
    assert not library.search("ripe", filters=SearchFilters.take(filters, metadata={"author": "Ana"})).hits
    library.add(["Apples ripen."], ["second"], [{"tenant": "two", "colour": "red"}])
    with raises(InputError, "unknown_value", "metadata", "author", *["colour", "id", "tenant"]):
        library.search("ripe", filters=SearchFilters(metadata={"author": "Ana"}, tenant="two"))


def test_kinds_and_tags_of_the_settings_that_no_document_has_are_told(
    indexed_once: Library, tmp_path: Path
) -> None:
    root = copy_made(indexed_once.workspace.root, tmp_path / "workspace").root
    with (root / "backstory.yaml").open("a", encoding="utf-8") as settings:
        settings.write("rag: {kinds: [post, letter], tags: [moths, Mots]}\n")
    with Library.open(root) as library:
        for notes in (
            library.search("moths").notes,
            library.context("moths").notes,
            library.answer("What eats wool?").notes,
            library.answer("list all documents").notes,
        ):
            told = [note for note in notes if "the setting rag." in note]
            assert [("rag.kinds names 'letter'" in told[0], "rag.tags names 'Mots'" in told[1])] == [
                (True, True)
            ]
            assert "moths" in told[1]
    assert not any("rag." in note for note in indexed_once.search("moths").notes)
