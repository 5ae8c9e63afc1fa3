"""What the ten tools do with arguments that a model has written wrongly."""

from pathlib import Path
from typing import Any

import pytest

from backstory.interfaces.agents.document_tools import DocumentTools
from backstory.interfaces.library.library import Library


class Agent(DocumentTools):
    def __init__(self, library: Library) -> None:
        self.library = library


@pytest.fixture
def tools(indexed_once: Library) -> Any:
    return Agent(indexed_once)


@pytest.mark.parametrize(
    ("tool", "given", "options", "what"),
    [
        ("query_documents", (None,), {}, "query_documents: query: Input should be a valid string"),
        ("query_documents", (), {}, "query_documents: query: Missing required argument"),
        ("query_documents", ("train",), {"most": 3}, "query_documents: most: Unexpected keyword argument"),
        (
            "query_documents",
            ("train", "maybe"),
            {},
            "query_documents: debug: Input should be a valid boolean",
        ),
        ("summarize_document", ("later.md", "loud"), {}, "summarize_document: summary_type: Input should be"),
        ("rag_status", (1,), {}, "rag_status: 1: Unexpected positional argument"),
    ],
)
def test_wrong_arguments_are_an_error_in_the_shape_of_all_errors(
    tools: Any, tool: str, given: tuple[Any, ...], options: dict[str, Any], what: str
) -> None:
    failure = getattr(tools, tool)(*given, **options)
    assert set(failure) == {"status", "code", "message", "hint"}
    assert (failure["status"], failure["code"]) == ("error", "input")
    assert failure["message"].startswith(what)
    assert failure["hint"].startswith("its arguments are: ")


def test_a_number_may_be_written_as_a_text_and_a_path_be_a_path(tools: Any, library: Library) -> None:
    assert tools.search_indexed_chunks("train", offset="1") == tools.search_indexed_chunks("train", offset=1)
    assert Agent(library).index_document(Path("posts/later.md"))["already_indexed"]
