"""A run in Dagster that a budget stops: what is made, what the history keeps, and that it resumes."""

from collections.abc import Callable

import dagster as dg

from backstory.pipeline.run.run import Run, ignore_progress
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.instance import open_instance
from pipelines.materialization import materialize
from tests.long_tests import LONG_TESTS
from tests.models.services.gemini_server import GeminiServer

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]


def run(workspace: Workspace) -> Run:
    return materialize(open_workspace(workspace.root), Run(DAYS), ignore_progress)


def test_a_stopped_run_keeps_the_days_that_it_finished_and_resumes(
    make_workspace: Callable[..., Workspace], server: GeminiServer, api_key: str
) -> None:
    assert api_key
    workspace = make_workspace(
        "partitions: {start: 2025-03-01, rows_at_once: 1}\n"
        f"services: {{gemini: {{base_url: '{server.url}', texts_per_minute: 100000}}}}\n"
        "embedding: {provider: gemini, dimension: 16}\n"
        "costs: {run: {calls: 2}}\n"
    )
    execution = run(workspace)
    assert execution.stopped is not None
    assert "2 calls (costs.run.calls), is used up" in execution.stopped
    assert "Left: 1 partition of hits" in execution.stopped
    assert not execution.failures
    assert workspace.tables.keys("window_contexts") == DAYS[:1]
    with open_instance(workspace) as instance:
        [failed] = instance.get_runs()
        assert failed.status is dg.DagsterRunStatus.FAILURE
        done = instance.get_materialized_partitions(dg.AssetKey("hits"))
        assert DAYS[0] in done
        assert DAYS[2] not in done
        reports = instance.get_latest_materialization_event(dg.AssetKey("search_index"))
        assert reports is not None
        assert reports.asset_materialization is not None
        cost = reports.asset_materialization.metadata["api_cost_USD"]
        assert isinstance(cost, dg.FloatMetadataValue)
        assert cost.value
    rows = workspace.tables.read("runs")
    assert rows["status"].to_list() == ["stopped"]
    assert rows["dagster_run_id"][0] == failed.run_id
    if LONG_TESTS:  # how a stopped run resumes is tested without Dagster, too
        assert run(workspace).success
        assert workspace.tables.keys("window_contexts") == [DAYS[0], DAYS[2]]
        rows = workspace.tables.read("runs")
        assert rows["status"].to_list() == ["stopped", "succeeded"]
    assert set(rows["by"]) == {"dagster"}
    assert rows["embedding_calls"].to_list() == [2, 1][: len(rows)]
