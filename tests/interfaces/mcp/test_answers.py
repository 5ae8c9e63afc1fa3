"""The tool ``answer_question``."""

from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import make_server
from tests.interfaces.mcp.calling import call


def test_an_answer_has_quotes_with_their_places(indexed_once: Library) -> None:
    told = call(
        make_server(indexed_once), "answer_question", query="which night train needs a seat reservation?"
    )
    [place] = told["claims"][0]["citations"]
    assert place["quote"] in indexed_once.text(place["uri"]).text
    assert place["cite"] in told["answer"]
    assert (told["refused"], told["cut"]) == (None, None)


def test_a_refusal_and_a_follow_up_are_told(indexed_once: Library) -> None:
    server = make_server(indexed_once)
    refused = call(server, "answer_question", query="who painted the harbour mural of Zanzibar?")
    assert (refused["refused"], refused["claims"]) == ("not_in_documents", [])
    previous = "which night train needs a seat reservation?"
    assert call(server, "answer_question", query="and to Paris?", previous_question=previous)["rewritten"]
