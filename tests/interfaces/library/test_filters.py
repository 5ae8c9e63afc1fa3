"""Kinds and tags of filters that no document has."""

from collections.abc import Sequence

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.filters import SearchFilters, require_known
from backstory.writing.answers.catalog import Listed


def list_documents(tags: Sequence[str]) -> list[Listed]:
    return [Listed(tag, f"{tag}.md", tag, "post", (tag,), None) for tag in tags]


def test_known_names_and_an_empty_library_pass() -> None:
    documents = list_documents(["solar", "compost"])
    require_known(SearchFilters(kinds=["post"], tags=["compost"]), documents)
    require_known(SearchFilters(kinds=["letter"]), [])


@pytest.mark.parametrize(
    ("filters", "name", "value", "first"),
    [
        (SearchFilters(tags=["solar", "Compst"]), "tag", "Compst", "compost"),
        (SearchFilters(tags=["SOLAR"]), "tag", "SOLAR", "solar"),
        (SearchFilters(kinds=["letter"]), "kind", "letter", "post"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(
    filters: SearchFilters, name: str, value: str, first: str
) -> None:
    documents = list_documents(["solar", "compost", "bicycles", "trains", "baking"])
    with pytest.raises(InputError) as raised:
        require_known(filters, documents)
    assert raised.value.code == "unknown_value"
    assert (raised.value.values["name"], raised.value.values["value"]) == (name, value)
    nearest = raised.value.values["nearest"]
    assert isinstance(nearest, list)
    assert nearest[0] == first
