"""What other code locations are given agrees with the assets of this project, and reads what these wrote."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from assets.tags import tag_range
from backstory.base.errors import InputError, WorkspaceError
from backstory.interfaces.dagster_specs.asset_specs import asset_key, asset_specs, partitions_of
from backstory.interfaces.dagster_specs.tables_resource import TablesResource
from backstory.pipeline.workspace import Workspace
from pipelines.automation import JOB
from pipelines.definitions import define
from pipelines.instance import open_instance
from tests.errors import raises
from tests.workspaces import run_job

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


def test_a_setting_changes_the_code_version_of_the_stages_that_may_read_it(
    make_workspace: Callable[..., Workspace],
) -> None:
    versions = []
    for number, cutting in enumerate(("", "chunks: {max_tokens: 200}\n")):
        workspace = make_workspace(f"embedding: {{provider: hashing}}\n{cutting}", name=f"w{number}")
        versions.append({spec.key.path[-1]: spec.code_version for spec in asset_specs(workspace.root)})
    changed = {name for name, version in versions[0].items() if versions[1][name] != version}
    assert changed == {"window_chunks", "document_chunks", "window_contexts"}  # which names the cuts


def test_the_resource_reads_the_wanted_partitions(made_workspace: Workspace) -> None:
    tables = TablesResource(root=str(made_workspace.root))
    day = tables.read("window_contexts", ["2025-03-15"])
    assert day.equals(made_workspace.tables.read("window_contexts", ["2025-03-15"]))
    assert 0 < day.height < tables.read("window_contexts").height
    through_ibis = tables.connect().table("windows").to_polars()
    assert isinstance(through_ibis, pl.DataFrame)
    assert through_ibis.equals(tables.read("windows"))


def test_a_folder_that_is_no_workspace_is_named_and_not_read_as_empty(tmp_path: Path) -> None:
    tables = TablesResource(root=str(tmp_path))
    with raises(WorkspaceError, "no_workspace", tmp_path):
        tables.read("windows")
    with raises(WorkspaceError, "no_workspace", tmp_path):
        tables.connect()


def test_a_table_that_does_not_exist_is_named(workspace: Workspace) -> None:
    with raises(InputError, "unknown_table"):
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
        with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
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
    assert run_job(workspace, ["2025-03-13"]).failures == []
    with open_instance(workspace) as instance:
        told = instance.get_latest_materialization_event(dg.AssetKey(["family", "window_contexts"]))
        assert told is not None
        assert "dagster/input_data_version/family/contexts" in (told.tags or {})
        assert instance.get_materialized_partitions(dg.AssetKey(["family", "messages"])) == {"2025-03-13"}
        assert {key.path[0] for key in instance.all_asset_keys()} == {"family"}
