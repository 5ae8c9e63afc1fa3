"""What is left of Dagster's history after old runs are deleted: everything that the asset pages show."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.dagster_internals.history import delete_history
from pipelines.instance import open_instance
from tests.pipelines.test_days import DAYS, check_passed, damage, failed_days, materializations
from tests.workspaces import run_job

LATER = timedelta(days=31)


def shown(instance: dg.DagsterInstance) -> dict[str, object]:
    """Collect what the asset pages show: partitions, their last events and failures, and the results of checks."""
    facts: dict[str, object] = {}
    for stage in STAGES:
        key = dg.AssetKey(stage.table)
        last = instance.get_latest_materialization_event(key)
        facts[stage.table] = (
            instance.get_materialized_partitions(key),
            [materializations(instance, stage.table, day)[:1] for day in DAYS],
            failed_days(instance, stage.table),
            last.timestamp if last else None,
        )
    facts["check"] = check_passed(instance, "windows", "contract_breaches")
    return facts


@pytest.mark.long
def test_old_runs_are_deleted_and_what_the_assets_show_stays(told: Workspace) -> None:
    def run() -> bool:
        return not run_job(open_workspace(told.root), DAYS).failures

    damage(told, "windows", "2025-03-15")
    assert not run()
    assert not run()
    with open_instance(told) as instance:
        newest, failed_before, first = (one.run_id for one in instance.get_runs())
        before = shown(instance)
        stored = Path(told.dagster_home) / "history" / "runs"
        assert delete_history(instance, datetime.now(UTC) - LATER) == 0

        assert delete_history(instance, datetime.now(UTC) + LATER) == 2

        assert shown(instance) == before
        assert len(materializations(instance, "messages", "2025-03-13")) == 1
        kept = {one.run_id for one in instance.get_runs()}
        assert newest in kept
        assert (stored / f"{newest}.db").is_file()
        for run_id in {failed_before, first}:
            assert not (stored / f"{run_id}.db").exists()
