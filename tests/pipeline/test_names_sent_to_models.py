"""What chat models are sent of documents and questions that name members, by each rule of ``privacy.documents``."""

import json
import shutil
from pathlib import Path

import pytest

from backstory.base.errors import InputError
from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.interfaces.library.library import Library
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.models.rerankers.rerank_requests import answer_of
from tests.models.services.chat_server import (
    ChatReply,
    ChatRequest,
    ChatServer,
    complete,
    post,
)
from tests.pipeline.test_named_documents import FORMS, FRONT
from tests.pipeline.test_people import open_with
from tests.workspaces import CHAT, SETTINGS

NAME = "Cleo Marshall"
MEMBERS = CHAT.replace("Cleo Marsh", NAME)
PARTS = {"first": "Cleo", "last": "Marshall", "FIRST": "CLEO", "LAST": "MARSHALL", "f": "C", "F": "C"}
WRITTEN = [form.format(**PARTS) for form in FORMS]
MARK = "zebrawood"
"""A word of the document that names members, and of nothing else."""
SPARE = "boxwood"
"""Another one, which nobody asks for."""
TEXT = "\n\n".join(
    f"The {MARK} elbow of the drip irrigation line {name} {SPARE}" for name in [*WRITTEN, "of Marshall"]
)
QUESTION = f"What did {NAME} say of the {MARK} elbow of the drip irrigation line?"
SERVICES = """\
services: {{mine: {{kind: openai, base_url: '{url}', max_attempts: 1, requests_per_minute: 10000}}}}
rerank: {{provider: mine, model: tiny}}
summaries: {{provider: mine, model: tiny}}
writers: {{provider: mine, model: tiny}}
privacy: {{documents: {rule}}}
"""


def answer(request: ChatRequest) -> ChatReply | None:
    """Answer like a model that rates everything well, summarizes or writes, whichever it is asked for."""
    if request.user.startswith('{"parts"'):
        prompt = json.loads(request.user)
        rated = answer_of(
            {"the chat": [part["id"] for part in prompt["parts"]]}, [[5]] * len(prompt["documents"])
        )
        return complete(json.dumps(rated))(request)
    if "<document>" in request.user:
        return complete(json.dumps({"summary": "An elbow."}))(request)
    return post()(request)


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = answer
    return chat


def make_naming(root: Path, settings: str = SETTINGS) -> Workspace:
    """Make a workspace whose document names a member in every form, by a run that asks no model."""
    workspace = open_with(root, MEMBERS, settings)
    for path in workspace.root.glob("posts/drip*.md"):
        path.unlink()
    front = FRONT.format(title=f"The drip of {NAME}")
    (workspace.root / "posts" / "drip.md").write_text(f"{front}{TEXT}\n", encoding="utf-8")
    run_pipeline(workspace)
    return workspace


@pytest.fixture(scope="module")
def unsent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_naming(tmp_path_factory.mktemp("unsent") / "workspace").root


@pytest.fixture
def at(unsent: Path, tmp_path: Path) -> Workspace:
    return open_workspace(shutil.copytree(unsent, tmp_path / "workspace"))


def choose(workspace: Workspace, chat: ChatServer, rule: str) -> Workspace:
    return open_with(workspace.root, MEMBERS, SETTINGS + SERVICES.format(url=chat.url, rule=rule))


def run(workspace: Workspace) -> dict[str, StageResult]:
    return {report.table: report for report in run_pipeline(workspace)}


def take(chat: ChatServer) -> list[str]:
    """Return the texts of the requests since the last call, and forget them."""
    texts = [message["content"] for request in chat.requests for message in request.body["messages"]]
    chat.requests.clear()
    return texts


def list_naming(texts: list[str]) -> list[str]:
    return [
        text for text in texts if find_naming_texts([text], [NAME]) or f" {PARTS['last']} {SPARE}" in text
    ]


def test_no_request_holds_a_name_in_any_form_where_names_are_replaced(
    at: Workspace, chat: ChatServer
) -> None:
    workspace = choose(at, chat, "replace")
    counts = run(workspace)["decisions"].counts
    asked = take(chat)
    assert counts["reranked_windows"]
    assert {text.startswith('{"parts"') for text in asked if MARK in text} == {True, False}
    library = Library(workspace)
    found = library.search(QUESTION, rerank=True)
    [_, question] = take(chat)
    assert found.reranked
    assert NAME in found.hits[0].text + found.hits[0].title
    assert json.loads(question)["parts"][0]["text"].startswith("What did member-")
    summary = library.summarize("drip.md")
    summarized = take(chat)
    assert MARK in summarized[1]
    assert "drip.md" in str(summary.notes)
    library.context(f"{NAME}: {QUESTION}\n\nBook the night train to Lisbon, and the seat reservation.")
    asked_for = take(chat)
    assert asked_for
    assert not list_naming([*asked, question, *summarized, *asked_for])
    assert len(WRITTEN) >= 30


def test_no_request_is_of_a_document_with_a_name_where_names_are_rejected(
    at: Workspace, chat: ChatServer
) -> None:
    workspace = choose(at, chat, "reject")
    reports = run(workspace)
    assert reports["decisions"].counts["rerank_withheld_candidates"]
    assert "drip.md" in str(reports["contexts"].counts["notice"])
    assert MARK in str(workspace.tables.read("contexts")["passage"].to_list())
    library = Library(workspace)
    found = library.search(f"The {MARK} elbow, the night train and the sourdough starter", rerank=True)
    assert "drip.md" in str(found.notes)
    assert "drip.md" in {hit.uri for hit in found.hits}
    assert found.reranked
    with raises(InputError, "withheld_document", "drip.md", "privacy.documents"):
        library.summarize("drip.md")
    context = library.context(f"The {MARK} elbow of the drip irrigation line.")
    assert MARK not in context.text
    assert "drip.md" in str(context.notes)
    asked = take(chat)
    assert asked
    assert not [text for text in asked if SPARE in text]
    assert not list_naming(asked)
    named = library.search(QUESTION, rerank=True)
    assert (named.reranked, take(chat)) == (False, [])
    assert "the question was not sent" in str(named.notes)


def test_requests_hold_names_where_they_are_kept(at: Workspace, chat: ChatServer) -> None:
    workspace = choose(at, chat, "keep")
    run(workspace)
    library = Library(workspace)
    kinds = [take(chat)]
    library.search(QUESTION, rerank=True)
    kinds.append(take(chat))
    library.summarize("drip.md")
    kinds.append(take(chat))
    assert all(list_naming(texts) for texts in kinds)
    assert NAME in library.context(f"The {MARK} elbow of the drip irrigation line.").text


def test_what_was_asked_under_one_rule_answers_under_no_other(at: Workspace, chat: ChatServer) -> None:
    asked: dict[str, list[str]] = {}
    for rule in ("keep", "replace", "reject", "replace"):
        workspace = choose(at, chat, rule)
        run(workspace)
        library = Library(workspace)
        library.search(QUESTION.replace(NAME, "somebody"), rerank=True)
        if rule != "reject":
            library.summarize("drip.md")
        asked[rule] = take(chat) if rule not in asked else [*asked[rule], *take(chat)]
    assert list_naming(asked["keep"])
    assert not list_naming([*asked["replace"], *asked["reject"]])
    summaries = [text for text in asked["replace"] if text.endswith("</document>")]
    assert len(summaries) == 1  # the second time it is that of the first


def test_a_person_who_joins_has_no_name_in_what_is_asked_again(at: Workspace, chat: ChatServer) -> None:
    settings = SETTINGS + SERVICES.format(url=chat.url, rule="replace")
    joined = f"{MEMBERS}16/03/2025, 09:00 - Zed Quist: hello\n"
    path = at.root / "posts" / "drip.md"
    path.write_text(f"{path.read_text(encoding='utf-8')}\nZed Quist paid for the {MARK} elbow.\n", "utf-8")
    for chat_text in (MEMBERS, joined):
        workspace = open_with(at.root, chat_text, settings)
        run(workspace)
        Library(workspace).summarize("drip.md")
        asked = take(chat)
        assert [text for text in asked if MARK in text and text.endswith("</document>")]
    assert not find_naming_texts(asked, ["Zed Quist"])
    fresh = open_with(at.root.parent / "fresh", joined, settings)
    for path in fresh.root.glob("posts/*.md"):
        path.unlink()
    shutil.copytree(at.root / "posts", fresh.root / "posts", dirs_exist_ok=True)
    run(fresh)
    for table in ("decisions", "contexts"):
        assert fresh.tables.read(table).equals(workspace.tables.read(table))


def test_a_document_that_no_run_has_searched_is_searched_before_it_is_sent(
    at: Workspace, chat: ChatServer
) -> None:
    workspace = choose(at, chat, "replace")
    library = Library(workspace)
    assert library.add([f"{NAME} laid the {MARK} floor, and its boards."], ["floor"]).success
    library.summarize("floor")
    [_, prompt] = take(chat)
    assert f"laid the {MARK} floor" in prompt
    assert not list_naming([prompt])
