"""What Dagster shows of each day is that day's own: its rows, its version, its failure."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.materialization_events import BY_NAME
from assets.tags import BACKFILL
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.parquet import read_table
from pipelines.dagster_internals.instance import open_instance
from pipelines.definitions import JOB, define
from pipelines.run_plan import tag_range
from tests.workspaces import SETTINGS, copy_made, replace_recorded, run_job, write_workspace

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]
FILLED = ["2025-03-13", "2025-03-15"]
PARTITIONED = [stage.table for stage in STAGES if stage.partitioned]


def run(workspace: Workspace) -> list[str]:
    return list(run_job(open_workspace(workspace.root), DAYS).failures)


def materializations(instance: dg.DagsterInstance, table: str, day: str) -> list[dg.AssetMaterialization]:
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(table), asset_partitions=[day])
    found = [
        record.asset_materialization for record in instance.fetch_materializations(wanted, limit=50).records
    ]
    return [one for one in found if one is not None]


def failed_days(instance: dg.DagsterInstance, table: str) -> set[str]:
    storage = instance.event_log_storage
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        dg.AssetKey(table)
    )
    failed = set()
    for day, (run_id, _) in attempts.items():
        attempt = instance.get_run_by_id(run_id)
        if attempt is not None and attempt.status is dg.DagsterRunStatus.FAILURE:
            failed.add(day)
    return failed


def check_passed(instance: dg.DagsterInstance, table: str, name: str) -> bool:
    [record] = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey(table), name), limit=1
    )
    evaluation = (
        record.event.dagster_event.asset_check_evaluation_data
        if record.event and record.event.dagster_event
        else None
    )
    return evaluation is not None and evaluation.passed


def damage(workspace: Workspace, table: str, day: str) -> pl.DataFrame:
    """Repeat a row of a day as if its stage had made it so; give the right rows."""
    rows = read_table(workspace.tables, table, [day])
    replace_recorded(workspace, table, day, pl.concat([rows, rows.head(1)]))
    return rows


@pytest.fixture(scope="module")
def told_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace after its first run, with Dagster's history of it, which no test changes."""
    workspace = write_workspace(
        tmp_path_factory.mktemp("told") / "workspace", f"{SETTINGS}writers: {{provider: digest}}\n"
    )
    assert run(workspace) == []
    return workspace.root


@pytest.fixture
def told(told_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(told_once, tmp_path / "workspace")


def test_a_day_shows_its_own_rows_and_a_rerun_is_no_news(told: Workspace) -> None:
    with open_instance(told) as instance:
        for table in PARTITIONED:
            for day in FILLED:
                [event] = materializations(instance, table, day)
                rows = read_table(told.tables, table, [day])
                assert event.metadata["dagster/row_count"].value == len(rows)
                assert event.tags is not None
                assert event.tags["dagster/data_version"] == told.ledger.read(table)[day].content[:16]
            assert materializations(instance, table, "2025-03-14") == []
    assert run(told) == []
    chat = told.chats_dir / "garden.txt"
    chat.write_text(chat.read_text(encoding="utf-8").replace("flat", "very flat"), encoding="utf-8")
    assert run(told) == []
    with open_instance(told) as instance:
        assert [len(materializations(instance, "messages", day)) for day in FILLED] == [1, 2]
        assert [len(materializations(instance, "windows", day)) for day in FILLED] == [1, 2]
        # A backfill ends well only if every selected asset has an event of its runs, changed or not.
        backfill = define(told).resolve_job_def(JOB)
        tags = {BACKFILL: "of-test", **tag_range(DAYS[0], DAYS[-1])}
        result = backfill.execute_in_process(instance=instance, tags=tags)
        for stage in STAGES:
            latest = instance.get_latest_materialization_event(dg.AssetKey(stage.table))
            assert latest is not None
            assert latest.run_id == result.run_id
        assert instance.get_materialized_partitions(dg.AssetKey("messages")) == set(DAYS)


def test_a_broken_day_is_red_alone_until_it_is_right(told: Workspace) -> None:
    whole = damage(told, "windows", "2025-03-13")
    for _ in range(2):
        [failure] = run(told)
        assert failure.startswith("windows, check contract_breaches: 1 found")
        assert failure.endswith("(2025-03-13)")
        with open_instance(told) as instance:
            assert failed_days(instance, "messages") == set()
            assert failed_days(instance, "windows") >= {"2025-03-13"}
            for table in ("windows", "hits", "window_contexts"):
                assert failed_days(instance, table).isdisjoint({"2025-03-15"})
            assert not check_passed(instance, "windows", "contract_breaches")
    replace_recorded(told, "windows", "2025-03-13", whole)
    assert run(told) == []
    with open_instance(told) as instance:
        assert {table: failed_days(instance, table) for table in PARTITIONED} == {
            key: set() for key in PARTITIONED
        }
        assert check_passed(instance, "windows", "contract_breaches")


def test_the_pass_of_another_day_does_not_hide_a_failure(told: Workspace) -> None:
    damage(told, "windows", "2025-03-13")
    assert len(run(told)) == 1
    other = run_job(open_workspace(told.root), ["2025-03-15"])
    assert other.failures == []
    with open_instance(told) as instance:
        assert not check_passed(instance, "windows", "contract_breaches")


def test_a_day_chosen_by_name_is_told_even_if_it_is_empty(workspace: Workspace) -> None:
    job = define(workspace).resolve_job_def(JOB)
    with open_instance(workspace) as instance:
        result = job.execute_in_process(instance=instance, partition_key="2025-03-14")
        assert result.success
        [told] = materializations(instance, "messages", "2025-03-14")
        assert told.metadata["dagster/row_count"].value == 0
        assert BY_NAME[1] in result.dagster_run.tags
        # Neither the day before nor the day after was asked for.
        assert instance.get_materialized_partitions(dg.AssetKey("windows")) == {"2025-03-14"}


def test_one_stage_chosen_alone_is_made_alone(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace()
    job = define(workspace).resolve_job_def(JOB)
    with open_instance(workspace) as instance:
        result = job.execute_in_process(
            instance=instance, partition_key="2025-03-13", asset_selection=[dg.AssetKey("messages")]
        )
        assert result.success
        assert instance.get_materialized_partitions(dg.AssetKey("messages")) == {"2025-03-13"}
        assert read_table(workspace.tables, "windows").is_empty()
        assert (workspace.tables / "backstory.duckdb").is_file()
