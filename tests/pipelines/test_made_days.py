"""Days that were made without Dagster are no missing days in its UI."""

import dagster as dg
import pytest

from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.turns import running
from pipelines.automation import report_made
from pipelines.definitions import define
from pipelines.instance import open_instance
from tests.pipelines.test_days import DAYS, FILLED, damage, make_alone, materializations
from tests.workspaces import find_file, run_workspace

PARTITIONED = ("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "window_contexts")
WHOLE_TABLES = ("documents", "document_chunks", "search_index", "quarantine", "sources")

pytestmark = pytest.mark.usefixtures("prepared_home")


def made(instance: dg.DagsterInstance, table: str) -> set[str]:
    return instance.get_materialized_partitions(dg.AssetKey(table))


def test_days_that_the_command_made_are_reported_once_with_their_own_rows(made_workspace: Workspace) -> None:
    with open_instance(made_workspace) as instance:
        count = len(PARTITIONED) * len(FILLED) + len(WHOLE_TABLES)
        assert report_made(made_workspace, instance) == count
        assert [made(instance, table) for table in PARTITIONED] == [set(FILLED)] * len(PARTITIONED)
        for day in FILLED:
            [event] = materializations(instance, "messages", day)
            assert event.metadata["dagster/row_count"].value == len(
                made_workspace.tables.read("messages", [day])
            )
        for stage in STAGES:
            if not stage.partitioned:
                assert instance.get_latest_materialization_event(dg.AssetKey(stage.table)) is not None
        assert instance.get_runs() == []
        assert report_made(made_workspace, instance) == 0

        # A day that the command makes again is reported alone, and a run of Dagster has no news after it.
        chat = made_workspace.chats_dir / "garden.txt"
        chat.write_text(chat.read_text(encoding="utf-8").replace("flat", "very flat"), encoding="utf-8")
        assert run_workspace(open_workspace(made_workspace.root), DAYS).success
        assert report_made(made_workspace, instance)
        assert [len(materializations(instance, "messages", day)) for day in FILLED] == [1, 2]
        make_alone(made_workspace, instance, "messages", DAYS)
        assert [len(materializations(instance, "messages", day)) for day in FILLED] == [1, 2]


def test_the_sensor_reports_them_too(made_workspace: Workspace) -> None:
    with open_instance(made_workspace) as instance:
        definitions = define(made_workspace)
        context = dg.build_sensor_context(instance, definitions=definitions)
        definitions.resolve_sensor_def("changed_files").evaluate_tick(context)
        assert made(instance, "messages") == set(FILLED)


def test_days_that_failed_and_those_that_a_run_would_make_again_are_not_reported(
    made_workspace: Workspace,
) -> None:
    damage(made_workspace, FILLED[0])
    outcome = run_workspace(open_workspace(made_workspace.root), DAYS)
    assert not outcome.success
    with open_instance(made_workspace) as instance:
        assert report_made(open_workspace(made_workspace.root), instance)
        assert made(instance, "messages") == set(FILLED)
        assert {table: made(instance, table) for table in PARTITIONED[1:]} == {
            table: {FILLED[1]} for table in PARTITIONED[1:]
        }


def test_the_settings_of_later_are_not_told_of_days_made_before(made_workspace: Workspace) -> None:
    settings = made_workspace.root / "backstory.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace("size: 6", "size: 5"), encoding="utf-8")
    with open_instance(made_workspace) as instance:
        assert report_made(open_workspace(made_workspace.root), instance)
        assert made(instance, "messages") == set(FILLED)
        assert made(instance, "windows") == set()


def test_nothing_is_reported_while_a_run_is_under_way(made_workspace: Workspace) -> None:
    with open_instance(made_workspace) as instance, running(made_workspace.catalog.state, "another run"):
        assert report_made(made_workspace, instance) is None
        assert made(instance, "messages") == set()


def test_a_workspace_without_tables_has_nothing_to_report(workspace: Workspace) -> None:
    with open_instance(workspace) as instance:
        assert report_made(workspace, instance) == 0
    assert not workspace.tables_dir.exists()


def test_a_damaged_day_is_left_out(made_workspace: Workspace) -> None:
    find_file(made_workspace.root, "windows", FILLED[0]).write_bytes(b"PAR1")
    with open_instance(made_workspace) as instance:
        assert report_made(made_workspace, instance)
        assert made(instance, "messages") == set(FILLED)
        assert made(instance, "windows") == {FILLED[1]}
