"""What the chat model is sent of a question and its passages that name members, by each rule of the settings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.answering import ModelAnswers
from backstory.interfaces.library.library import Library, ModelLibrary
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import open_workspace
from backstory.retrieval.found import Hit
from backstory.writing.answers.answer import Route, Turn
from tests.errors import raises
from tests.models.services.chat_server import ChatReply, ChatRequest, ChatServer, complete
from tests.pipeline.test_named_documents import FRONT
from tests.pipeline.test_people import open_with
from tests.workspaces import CHAT, SETTINGS
from tests.writing.answers.passages import make_passage

NAME = "Cleo Marshall"
TEXT = f"The pump was bought by {NAME} in June. It is loud."
QUESTION = f"When did {NAME} buy the pump?"
SERVED = """\
services: {{mine: {{kind: openai, base_url: '{url}', max_attempts: 1, requests_per_minute: 10000}}}}
answers: {{provider: mine, model: tiny, router: model}}
privacy: {{documents: {rule}}}
"""


def answer(request: ChatRequest) -> ChatReply | None:
    """Answer like a model that quotes the first words of a passage, and knows the other prompts."""
    if "<passages>" in request.user:
        [said] = [line for line in request.user.splitlines() if line.startswith("The pump was")]
        quotes = (said.partition(". It")[0], "It is loud.")
        claims = [
            {"text": quote, "citations": [{"id": "p1", "quote": quote}], "parts": [1]} for quote in quotes
        ]
        return complete(json.dumps({"claims": claims}))(request)
    if "<conversation>" in request.user:
        return complete(json.dumps({"question": "When was the pump bought?"}))(request)
    return complete(json.dumps({"kind": "lookup", "reason": "one date"}))(request)


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = answer
    return chat


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a document that names a member, after a run."""
    members = CHAT.replace("Cleo Marsh", NAME)
    workspace = open_with(tmp_path_factory.mktemp("made") / "workspace", members, SETTINGS)
    (workspace.root / "posts" / "pump.md").write_text(f"{FRONT.format(title='The pump')}{TEXT}\n", "utf-8")
    run_pipeline(workspace)
    return workspace.root


def connect(made: Path, root: Path, chat: ChatServer, rule: str) -> tuple[ModelAnswers, Hit]:
    workspace = open_workspace(shutil.copytree(made, root))
    documents = workspace.tables.read("documents")
    [document_id] = documents.filter(documents["title"] == "The pump")["document_id"]
    members = CHAT.replace("Cleo Marsh", NAME)
    workspace = open_with(root, members, SETTINGS + SERVED.format(url=chat.url, rule=rule))
    models = workspace.answer_models
    assert models is not None
    return ModelAnswers(workspace, models), make_passage(TEXT, document_id=document_id)


def by_rules(question: str) -> Route:  # noqa: ARG001
    return Route("lookup", "it asks for one thing")


def list_sent(chat: ChatServer) -> str:
    return json.dumps([request.body for request in chat.requests], ensure_ascii=False)


def test_names_are_replaced_in_all_that_is_sent(made: Path, tmp_path: Path, chat: ChatServer) -> None:
    asking, passage = connect(made, tmp_path / "workspace", chat, "replace")
    assert asking.route(QUESTION, by_rules).route.reason == "the model says: one date"
    assert asking.condense(QUESTION, [Turn(QUESTION, TEXT)]).question == "When was the pump bought?"
    told = asking.answer(QUESTION, [QUESTION], [passage], kind="lookup")
    assert len(chat.requests) == 3
    assert "Marshall" not in list_sent(chat)
    assert "member-" in list_sent(chat)
    [named], [loud] = (claim.citations for claim in told.claims)
    assert named.chunk_id == loud.chunk_id == passage.chunk_id
    assert named.quote == TEXT
    assert (named.char_start, named.char_end) == (passage.char_start, passage.char_end)
    assert loud.char_start == passage.char_start + TEXT.index("It is loud")
    assert told.parts[0].text == QUESTION
    assert "names of members were replaced in 1 document" in told.notes[-1]


def test_names_are_sent_where_documents_keep_them(made: Path, tmp_path: Path, chat: ChatServer) -> None:
    asking, passage = connect(made, tmp_path / "workspace", chat, "keep")
    told = asking.answer(QUESTION, [QUESTION], [passage], kind="lookup")
    assert NAME in list_sent(chat)
    assert (told.claims[0].citations[0].quote, told.notes) == (TEXT.partition(". It")[0], ())


def test_what_names_members_is_withheld_where_it_must_not_be_sent(
    made: Path, tmp_path: Path, chat: ChatServer
) -> None:
    asking, passage = connect(made, tmp_path / "workspace", chat, "reject")
    with raises(InputError, "withheld_question", "privacy.documents"):
        asking.answer(QUESTION, [QUESTION], [passage], kind="lookup")
    routed = asking.route(QUESTION, by_rules)
    assert (routed.route.kind, routed.tokens) == ("lookup", 0)
    assert "privacy.documents is reject" in routed.route.reason
    assert asking.condense("And why?", [Turn(QUESTION, TEXT)]).question is None
    told = asking.answer("When was the pump bought?", ["When?"], [passage], kind="lookup")
    assert told.refused == "not_in_documents"
    assert "1 document with names of members was withheld" in told.notes[-1]
    assert chat.requests == []


@pytest.mark.parametrize("rule", ["replace", "keep"])
def test_a_library_that_answers_sends_what_the_settings_let_it_send(
    made: Path, tmp_path: Path, chat: ChatServer, rule: str
) -> None:
    connect(made, tmp_path / "workspace", chat, rule)
    with Library.open(tmp_path / "workspace") as library:
        library.answer("When did she buy it?", history=[Turn(QUESTION, TEXT)])
    assert len(chat.requests) == 3
    assert "The pump was bought by" in chat.requests[-1].user
    assert (NAME in list_sent(chat)) is (rule == "keep")


@pytest.mark.parametrize("rule", ["replace", "keep", "reject"])
def test_an_agent_gets_an_answer_without_a_model_by_the_rule(made: Path, tmp_path: Path, rule: str) -> None:
    root = shutil.copytree(made, tmp_path / "workspace")
    settings = f"{SETTINGS}privacy: {{documents: {rule}}}\n"
    with Library(open_with(root, CHAT.replace("Cleo Marsh", NAME), settings)) as library:
        own = library.answer("Who bought the pump?")
        shown = ModelLibrary(library).answer("Who bought the pump?")
    assert NAME in own.markdown + str(own.hits)
    assert (NAME in shown.model_dump_json()) is (rule == "keep")
    assert ("by member-" in shown.model_dump_json()) is (rule == "replace")
    assert ("pump.md" in str(shown.notes)) is (rule != "keep")
