"""What is left of Dagster's history after old runs are deleted: the asset pages show what is built."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.automation import prune_runs
from pipelines.instance import open_instance
from tests.pipelines.test_days import DAYS, check_passed, damage, materializations
from tests.workspaces import run_job

LATER = timedelta(days=31)
BROKEN = "2025-03-15"


@pytest.mark.long
def test_old_runs_are_deleted_and_what_is_built_stays_shown(told: Workspace) -> None:
    damage(told, BROKEN)
    assert run_job(open_workspace(told.root), DAYS).failures
    with open_instance(told) as instance:

        def shown() -> dict[str, object]:
            facts: dict[str, object] = {
                stage.table: set(instance.get_materialized_partitions(dg.AssetKey(stage.table))) - {BROKEN}
                for stage in STAGES
            }
            return facts | {"check": check_passed(instance, "windows", "unknown_messages")}

        runs, before = [run.run_id for run in instance.get_runs()], shown()
        stored = Path(told.dagster_home) / "history" / "runs"
        assert prune_runs(told, instance, datetime.now(UTC) - LATER) == 0
        assert all((stored / f"{run}.db").is_file() for run in runs)

        assert prune_runs(told, instance, datetime.now(UTC) + LATER) == len(runs) == 2

        assert shown() == before
        assert len(materializations(instance, "messages", "2025-03-13")) == 1
        assert not instance.get_runs()
        assert not [run for run in runs if (stored / f"{run}.db").exists()]
