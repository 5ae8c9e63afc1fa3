"""Views of records: fields of another record under names of their own, described once."""

import pytest
from pydantic import Field, ValidationError

from backstory.interfaces.agents.document_results import FoundChunk
from backstory.interfaces.library.answers import Hit
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import Result, view


class Place(Result):
    uri: str = Field(description="Path of the document.")
    line: int = Field(ge=1, description="Line, from 1.")
    note: str | None = Field(default=None, description="What is not sure.")


@view(Place, "line", file="uri")
class Spot(Result):
    """A place by another name."""

    message: str = Field(description="The place in words.")


@view(Place, "note")
class NotedSpot(Spot):
    """A place with its note."""


def test_a_view_takes_its_fields_with_types_and_descriptions() -> None:
    seen = Spot.of(Place(uri="a.md", line=3), message="here")
    assert seen.to_dict() == {"message": "here", "line": 3, "file": "a.md"}
    schema, place = Spot.model_json_schema(), Place.model_json_schema()
    assert (schema["title"], schema["description"]) == ("Spot", "A place by another name.")
    assert schema["properties"]["line"] == place["properties"]["line"]
    assert schema["properties"]["file"] == {**place["properties"]["uri"], "title": "File"}


def test_a_view_of_a_view_takes_what_both_name() -> None:
    place = Place(uri="a.md", line=3, note="a scan")
    assert NotedSpot.of(place, message="here").to_dict() == {
        "message": "here", "line": 3, "file": "a.md", "note": "a scan",
    }  # fmt: skip


def test_a_value_that_is_given_stands_before_the_record_and_nothing_is_made_up() -> None:
    place = Place(uri="a.md", line=3)
    assert Spot.of(place, message="here", line=4).to_dict()["line"] == 4
    for wrong in ({}, {"message": "here", "page": 1}, {"message": "here", "line": 0}):
        with pytest.raises(ValidationError):
            Spot.of(place, **wrong)
    with pytest.raises(ValidationError):
        Spot.of(None, message="here")


def test_a_chunk_of_the_document_tools_is_a_hit_of_the_library(indexed_once: Library) -> None:
    hit = indexed_once.search("night train").hits[0]
    names = {
        "page": "page_start",
        "line": "line_start",
        "content": "text",
        "relevance_score": "score",
        "source_file": "uri",
    }
    described = FoundChunk.of(hit, chunk_id="426756c5#0").to_dict()
    assert (described.pop("chunk_id"), described.pop("_debug_chunk_index")) == ("426756c5#0", None)
    for name, value in described.items():
        source = names.get(name, name)
        assert value == getattr(hit, source)
        assert FoundChunk.model_fields[name].description == Hit.model_fields[source].description
