"""Views of records: fields of another record under names of their own, described once."""

from backstory.interfaces.agents.document_results import FoundChunk
from backstory.interfaces.library.library import Library
from backstory.retrieval.found import Hit


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
