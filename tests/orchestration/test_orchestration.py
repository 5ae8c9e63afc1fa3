"""What other code locations are given agrees with the assets of this project, and reads what these wrote."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from backstory.errors import InputError, WorkspaceError
from backstory.orchestration import TablesResource, asset_key, asset_specs, partitions_of
from backstory.tables import read_table
from backstory.workspace import Workspace
from pipelines.definitions import JOB, define
from pipelines.instance import open_instance
from pipelines.materialization import execute_job
from pipelines.run_plan import tag_range

DAYS = ("2025-03-13", "2025-03-15")


def test_the_specs_describe_the_assets_of_this_project(workspace: Workspace) -> None:
    graph = define(workspace).resolve_asset_graph()
    specs = {spec.key: spec for spec in asset_specs(workspace.root)}
    assert set(specs) == set(graph.get_all_asset_keys())
    for key, spec in specs.items():
        asset = graph.get(key)
        assert spec.group_name == asset.group_name
        assert spec.partitions_def == asset.partitions_def
        assert spec.kinds == asset.kinds
        assert spec.metadata.get("dagster/column_schema") == asset.metadata.get("dagster/column_schema")
        assert spec.description == asset.description
        assert {dep.asset_key for dep in spec.deps} == asset.parent_keys


def test_every_column_has_its_origins_among_the_assets_that_lie_before_it(workspace: Workspace) -> None:
    graph = define(workspace).resolve_asset_graph()
    columns = {
        key: [column.name for column in graph.get(key).metadata["dagster/column_schema"].columns]
        for key in graph.get_all_asset_keys()
        if key.path != ["search_index"]
    }
    for key in graph.materializable_asset_keys - {dg.AssetKey("search_index")}:
        lineage = graph.get(key).metadata["dagster/column_lineage"].deps_by_column
        assert list(lineage) == columns[key], (
            "column_origins.py lists the columns of each table in their order"
        )
        assert any(lineage.values())
        before = graph.get_ancestor_asset_keys(key)
        for origins in lineage.values():
            for origin in origins:
                assert origin.asset_key in before
                assert origin.column_name in columns[origin.asset_key]
            assert len(set(origins)) == len(origins)


def test_the_resource_reads_the_wanted_partitions(made_workspace: Workspace) -> None:
    tables = TablesResource(root=str(made_workspace.root))
    day = tables.read("window_contexts", ["2025-03-15"])
    assert day.equals(read_table(made_workspace.tables, "window_contexts", ["2025-03-15"]))
    assert 0 < day.height < tables.read("window_contexts").height
    through_ibis = tables.connect().table("windows").to_polars()
    assert isinstance(through_ibis, pl.DataFrame)
    assert through_ibis.equals(tables.read("windows"))


def test_a_folder_that_is_no_workspace_is_named_and_not_read_as_empty(tmp_path: Path) -> None:
    tables = TablesResource(root=str(tmp_path))
    with pytest.raises(WorkspaceError, match=str(tmp_path)):
        tables.read("windows")
    with pytest.raises(WorkspaceError, match=str(tmp_path)):
        tables.connect()


def test_a_table_that_does_not_exist_is_named(workspace: Workspace) -> None:
    with pytest.raises(InputError, match="window_context"):
        TablesResource(root=str(workspace.root)).read("window_context")


@pytest.mark.long
def test_a_writer_elsewhere_is_asked_for_the_days_whose_contexts_have_changed(workspace: Workspace) -> None:
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())

    @dg.asset(
        deps=["window_contexts"],
        partitions_def=partitions_of(workspace),
        automation_condition=changed & ~dg.AutomationCondition.in_progress(),
    )
    def letters() -> None: ...

    def run(**tags: str) -> None:
        job = define(workspace).resolve_job_def(JOB)
        assert job.execute_in_process(instance=instance, tags=tag_range(*DAYS) | tags).success

    cursors: list[AssetDaemonCursor] = []

    def evaluate() -> set[str | None]:
        found = dg.evaluate_automation_conditions(
            elsewhere, instance, cursor=cursors[-1] if cursors else None
        )
        cursors.append(found.cursor)
        return set(found.get_requested_partitions(letters.key))

    with open_instance(workspace) as instance:
        elsewhere = dg.Definitions(assets=[*asset_specs(workspace.root), letters])
        assert evaluate() == set()
        run()
        assert evaluate() == {"2025-03-13", "2025-03-15"}
        # A backfill reports every day, those with the same version again, and for the first time the empty one.
        run(**{"dagster/backfill": "again"})
        assert evaluate() == {"2025-03-14"}
        with (workspace.exports / "garden.txt").open("a", encoding="utf-8") as chat:
            chat.write("13/03/2025, 20:00 - Ada Lind: The moths in the evening\n")
        run()
        assert evaluate() == {"2025-03-13"}


def test_two_workspaces_with_prefixes_share_an_instance(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace("embedding: {provider: hashing}\norchestration: {key_prefix: family}\n")
    graph = define(workspace).resolve_asset_graph()
    keys = {spec.key for spec in asset_specs(workspace.root)}
    assert keys == set(graph.get_all_asset_keys())
    assert {key.path[0] for key in keys} == {"family"}
    assert asset_key(workspace, "contexts") in keys
    assert execute_job(workspace, ["2025-03-13"], lambda _: None).failures == []
    with open_instance(workspace) as instance:
        told = instance.get_latest_materialization_event(dg.AssetKey(["family", "window_contexts"]))
        assert told is not None
        assert "dagster/input_data_version/family/contexts" in (told.tags or {})
        assert instance.get_materialized_partitions(dg.AssetKey(["family", "messages"])) == {"2025-03-13"}
        assert {key.path[0] for key in instance.all_asset_keys()} == {"family"}
