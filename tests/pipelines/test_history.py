"""What is left of Dagster's history after old runs are deleted: everything that the asset pages show."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from backstory.base.errors import InputError
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.dagster_internals.instance import open_instance
from pipelines.dagster_internals.public_api import PUBLIC_VARIABLE
from pipelines.definitions import define
from pipelines.pruning import prune_history
from tests.errors import raises
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
        assert prune_history(instance, 30, datetime.now(UTC)) == (0, 0, 0)

        pruned = prune_history(instance, 30, datetime.now(UTC) + LATER)

        assert pruned.events > 0
        assert shown(instance) == before
        assert len(materializations(instance, "messages", "2025-03-13")) == 1
        kept = {one.run_id for one in instance.get_runs()}
        assert newest in kept
        assert pruned.runs + len(kept) == 3
        assert (stored / f"{newest}.db").is_file()
        for run_id in {failed_before, first}:
            assert not (stored / f"{run_id}.db").exists()
        with raises(InputError, "out_of_range", "keep_days", 0):
            prune_history(instance, 0, datetime.now(UTC))
        schedule = define(told).resolve_schedule_def("prune_history_nightly")
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
        job = define(told).resolve_job_def("prune_history")
        assert job.execute_in_process(instance=instance).success


def test_the_public_api_deletes_only_runs_that_no_asset_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PUBLIC_VARIABLE, "1")

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
    def letters() -> None: ...

    @dg.asset
    def faulty() -> None:
        raise ValueError

    with dg.DagsterInstance.ephemeral() as instance:

        def build(asset: dg.AssetsDefinition, partition: str | None = None) -> str:
            result = dg.materialize([asset], instance=instance, partition_key=partition, raise_on_error=False)
            return result.run_id

        superseded, failed, of_b = build(letters, "a"), build(faulty), build(letters, "b")
        of_a = build(letters, "a")
        assert prune_history(instance, 30, datetime.now(UTC)) == (0, 0, 0)

        pruned = prune_history(instance, 30, datetime.now(UTC) + LATER)

        assert pruned.runs == 1
        assert {run.run_id for run in instance.get_runs()} == {failed, of_a, of_b}
        assert instance.get_run_by_id(superseded) is None
        assert instance.get_materialized_partitions(letters.key) == {"a", "b"}
