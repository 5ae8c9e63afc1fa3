"""What Dagster sees: the asset graph as a snapshot, partitions, schedule, and that it loads as operators load it."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.workspace.load_target import WorkspaceFileTarget

from assets.tags import tag_range
from backstory.base.errors import SettingsError
from backstory.interfaces.dagster_specs.asset_specs import (
    CHATS,
    DOCUMENT_FILES,
    partitions_definition,
    partitions_of,
)
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.models import PartitionSettings
from backstory.storage.tables.partitions import partition_key, partition_range
from backstory.storage.tables.schemas import TABLES
from pipelines.automation import JOB
from pipelines.definitions import define, definitions
from pipelines.instance import open_instance, prepare_home
from tests.errors import raises

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOT = Path(__file__).with_name("asset_graph.json")


def describe_graph(definitions: dg.Definitions) -> dict[str, object]:
    graph = definitions.resolve_asset_graph()
    assets = {
        key.to_user_string(): {
            "group": graph.get(key).group_name,
            "upstream": sorted(parent.to_user_string() for parent in graph.get(key).parent_keys),
            "partitioned": graph.get(key).is_partitioned,
            "materializable": graph.get(key).is_materializable,
            "checks": {
                check.name: "stops its partition" if graph.get(check).blocking else "warns"
                for check in sorted(graph.get(key).check_keys)
            },
        }
        for key in sorted(graph.get_all_asset_keys())
    }
    return {"assets": assets}


@pytest.mark.parametrize("days", [None, 7])
def test_a_backfill_is_one_run_or_runs_of_as_many_days_as_are_set(
    workspace: Workspace, days: int | None
) -> None:
    settings = workspace.root / "backstory.yaml"
    text = settings.read_text(encoding="utf-8")
    assert "2025-03-01}" in text
    if days is not None:
        settings.write_text(
            text.replace("2025-03-01}", f"2025-03-01, days_per_run: {days}}}"), encoding="utf-8"
        )
    assets = define(open_workspace(workspace.root)).assets or ()
    [policy] = [each.backfill_policy for each in assets if isinstance(each, dg.AssetsDefinition)]
    assert policy is not None
    assert policy.max_partitions_per_run == days


def test_the_asset_graph_is_the_snapshot(workspace: Workspace) -> None:
    graph = describe_graph(define(workspace))
    expected = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert graph == expected, (
        "if the graph was meant to change, write it with tests/pipelines/write_asset_graph.py"
    )


def test_every_table_has_its_asset_and_every_asset_its_columns(workspace: Workspace) -> None:
    graph = define(workspace).resolve_asset_graph()
    assets = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert set(assets) == {*TABLES, "search_index", CHATS, DOCUMENT_FILES}
    assert all("dagster/column_schema" in assets[table].metadata for table in TABLES)
    assert {name for name, asset in assets.items() if asset.is_materializable} == {*TABLES, "search_index"}
    for name, asset in assets.items():
        assert asset.description
        assert asset.owners
        assert asset.kinds
        assert asset.tags
        assert (asset.freshness_policy is None) == (name in (CHATS, DOCUMENT_FILES))
    assert all(assets[stage.table].code_version for stage in STAGES)


@pytest.mark.parametrize("grain", ["hour", "day", "week", "month"])
def test_dagster_and_the_library_name_partitions_alike(grain: str) -> None:
    settings = PartitionSettings.model_validate({"grain": grain, "start": "2025-03-01"})
    partitions = partitions_definition(settings)
    start, end = datetime(2025, 4, 7, 0, tzinfo=UTC), datetime(2025, 6, 2, 0, tzinfo=UTC)
    keys = partitions.get_partition_keys(current_time=end)
    wanted = partition_range(partition_key(start, settings.grain), keys[-1], settings.grain)
    assert wanted == [key for key in keys if key >= wanted[0]]


@pytest.mark.parametrize(
    ("timezone", "ended"),
    [("UTC", "2025-03-13"), ("Asia/Kathmandu", "2025-03-14"), ("America/Los_Angeles", "2025-03-13")],
)
def test_the_days_of_dagster_end_in_the_time_zone_of_the_workspace(
    workspace: Workspace, timezone: str, ended: str
) -> None:
    conversations = workspace.settings.conversations.model_copy(update={"timezone": timezone})
    settings = workspace.settings.model_copy(update={"conversations": conversations})
    zoned, moment = Workspace(workspace.root, settings), datetime(2025, 3, 14, 20, tzinfo=UTC)
    assert partitions_of(zoned).get_partition_keys(current_time=moment)[-1] == ended


def test_the_job_covers_every_asset_and_check(workspace: Workspace) -> None:
    definitions = define(workspace)
    job = definitions.resolve_job_def(JOB)
    graph = definitions.resolve_asset_graph()
    assert set(job.asset_layer.selected_asset_keys) == graph.materializable_asset_keys
    assert job.asset_layer.asset_graph.asset_check_keys == graph.asset_check_keys


def test_settings_that_cannot_be_read_are_an_error_of_the_code_location(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.root / "backstory.yaml").write_text("rag:\n  topk: 3\n", encoding="utf-8")
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(workspace.root))
    with raises(SettingsError, "unknown_setting", "rag.topk"):
        definitions()


def dagster_environment(workspace: Workspace) -> dict[str, str]:
    """Give the environment that docs/reference/dagster.md names for Dagster's own commands."""
    prepare_home(workspace)
    return {
        **os.environ,
        "BACKSTORY_WORKSPACE": str(workspace.root),
        "DAGSTER_HOME": str(workspace.dagster_home),
        "PYTHONWARNINGS": "ignore",
    }


def test_the_file_of_the_locations_names_the_definitions() -> None:
    [origin] = WorkspaceFileTarget([str(ROOT / "workspace.yaml")]).create_origins()
    assert origin.location_name == "backstory"
    assert origin.loadable_target_origin.module_name == "pipelines.definitions"


@pytest.mark.long
def test_dagsters_command_materializes_a_range_into_the_history_of_the_workspace(
    workspace: Workspace,
) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "dagster", "asset", "materialize", "--select", "*"),
            *("--partition-range", "2025-03-13...2025-03-15", "-m", "pipelines.definitions"),
        ],
        env=dagster_environment(workspace),
        cwd=ROOT,
        timeout=600,
        check=True,
    )
    assert workspace.tables.read("window_contexts").height == 3
    with open_instance(workspace) as instance:
        [run] = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS


def test_an_asset_of_others_runs_after_what_it_reads(workspace: Workspace) -> None:
    ran: list[list[str]] = []

    @dg.asset(
        deps=["posts"],
        partitions_def=partitions_of(workspace),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def letters_home(context: dg.AssetExecutionContext) -> None:
        ran.append(list(context.partition_keys))

    together = dg.define_asset_job("together", dg.AssetSelection.all())
    merged = dg.Definitions.merge(define(workspace), dg.Definitions(assets=[letters_home], jobs=[together]))
    days = partition_range("2025-03-13", "2025-03-15", "day")
    with open_instance(workspace) as instance:
        for job in (JOB, "together"):
            result = merged.resolve_job_def(job).execute_in_process(
                instance=instance, tags=tag_range(days[0], days[-1])
            )
            assert result.success
            assert not [event for event in result.all_events if event.is_step_skipped]
    assert ran == [days]
