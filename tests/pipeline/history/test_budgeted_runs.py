"""Whole runs against the loopback Gemini server: what they cost, and how a budget stops and resumes them."""

from collections.abc import Callable

import pytest

from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from tests.models.services.gemini_server import SENT_TOKENS, THOUGHT_TOKENS, WRITTEN_TOKENS, GeminiServer
from tests.workspaces import run_workspace

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]
SETTINGS = """\
partitions: {{start: 2025-03-01, rows_at_once: 1}}
privacy: {{pseudonyms: false}}
windows: {{unit: messages, size: 6, overlap: 2}}
services: {{gemini: {{base_url: '{url}', texts_per_minute: 100000, requests_per_minute: 100000}}}}
embedding: {{provider: gemini, dimension: 16}}
rerank: {{provider: gemini, candidates: 3, threads: 1}}
rag: {{min_similarity: -1}}
"""


@pytest.fixture
def gemini(
    make_workspace: Callable[..., Workspace], server: GeminiServer, api_key: str
) -> Callable[..., Workspace]:
    """Give a function that writes the small workspace with both Gemini models, and further settings."""
    assert api_key

    def make(more: str = "", name: str = "workspace") -> Workspace:
        return make_workspace(SETTINGS.format(url=server.url) + more, name)

    return make


def run(workspace: Workspace) -> Run:
    return run_workspace(open_workspace(workspace.root), DAYS)


def test_the_row_of_a_run_holds_its_calls_tokens_and_cost(
    gemini: Callable[..., Workspace], server: GeminiServer
) -> None:
    workspace = gemini("costs: {day: {money: 1}}\n")
    outcome = run(workspace)
    assert outcome.success, outcome.failures
    [row] = workspace.tables.read("runs").to_dicts()
    asked = [request for request in server.requests if request.path.endswith(":generateContent")]
    assert row["embedding_calls"] == len(server.requests) - len(asked)
    assert row["embedding_model"] == "gemini-embedding-001"
    assert row["embedding_texts"] == outcome.total("embedding_computed")
    assert row["embedding_tokens"] == outcome.total("embedding_tokens")
    assert row["rerank_calls"] == row["rerank_windows"] == len(asked) > 0
    assert row["rerank_tokens_in"] == len(asked) * SENT_TOKENS
    assert row["rerank_tokens_out"] == len(asked) * (WRITTEN_TOKENS + THOUGHT_TOKENS)
    embedding = row["embedding_tokens"] * 0.15e-6
    reranking = len(asked) * (SENT_TOKENS * 0.3e-6 + (WRITTEN_TOKENS + THOUGHT_TOKENS) * 2.5e-6)
    assert row["embedding_cost"] == pytest.approx(embedding)
    assert row["cost"] == pytest.approx(embedding + reranking)
    assert row["budget_left"].startswith("day: 0.99")
    priced = [report.counts.get("api_cost_USD", 0.0) for report in outcome.made.values()]
    assert sum(float(value) for value in priced) == pytest.approx(row["cost"], abs=1e-7)


def test_without_a_price_the_cost_is_not_known_and_that_is_said(gemini: Callable[..., Workspace]) -> None:
    workspace = gemini("costs: {currency: EUR}\n")
    outcome = run(workspace)
    [row] = workspace.tables.read("runs").to_dicts()
    assert (row["cost"], row["embedding_cost"], row["rerank_cost"], row["currency"]) == (
        None,
        None,
        None,
        "EUR",
    )
    notes = [str(report.counts.get("api_cost", "")) for report in outcome.made.values()]
    assert any("no price of gemini-embedding-001" in note for note in notes)


def test_a_run_stops_at_its_budget_keeps_what_is_done_and_resumes_to_equal_tables(
    gemini: Callable[..., Workspace], server: GeminiServer
) -> None:
    whole = gemini(name="whole")
    assert run(whole).success
    needed = len(server.requests)
    workspace = gemini("costs: {run: {calls: 2}}\n", name="in parts")
    outcomes = [run(workspace)]
    while outcomes[-1].stopped:
        before = len(server.requests)
        outcomes.append(run(workspace))
        assert 0 < len(server.requests) - before <= 2
    stopped = outcomes[0]
    assert not stopped.failures
    assert stopped.stopped is not None
    assert "2 calls (costs.run.calls), is used up" in stopped.stopped
    assert "Left: " in stopped.stopped
    assert "decisions, contexts, window_contexts" in stopped.stopped
    statuses = workspace.tables.read("runs")["status"].to_list()
    assert statuses == ["stopped"] * (len(outcomes) - 1) + ["succeeded"]
    assert len(server.requests) == 2 * needed
    for table in TABLES:
        assert workspace.tables.hash_files(table) == whole.tables.hash_files(table), table
