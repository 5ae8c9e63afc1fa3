"""``Library.answer`` and ``backstory ask`` with a model behind a loopback server: from the question to the place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from backstory.base.errors import ModelError
from backstory.base.progress import listening
from backstory.interfaces.cli.app import app
from backstory.interfaces.library.library import Library
from backstory.pipeline.workspace import open_workspace
from backstory.writing.answers.answer import Turn
from backstory.writing.answers.answer_prompts import hash_prompts
from tests.errors import raises
from tests.models.services.chat_server import (
    ChatBehaviour,
    ChatReply,
    ChatRequest,
    ChatServer,
    complete,
    refuse,
)

QUESTION = "What does the night train to Lisbon need?"
QUOTE = "A seat reservation on the night train to Lisbon."
CLAIM = "The night train to Lisbon needs a seat reservation."
INVENTED = "The ticket office in Lisbon opens at 9."


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = answer
    return chat


@pytest.fixture
def asking(library: Library, chat: ChatServer) -> Iterator[Library]:
    """An indexed library whose answers are the server's."""
    settings = library.workspace.root / "backstory.yaml"
    served = (
        f"services: {{mine: {{kind: openai, base_url: '{chat.url}', max_attempts: 1, requests_per_minute: 1000}}}}\n"
        "answers: {provider: mine, model: tiny, router: model}\n"
        "costs: {prices: {tiny: {input: 100, output: 1000}}}\n"
    )
    settings.write_text(settings.read_text("utf-8") + served, "utf-8")
    with Library.open(library.workspace.root) as opened:
        yield opened


def answer(request: ChatRequest) -> ChatReply | None:
    """Answer like a good model with one invention, whichever prompt it is given."""
    if "<passages>" in request.user:
        found = re.search(r'<passage id="(p\d+)">\nTitle: Night train', request.user)
        one = found[1] if found else "p1"
        claims = [
            {"text": text, "citations": [{"id": one, "quote": quote}], "parts": [1]}
            for text, quote in ((CLAIM, QUOTE), (INVENTED, QUOTE))
        ]
        return complete(json.dumps({"claims": claims}))(request)
    if "<conversation>" in request.user:
        return complete(json.dumps({"question": QUESTION}))(request)
    return complete(json.dumps({"kind": "lookup", "reason": "one thing"}))(request)


def test_a_statement_of_a_model_leads_to_its_words_in_the_document(asking: Library, chat: ChatServer) -> None:
    steps: list[str] = []
    with listening(lambda step, *_: steps.append(step)):
        told = asking.answer(QUESTION)
    assert steps == ["searching", "answering", "checking citations"]
    assert (told.kind, told.reason, told.refused) == ("lookup", "the model says: one thing", None)
    assert [(claim.text, claim.supported) for claim in told.claims] == [(CLAIM, True)]
    [place] = told.claims[0].citations
    text = asking.text(place.document_id).text
    assert text[place.char_start : place.char_end] == place.quote == QUOTE.removesuffix(".")
    assert (told.tokens, told.model) == (
        300,
        "openai:" + chat.url.removeprefix("http://") + ":tiny:tNone:o8192",
    )
    assert told.cost == pytest.approx(0.084)
    assert told.prompts == hash_prompts()
    assert "1 statement of the model was removed: what it cites does not say so." in told.notes
    assert f"{CLAIM} [1]" in told.markdown
    assert len(chat.requests) == 2


def test_a_follow_up_is_completed_by_the_model(asking: Library, chat: ChatServer) -> None:
    told = asking.answer("and the night train?", history=[Turn("What does the ferry need?", "Nothing.")])
    assert told.rewritten == QUESTION
    assert told.claims[0].text == CLAIM
    assert ["<conversation>" in request.user for request in chat.requests] == [False, True, False]
    assert told.tokens == 450


@pytest.mark.parametrize(
    ("behaviour", "code"), [(complete("no JSON"), "unusable_answer"), (refuse(500, "down"), "no_answer")]
)
def test_a_model_that_gives_no_answer_leaves_the_hits(
    asking: Library, chat: ChatServer, behaviour: ChatBehaviour, code: str
) -> None:
    chat.always = behaviour
    with raises(ModelError, code) as caught:
        asking.answer(QUESTION)
    assert caught.value.hits[0].title == "Night train"
    command = CliRunner().invoke(app, ["ask", QUESTION, "-w", str(asking.workspace.root)])
    assert command.exit_code == 1
    assert "Found: Night train (night-train.md" in command.stderr


def test_the_command_prints_the_statements_and_what_was_removed(asking: Library) -> None:
    command = CliRunner().invoke(app, ["ask", QUESTION, "-w", str(asking.workspace.root)])
    assert command.exit_code == 0, command.output
    assert f"{CLAIM} [1]" in command.stdout
    assert INVENTED not in command.output
    assert "1 statement of the model was removed" in command.stderr


def test_a_conversation_goes_on_after_an_answer_that_cannot_be_read(
    asking: Library, chat: ChatServer
) -> None:
    chat.always = lambda request: (
        complete("no JSON")(request) if "bread" in request.user.casefold() else answer(request)
    )
    told = CliRunner().invoke(
        app, ["ask", "-d", "night-train.md", "-w", str(asking.workspace.root)], input=f"bread?\n{QUESTION}\n"
    )
    assert f"{CLAIM} [1]" in told.stdout
    assert "error: " in told.stderr
    assert told.exit_code == 1


def test_what_the_model_does_not_find_is_refused(asking: Library, chat: ChatServer) -> None:
    chat.always = complete('{"claims": []}')
    told = asking.answer(QUESTION)
    assert (told.refused, told.claims, told.kind) == ("not_in_documents", (), "lookup")
    assert "by rules, since the model gave no answer" in told.reason


def test_a_model_that_was_asked_about_an_empty_index_is_counted(asking: Library) -> None:
    root = asking.workspace.root
    for path in (root / "posts").iterdir():
        path.unlink()
    with Library(open_workspace(root, accept_removals=True)) as library:
        assert library.index().success
        told = library.answer("and the night train?", history=[Turn("What does the ferry need?", "Nothing.")])
    assert (told.refused, told.rewritten, told.tokens) == ("no_index", QUESTION, 300)
    assert told.cost == pytest.approx(0.084)
    assert "the index holds no chunk" in " ".join(told.notes)


def test_a_statement_that_is_not_supported_adds_no_confidence(asking: Library, chat: ChatServer) -> None:
    chat.always = answer_from_moths
    settings = asking.workspace.root / "backstory.yaml"
    marked = settings.read_text("utf-8").replace("model: tiny,", "model: tiny, unsupported: mark,")
    settings.write_text(marked, "utf-8")
    with Library.open(asking.workspace.root) as library:
        told = library.answer(QUESTION)
    assert [claim.supported for claim in told.claims] == [True, False]
    assert told.confidence == "low"


def answer_from_moths(request: ChatRequest) -> ChatReply | None:
    """Answer with a true statement of the farthest passage, and an invented one that cites the nearest."""
    if "<passages>" not in request.user:
        return answer(request)
    moths = "A quiet evening with moths and a lamp."
    found = {
        title: re.search(rf'<passage id="(p\d+)">\nTitle: {title}', request.user)
        for title in ("Moths", "Night train")
    }
    claims = [
        {"text": text, "citations": [{"id": each[1] if each else "", "quote": quote}], "parts": [1]}
        for text, each, quote in (
            (moths, found["Moths"], moths),
            (INVENTED, found["Night train"], QUOTE),
        )
    ]
    return complete(json.dumps({"claims": claims}))(request)
