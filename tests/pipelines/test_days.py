"""What Dagster shows of each day is that day's own: its rows, its version, its failure."""

import dagster as dg
import polars as pl
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCause
from dagster._core.loader import LoadingContextForTest

from assets.reports import BY_NAME
from assets.tags import BACKFILL, tag_range
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.automation import JOB
from pipelines.definitions import define
from pipelines.instance import open_instance
from tests.long_tests import LONG_TESTS
from tests.workspaces import replace_recorded, run_job

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]
FILLED = ["2025-03-13", "2025-03-15"]
PARTITIONED = [stage.table for stage in STAGES if stage.partitioned]

pytestmark = pytest.mark.usefixtures("prepared_home")


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


def damage(workspace: Workspace, day: str) -> pl.DataFrame:
    """Let the windows of a day name a message that is not stored; give the right rows."""
    rows = workspace.tables.read("windows", [day])
    unknown = pl.concat_list("message_ids", pl.lit("gone"))
    replace_recorded(workspace, "windows", day, rows.with_columns(message_ids=unknown))
    return rows


def make_alone(workspace: Workspace, instance: dg.DagsterInstance, table: str, days: list[str]) -> None:
    """Make one table of some days in Dagster."""
    job = define(workspace).resolve_job_def(JOB)
    tags = tag_range(days[0], days[-1])
    assert job.execute_in_process(instance=instance, tags=tags, asset_selection=[dg.AssetKey(table)]).success


def find_stale(workspace: Workspace, instance: dg.DagsterInstance, table: str, day: str) -> list[StaleCause]:
    graph = define(open_workspace(workspace.root)).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return list(resolver.get_stale_root_causes(dg.AssetKey(table), day))


def count_events(instance: dg.DagsterInstance, table: str) -> list[int]:
    return [len(materializations(instance, table, day)) for day in DAYS]


def test_a_day_shows_its_own_rows_and_is_news_only_after_its_inputs_have_changed(told: Workspace) -> None:
    with open_instance(told) as instance:
        for table in PARTITIONED:
            for day in FILLED:
                [event] = materializations(instance, table, day)
                rows = told.tables.read(table, [day])
                assert event.metadata["dagster/row_count"].value == len(rows)
                assert event.tags is not None
                assert event.tags["dagster/data_version"] == told.catalog.read(table)[day].content[:16]
            assert materializations(instance, table, "2025-03-14") == []
    if LONG_TESTS:  # a run that changes one of two days shows the same of the other one
        assert run(told) == []
        with open_instance(told) as instance:
            assert {table: count_events(instance, table) for table in PARTITIONED} == {
                table: [1, 0, 1] for table in PARTITIONED
            }
    chat = told.chats_dir / "garden.txt"
    chat.write_text(chat.read_text(encoding="utf-8").replace("flat", "very flat"), encoding="utf-8")
    with open_instance(told) as instance:
        make_alone(told, instance, "messages", DAYS)
        assert find_stale(told, instance, "windows", FILLED[0]) == []
        [cause] = find_stale(told, instance, "windows", FILLED[1])
        assert (cause.asset_key, cause.partition_key) == (dg.AssetKey("messages"), FILLED[1])
        assert cause.reason == "has a new data version"
    assert run(told) == []
    with open_instance(told) as instance:
        assert find_stale(told, instance, "windows", FILLED[1]) == []
        assert {table: count_events(instance, table) for table in ("messages", "windows", "posts")} == {
            table: [1, 0, 2] for table in ("messages", "windows", "posts")
        }
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
    whole = damage(told, "2025-03-13")
    for _ in range(2 if LONG_TESTS else 1):  # a second run says the same
        [failure] = run(told)
        assert failure.startswith("windows, check unknown_messages: 1 found")
        assert failure.endswith("(2025-03-13)")
        with open_instance(told) as instance:
            assert failed_days(instance, "messages") == set()
            assert failed_days(instance, "windows") >= {"2025-03-13"}
            for table in ("windows", "hits", "window_contexts"):
                assert failed_days(instance, table).isdisjoint({"2025-03-15"})
            assert not check_passed(instance, "windows", "unknown_messages")
    # The pass of another day does not hide the failure.
    with open_instance(told) as instance:
        make_alone(told, instance, "windows", ["2025-03-15"])
        assert not check_passed(instance, "windows", "unknown_messages")
    replace_recorded(told, "windows", "2025-03-13", whole)
    assert run(told) == []
    with open_instance(told) as instance:
        assert {table: failed_days(instance, table) for table in PARTITIONED} == {
            key: set() for key in PARTITIONED
        }
        assert check_passed(instance, "windows", "unknown_messages")


def test_a_day_chosen_by_name_is_told_even_if_it_is_empty(workspace: Workspace) -> None:
    job = define(workspace).resolve_job_def(JOB)
    with open_instance(workspace) as instance:
        asked = [dg.AssetKey("messages"), dg.AssetKey("windows")]
        result = job.execute_in_process(instance=instance, partition_key="2025-03-14", asset_selection=asked)
        assert result.success
        [told] = materializations(instance, "messages", "2025-03-14")
        assert told.metadata["dagster/row_count"].value == 0
        assert BY_NAME[1] in result.dagster_run.tags
        # Neither the day before nor the day after was asked for.
        assert instance.get_materialized_partitions(dg.AssetKey("windows")) == {"2025-03-14"}


def test_one_stage_chosen_alone_is_made_alone(workspace: Workspace) -> None:
    job = define(workspace).resolve_job_def(JOB)
    with open_instance(workspace) as instance:
        result = job.execute_in_process(
            instance=instance, partition_key="2025-03-13", asset_selection=[dg.AssetKey("messages")]
        )
        assert result.success
        assert instance.get_materialized_partitions(dg.AssetKey("messages")) == {"2025-03-13"}
        assert workspace.tables.read("windows").is_empty()
        assert (workspace.tables_dir / "backstory.duckdb").is_file()
