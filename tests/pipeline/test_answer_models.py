"""The models that answer questions of a workspace: by its settings, and within its budgets."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from backstory.base.errors import BudgetExhaustedError, SettingsError
from backstory.pipeline.workspace import Workspace
from tests.errors import raises
from tests.models.services.chat_server import ChatServer, complete
from tests.workspaces import SETTINGS
from tests.writing.answers.passages import make_passage

PASSAGES = [make_passage("The pump is old.")]
GOOD = {"text": "The pump is old.", "citations": [{"id": "p1", "quote": "The pump is old."}], "parts": [1]}


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = complete(json.dumps({"claims": [GOOD]}))
    return chat


def write_settings(chat: ChatServer, costs: str, more: str = "") -> str:
    served = f"services: {{mine: {{kind: openai, base_url: '{chat.url}', requests_per_minute: 1000}}}}\n"
    return f"{SETTINGS}{served}answers: {{provider: mine, model: tiny{more}}}\ncosts: {costs}\n"


def read_usage(workspace: Workspace) -> list[tuple[object, ...]]:
    with workspace.state.begin() as session:
        query = "SELECT run_id, purpose, model, calls, tokens_in, tokens_out, cost FROM usage"
        return list(session.execute(query))


def test_without_a_service_there_is_no_model(make_workspace: Callable[..., Workspace]) -> None:
    assert make_workspace().answer_models is None


def test_calls_are_priced_recorded_and_kept_within_the_budget_of_the_day(
    chat: ChatServer, make_workspace: Callable[..., Workspace]
) -> None:
    costs = "{day: {calls: 2}, prices: {tiny: {input: 100, output: 1000}}}"
    workspace = make_workspace(write_settings(chat, costs, ", router: model"))
    models = workspace.answer_models
    assert models is not None
    assert models.routes
    made = models.answerer.answer("How old?", ["How old?"], PASSAGES, kind="lookup")
    assert (made.refused, made.tokens) == (None, 150)
    assert made.cost == pytest.approx(0.042)
    assert read_usage(workspace) == [("", "answering", "tiny", 1, 120, 30, pytest.approx(0.042))]

    models.answerer.answer("How old?", ["How old?"], PASSAGES, kind="lookup")
    with raises(BudgetExhaustedError, None, "costs.day.calls"):
        models.answerer.answer("How old?", ["How old?"], PASSAGES, kind="lookup")
    assert len(chat.requests) == 2


def test_a_model_without_a_price_has_no_cost(
    chat: ChatServer, make_workspace: Callable[..., Workspace]
) -> None:
    models = make_workspace(write_settings(chat, "{}")).answer_models
    assert models is not None
    assert models.answerer.answer("How old?", ["How old?"], PASSAGES, kind="lookup").cost is None


def test_a_router_by_a_model_needs_a_model(make_workspace: Callable[..., Workspace]) -> None:
    with raises(SettingsError, "invalid_setting"):
        make_workspace(f"{SETTINGS}answers: {{router: model}}\n")
