"""A reranker in the settings acts on the whole path, says what it could not do, and loses no finished work."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from backstory import run_pipeline
from backstory.base.errors import ModelSetupError
from backstory.interfaces.cli.windows import print_context
from backstory.operations.inspection.windows import read_window_context
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.models.rerankers.tiny_cross_encoder import write_cross_encoder
from tests.models.services import gemini_server
from tests.models.services.gemini_server import GeminiServer, answer_text
from tests.workspaces import run_workspace

BASE = (
    "embedding: {provider: hashing}\nqueries: {min_tokens: 12}\n"
    "windows: {unit: messages, size: 6, overlap: 2}\nrag: {top_k: 2}\n"
)

Make = Callable[..., Workspace]


def with_rerank(settings: str) -> str:
    return f"{BASE}rerank: {{{settings}}}\n"


def gemini(server: GeminiServer, more: str = "") -> str:
    service = f"services: {{gemini: {{base_url: '{server.url}', requests_per_minute: 1000}}}}\n"
    return with_rerank(f"provider: gemini{more}") + service


def order_of(workspace: Workspace) -> list[tuple[str, int, str]]:
    contexts = workspace.tables.read("contexts")
    return contexts.select("window_id", "rank", "slug").sort("window_id", "rank").rows()


@pytest.fixture
def plain(make_workspace: Make) -> Workspace:
    workspace = make_workspace(BASE, "plain")
    run_pipeline(workspace)
    return workspace


def adopt_secret(workspace: Workspace, other: Workspace) -> None:
    """Give a workspace the other's pseudonyms, so that its windows have the same ids."""
    workspace.secret.parent.mkdir()
    workspace.secret.write_bytes(other.secret.read_bytes())
    workspace.secret.chmod(0o600)


def test_gemini_selects_and_tells_what_nothing_serves(
    make_workspace: Make, plain: Workspace, server: GeminiServer, api_key: str
) -> None:
    workspace = make_workspace(gemini(server), "reranked")
    adopt_secret(workspace, plain)

    reports = {report.table: report for report in run_pipeline(workspace)}

    windows = workspace.tables.read("windows")
    # A window with one candidate is not asked about.
    asked = len(server.requests)
    assert 0 < asked <= len(windows)
    assert order_of(workspace) != order_of(plain)
    assert reports["decisions"].counts["reranked_windows"] == asked
    assert reports["decisions"].counts["rerank_kept_order"] == 0
    summary = workspace.tables.read("window_contexts")
    assert set(summary["status"]) == {"ok"}
    uncovered = summary["uncovered_topics"].drop_nulls().explode()
    assert reports["decisions"].counts["rerank_uncovered_topics"] == len(uncovered) == asked
    assert all(re.fullmatch(r"the frost \(messages? [\d ,a-z]+\)", told) for told in uncovered)
    assert plain.tables.read("window_contexts")["uncovered_topics"].null_count() == len(windows)
    console = Console(record=True, width=200)
    print_context(console, read_window_context(workspace, windows["window_id"][0]))
    assert "Topics that no document serves: the frost (message" in console.export_text()
    assert summary["settings_hash"][0] != plain.tables.read("window_contexts")["settings_hash"][0]
    assert api_key not in str(reports)


def test_a_second_run_asks_nothing(make_workspace: Make, server: GeminiServer, api_key: str) -> None:
    assert api_key
    workspace = make_workspace(gemini(server))
    run_pipeline(workspace)
    asked = len(server.requests)

    reports = run_pipeline(open_workspace(workspace.root))

    assert [report.table for report in reports if report.computed] == []
    assert len(server.requests) == asked


def test_the_same_window_and_candidates_are_never_asked_about_twice(
    make_workspace: Make, server: GeminiServer, api_key: str
) -> None:
    assert api_key
    workspace = make_workspace(gemini(server))
    run_pipeline(workspace)
    asked, before = len(server.requests), order_of(workspace)
    shutil.rmtree(workspace.tables_dir / "decisions")

    reports = {report.table: report for report in run_pipeline(open_workspace(workspace.root))}

    assert reports["decisions"].counts["rerank_recalled"] == asked > 0
    assert len(server.requests) == asked
    assert order_of(workspace) == before


def test_a_withheld_answer_keeps_the_order_and_is_stated_everywhere(
    make_workspace: Make,
    plain: Workspace,
    server: GeminiServer,
    api_key: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert api_key
    workspace = make_workspace(gemini(server, ", threads: 1"), "reranked")
    adopt_secret(workspace, plain)
    server.script.append(gemini_server.block("SAFETY"))
    server.script.append(lambda _: answer_text('{"topics": [', "MAX_TOKENS"))

    with caplog.at_level(logging.WARNING):
        reports = {report.table: report for report in run_pipeline(workspace)}

    degraded = workspace.tables.read("window_contexts").filter(status="degraded")
    assert sorted(degraded["error"]) == [
        "the reranker's answer was blocked (SAFETY); the order of the selection was kept",
        "the reranker's answer was cut (MAX_TOKENS); the order of the selection was kept",
    ]
    before = {row for row in order_of(plain) if row[0] in set(degraded["window_id"])}
    assert before <= set(order_of(workspace))
    assert reports["decisions"].counts["rerank_kept_order"] == 2
    assert reports["window_contexts"].counts["status_degraded"] == 2
    assert caplog.text.count("reranker left the order unchanged") == 2

    console = Console(record=True, width=200)
    print_context(console, read_window_context(workspace, degraded["window_id"][0]))
    shown = console.export_text()
    assert "degraded: the reranker's answer was" in shown
    assert "Related Previous Posts" in shown


def test_a_stop_keeps_the_partitions_that_were_finished(
    make_workspace: Make, server: GeminiServer, api_key: str
) -> None:
    assert api_key
    workspace = make_workspace(gemini(server, ", threads: 1"))
    # The window of the last day has two candidates, too.
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("15/03/2025, 18:06 - Ada Lind: The backup disk is clicking again, where are the photos?\n")
    server.script.extend([gemini_server.succeed, gemini_server.succeed])
    first_day, refused = 2, 2  # windows of 2025-03-13; the other day is asked for with it, and alone
    refusal = gemini_server.exceed("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
    server.script.extend([refusal] * refused)

    days = find_partitions(workspace)
    assert run_workspace(workspace, days).stopped
    assert workspace.tables.keys("decisions") == ["2025-03-13"]
    assert len(server.requests) == first_day + refused

    run_pipeline(open_workspace(workspace.root))
    assert len(server.requests) == first_day + refused + 1
    assert set(workspace.tables.read("window_contexts")["status"]) == {"ok"}


def test_a_refused_key_stops_the_run(make_workspace: Make, server: GeminiServer, api_key: str) -> None:
    workspace = make_workspace(gemini(server, ", threads: 1"))
    server.script.append(gemini_server.fail(403, f"no such key: {api_key}"))

    with pytest.raises(ModelSetupError) as caught:
        run_pipeline(workspace)

    assert api_key not in str(caught.value)
    assert workspace.tables.keys("decisions") == []


def test_a_cross_encoder_in_the_workspace_orders_by_its_scores(
    make_workspace: Make, plain: Workspace
) -> None:
    workspace = make_workspace(with_rerank("provider: cross_encoder, model_dir: models/tiny"), "encoded")
    adopt_secret(workspace, plain)
    write_cross_encoder(workspace.root / "models" / "tiny", {"of": -1.0, "title": 0.0, "[UNK]": 0.01})

    run_pipeline(workspace)

    assert order_of(workspace) != order_of(plain)
    assert set(workspace.tables.read("window_contexts")["status"]) == {"ok"}


@pytest.fixture
def asked_with(make_workspace: Make, server: GeminiServer, api_key: str) -> Callable[[str], list[str]]:
    """Run the workspace with some settings, and give what the model was sent and asked."""
    assert api_key

    def run(more: str) -> list[str]:
        server.requests.clear()
        run_pipeline(
            make_workspace(gemini(server, f", threads: 1{more}"), f"workspace {more.partition(':')[0][2:]}")
        )
        return [f"{request.path} {request.prompt}" for request in server.requests]

    return run


@pytest.mark.long
def test_changing_a_setting_changes_what_is_asked(asked_with: Callable[[str], list[str]]) -> None:
    before = asked_with("")
    for change in ("candidates: 2", "model: gemini-2.5-pro"):
        assert asked_with(f", {change}") != before, change


def test_the_limit_of_a_cross_encoder_changes_the_order(make_workspace: Make) -> None:
    decisions: list[pl.Series] = []
    for max_tokens in (8, 512):
        settings = with_rerank(f"provider: cross_encoder, model_dir: ../tiny, max_tokens: {max_tokens}")
        workspace = make_workspace(settings, f"limit{max_tokens}")
        folder: Path = workspace.root.parent / "tiny"
        if not folder.exists():
            write_cross_encoder(folder, {"of": -1.0, "[UNK]": 0.01})
        run_pipeline(workspace)
        decisions.append(workspace.tables.read("decisions").sort("window_id", "chunk_id")["rank"])
    assert not decisions[0].equals(decisions[1])
